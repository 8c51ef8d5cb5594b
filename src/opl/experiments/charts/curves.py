"""Metrics over the epochs: figure 3 (s, d and orthogonality) and the learning curves of the page.

Each seed is a thin line; from five seeds on, a band is the 95 % interval of the mean instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ...errors import FolderError
from ..item import Row
from ..results.comparisons import range_of
from ..results.runs import Rows, Run
from ..statistics import ANY, ENOUGH, Range, interval
from .figure import Axes, Figure, Order, Rendering, new_figure
from .style import Array, color, glyph, print_label
from .svg import DataTable, Scale, axes, drawing, element, extent, line_path, short, symbols_path, ticks

MEASURES = {
    "orthogonality": "orthogonality (lower is better)",
    "s": "s, same class (higher is better)",
    "d": "d, other classes (lower is better)",
}
"""The metrics of figure 3."""
MAIN = {
    "val/top1": "validation accuracy, %",
    "val/loss": "validation cross-entropy, without OPL's term",
    "s": "s: cosine within a class",
    "d": "d: |cosine| between classes",
}
"""The metrics that the page always shows."""
FURTHER = {
    "train/entropy": "training cross-entropy",
    "train/projection": "OPL's term in training",
    "train/loss": "training loss with all terms of a method: not comparable between methods",
    "gamma_needed": "gamma above which OPL lowers d",
    "class_cosine": "largest cosine between two class means",
    "train/without_positive": "share of training samples without another sample of their class",
    "kept": "share of the training images that pruning keeps",
    "kept/clean": "share of the kept training images with a correct label",
}
"""The metrics that the page folds away."""

POINTS = 12_000  # of all curves of an experiment on the page
LEAST, LONGEST = 4, 80  # epochs per curve on the page
MANY, SOME = 8, 12  # with more rows, the data table has one row per curve and a column for each of some epochs
AT_FIRST = 6  # curves that are initially visible
WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 36


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one method over the epochs, for each seed."""

    label: str
    epochs: tuple[int, ...]
    seeds: tuple[int, ...]
    values: Array
    """(seeds, epochs); NaN where a run does not have the epoch."""
    within: Range = ANY
    """The possible values."""

    @property
    def has_band(self) -> bool:
        """Whether there are enough seeds to draw an interval; otherwise each seed is a line."""
        return len(self.seeds) >= ENOUGH

    @property
    def seed_lines(self) -> list[list[float]]:
        """The values of each seed, where every seed is drawn besides the mean; empty otherwise."""
        return np.asarray(self.values).tolist() if 1 < len(self.seeds) < ENOUGH else []


@dataclass(frozen=True)
class Panel:
    """The curves of one metric, which share their axes."""

    name: str
    title: str
    curves: Sequence[Curve]

    @property
    def epochs(self) -> list[int]:
        """The epochs of all curves; with many curves, only some epochs, including the last."""
        known = sorted({epoch for curve in self.curves for epoch in curve.epochs})
        step = -(-len(known) // SOME) if len(self.curves) > MANY else 1
        return known[::-1][::step][::-1]


def curve(label: str, runs: Sequence[Run], measure: str, most: int = 0) -> Curve:
    """Return the curve of a metric over the epochs, counted from 1; values that are missing or not numbers become NaN.

    It keeps at most `most` epochs, evenly spaced, and the last; 0 keeps all.
    """
    columns = [run.column(measure) for run in runs]
    known = np.zeros(max((len(column) for column in columns), default=0), dtype=bool)
    for column in columns:
        known[: len(column)] |= ~np.isnan(column)
    epochs = np.flatnonzero(known) if known.any() else np.zeros(1, dtype=int)
    if most:
        epochs = np.union1d(epochs[:: math.ceil(len(epochs) / most)], epochs[-1:])
    values = np.full((len(runs), len(epochs)), math.nan)
    for row, column in zip(values, columns, strict=True):
        reached = epochs < len(column)
        row[reached] = column[epochs[reached]]
    seeds = tuple(run.seed for run in runs)
    return Curve(label, tuple(int(epoch) + 1 for epoch in epochs), seeds, values, range_of(measure))


def band(curve: Curve) -> tuple[Array, Array, Array]:
    """Return the mean over the seeds, and the lower and upper end of its 95 % interval, for each epoch.

    If only one seed has the epoch, all three are its value; if none has it, NaN.

    Example:
        >>> mean, low, high = band(Curve("CE", (1,), (0, 1, 2), np.array([[1.0], [2.0], [3.0]])))
        >>> [round(float(part[0]), 3) for part in (mean, low, high)]
        [2.0, -0.484, 4.484]
    """
    values = np.asarray(curve.values, dtype=float)
    intervals = [interval(column[np.isfinite(column)].tolist(), within=curve.within) for column in values.T]
    ends = [(mean.low, mean.high) if mean.size > 1 else (mean.mean, mean.mean) for mean in intervals]
    lows, highs = zip(*ends, strict=True)
    return np.array([mean.mean for mean in intervals]), np.array(lows), np.array(highs)


def panels(rows: Rows) -> tuple[list[Panel], list[Panel]]:
    """Return the panels of the main metrics and of further metrics; metrics without values are left out.

    The training cross-entropy takes the place of a validation cross-entropy that was not recorded.
    """
    rows = [(row, recorded) for row, runs in rows if (recorded := [run for run in runs if run.records])]
    if not rows:
        return [], []
    validated = any(np.isfinite(run.column("val/loss")).any() for _, runs in rows for run in runs)
    main = MAIN if validated else {**MAIN, "train/entropy": FURTHER["train/entropy"]}
    further = {name: title for name, title in FURTHER.items() if name not in main}
    most = min(LONGEST, max(LEAST, POINTS // (len(MAIN) * sum(len(runs) for _, runs in rows))))
    groups = []
    for names in (main, further):
        candidates = [
            Panel(name, title, [curve(row.label, runs, name, most) for row, runs in rows])
            for name, title in names.items()
        ]
        groups.append([panel for panel in candidates if any(np.isfinite(curve.values).any() for curve in panel.curves)])
    return groups[0], groups[1]


def data_table(panel: Panel, key: str) -> DataTable:
    """Return the mean of each curve at each epoch and, where seeds are few, the value of every seed."""
    columns = [[_describe_value(curve, epoch, len(panel.curves)) for epoch in panel.epochs] for curve in panel.curves]
    labels, epochs = [curve.label for curve in panel.curves], panel.epochs
    if len(panel.curves) > MANY:
        rows = [(label, *column) for label, column in zip(labels, columns, strict=True)]
        return DataTable(panel.title, ("at epoch", *map(str, epochs)), rows, key=key, kind="plain turned")
    by_epoch = [(epoch, *(column[index] for column in columns)) for index, epoch in enumerate(epochs)]
    return DataTable(panel.title, ("epoch", *labels), by_epoch, key=key)


def to_svg(panel: Panel, key: str) -> Markup:
    """Draw the panel as a chart of the page; the script reads the values of `data_table(panel, key)`."""
    values = [value for curve in panel.curves for value in np.ravel(curve.values).tolist()]
    values += [end for curve in panel.curves if curve.has_band for end in np.ravel(band(curve)[1:]).tolist()]
    epochs = [epoch for curve in panel.curves for epoch in curve.epochs]
    alone = 0.5 * (min(epochs) == max(epochs))
    x = Scale(min(epochs) - alone, max(epochs) + alone, LEFT, WIDTH - RIGHT)
    y = Scale(*extent(values), HEIGHT - BOTTOM, TOP)
    across = {value: f"{value:g}" for value in ticks(x.low, x.high, 6) if value == round(value)}
    lines = [_svg_line(curve, index, x, y) for index, curve in enumerate(panel.curves)]
    cursor = element("line", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM, class_="cursor")
    means = [(curve.label, mean[np.isfinite(mean)]) for curve in panel.curves for mean in band(curve)[:1]]
    ends = ", ".join(f"{name} {mean[-1]:.4g}" for name, mean in means if len(mean))
    label = f"{panel.title}, over the epochs; at the end {ends}."
    positions = "[" + ",".join(short(x.at(epoch)) for epoch in panel.epochs) + "]"
    frame = axes(x, y, across, "epoch")
    return drawing(label, WIDTH, HEIGHT, frame, *lines, cursor, lines=key, positions=positions)


def draw(panels: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw a matplotlib figure: one panel per metric, side by side; a method has the same color in all panels."""
    order = list(dict.fromkeys(curve.label for curves in panels.values() for curve in curves))
    with new_figure(max(3.2, 2.7 * len(panels)), 2.6, columns=len(panels)) as (figure, [grid]):
        for panel_axes, (title, curves) in zip(grid, panels.items(), strict=True):
            panel_axes.set_title(print_label(title, width=36), loc="left", fontsize=8)
            panel_axes.set_xlabel("epoch")
            panel_axes.locator_params(axis="x", integer=True)
            for curve in curves:
                _draw_line(panel_axes, curve, order.index(curve.label))
        drawn = [line for panel_axes in grid for line in panel_axes.get_legend_handles_labels()[0]]
        lines = {line.get_label(): line for line in drawn}
        figure.legend(handles=list(lines.values()), loc="outside lower center", ncols=min(len(lines), 4))
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render orthogonality, s and d of each row and, as text, their final values."""
    panels = {title: [complete_curve(row, runs, name) for row, runs in rows] for name, title in MEASURES.items()}
    text = []
    for title, curves in panels.items():
        for curve in curves:
            mean, low, high = band(curve)
            ends = f" [{low[-1]:.3f}, {high[-1]:.3f}]" if np.isfinite(curve.values[:, -1]).sum() > 1 else ""
            text.append(f"{title}, {curve.label}: {mean[-1]:.3f}{ends} at the end")
    return Rendering({"": draw(panels)}, text)


def complete_curve(row: Row, runs: Sequence[Run], measure: str) -> Curve:
    """Return the curve of a metric; raise if the runs do not have it."""
    complete = curve(row.label, runs, measure)
    if not np.isfinite(complete.values).any():
        raise FolderError(
            f"the records of {row.recipe} have no {measure}, which is measured on held-out images: hold some out, for "
            "example with --data.val 5000."
        )
    return complete


def _draw_line(axes: Axes, curve: Curve, index: int) -> None:
    mean, low, high = band(curve)
    known = np.isfinite(mean)
    epochs, shade = np.array(curve.epochs)[known], color(index)
    step = max(1, len(mean) // 8)  # a few symbols distinguish the lines in grayscale too
    label = print_label(curve.label)
    axes.plot(epochs, mean[known], color=shade, marker=glyph(index), markersize=3.5, markevery=step, label=label)
    if curve.has_band:
        axes.fill_between(epochs, low[known], high[known], color=shade, alpha=0.2, linewidth=0)
    for seed in curve.seed_lines:
        axes.plot(curve.epochs, seed, color=shade, alpha=0.35, linewidth=0.7)


def _svg_line(curve: Curve, index: int, x: Scale, y: Scale) -> Markup:
    """Draw a curve: its seeds or band, and the mean with a few symbols, which distinguish lines in grayscale too."""

    def positions(values: Sequence[float]) -> list[tuple[float, float]]:
        pairs = zip(curve.epochs, values, strict=True)
        return [(x.at(epoch), y.at(value)) for epoch, value in pairs if math.isfinite(value)]

    mean, low, high = (positions(part.tolist()) for part in band(curve))
    parts = [
        element("path", d=line_path(positions(seed)), class_="thin", stroke=color(index)) for seed in curve.seed_lines
    ]
    if curve.has_band:
        parts.append(element("path", d=f"{line_path([*high, *low[::-1]])}z", class_="band", fill=color(index)))
    symbols = symbols_path(mean[:: max(1, len(mean) // 6)], index)
    parts.append(element("path", d=line_path(mean), class_="thick", stroke=color(index)))
    parts.append(element("path", d=symbols, class_="marks", fill=color(index)))
    return element("g", *parts, data_series=index, class_=None if index < AT_FIRST else "off")


def _describe_value(curve: Curve, epoch: int, curves: int) -> str:
    column = np.asarray(curve.values)[:, [known == epoch for known in curve.epochs]]
    seeds = [value for value in np.ravel(column).tolist() if math.isfinite(value)]
    if not seeds:
        return "-"
    mean = f"{math.fsum(seeds) / len(seeds):.4g}"
    if curves > MANY or not 1 < len(seeds) < ENOUGH:
        return mean
    return f"{mean} ({', '.join(f'{seed:.4g}' for seed in seeds)})"
