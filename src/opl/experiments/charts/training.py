"""Figure 3: s, d and orthogonality during training, seed by seed or, from five seeds on, with an interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FolderError, OptionError
from ..item import Row
from ..results.comparisons import range_of
from ..results.runs import Rows, Run
from ..statistics import ANY, ENOUGH, Range, interval
from .rendering import Order, Rendering
from .style import Array, color, glyph, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS: tuple[str, ...] = ()  # only the records
MEASURES = {
    "orthogonality": "orthogonality (lower is better)",
    "s": "s, same class (higher is better)",
    "d": "d, other classes (lower is better)",
}


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one method over the epochs, for each seed.

    Args:
        label: name of the method, for example "CE+OPL".
        epochs: the epochs of the columns.
        seeds: the seeds of the rows.
        values: (seeds, epochs); NaN where a run does not have the epoch.
        within: the values that are possible.
    """

    label: str
    epochs: tuple[int, ...]
    seeds: tuple[int, ...]
    values: Array
    within: Range = ANY

    def __post_init__(self) -> None:
        expected = (len(self.seeds), len(self.epochs))
        if np.shape(self.values) != expected or 0 in expected:
            raise OptionError(
                f"the values of {self.label!r} have shape {np.shape(self.values)} for {expected[0]} seeds and "
                f"{expected[1]} epochs: give a row for each seed and a column for each epoch, at least one of both."
            )


def curve(label: str, runs: Sequence[Run], measure: str, most: int = 0) -> Curve:
    """The curve of a metric over the epochs, counted from 1; values that are missing or not numbers become NaN.

    Args:
        label: label of the curve.
        runs: one for each seed.
        measure: name of the metric in the records.
        most: keep only so many epochs, evenly spaced, and the last; 0 keeps all.
    """
    columns = [run.column(measure) for run in runs]
    there = np.zeros(max((len(column) for column in columns), default=0), dtype=bool)
    for column in columns:
        there[: len(column)] |= ~np.isnan(column)
    epochs = np.flatnonzero(there) if there.any() else np.zeros(1, dtype=int)
    if most:
        epochs = np.union1d(epochs[:: math.ceil(len(epochs) / most)], epochs[-1:])
    values = np.full((len(runs), len(epochs)), math.nan)
    for row, column in zip(values, columns, strict=True):
        own = epochs < len(column)
        row[own] = column[epochs[own]]
    seeds = tuple(run.seed for run in runs)
    return Curve(label, tuple(int(epoch) + 1 for epoch in epochs), seeds, values, range_of(measure))


def band(curve: Curve) -> tuple[Array, Array, Array]:
    """Mean over the seeds, and the lower and upper end of its 95 % interval, for each epoch.

    If only one seed has the epoch, all three are its value; if none has it, NaN.

    Example:
        >>> mean, low, high = band(Curve("CE", (1,), (0, 1, 2), np.array([[1.0], [2.0], [3.0]])))
        >>> [round(float(part[0]), 3) for part in (mean, low, high)]
        [2.0, -0.484, 4.484]
    """
    values = np.asarray(curve.values, dtype=float)
    found = [interval(column[np.isfinite(column)].tolist(), within=curve.within) for column in values.T]
    ends = [(one.low, one.high) if one.size > 1 else (one.mean, one.mean) for one in found]
    lows, highs = zip(*ends, strict=True)
    return np.array([one.mean for one in found]), np.array(lows), np.array(highs)


def draw(panels: Mapping[str, Sequence[Curve]]) -> "Figure":
    """A matplotlib figure: one panel per metric, side by side.

    Args:
        panels: the curves by the panel's title; a method has the same color in all panels.

    Example:
        >>> curve = Curve("CE", (1, 2), (0,), np.array([[0.9, 0.8]]))
        >>> len(draw({"s": [curve], "d": [curve]}).axes)
        2
    """
    from matplotlib.figure import Figure

    if not panels or not all(panels.values()):
        raise OptionError("a panel has no curve to draw: give at least one panel, with at least one curve in each.")
    order = list(dict.fromkeys(curve.label for curves in panels.values() for curve in curves))
    with paper():
        figure = Figure(figsize=(max(3.2, 2.7 * len(panels)), 2.6), layout="constrained")
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, curves) in zip(grid, panels.items(), strict=True):
            axes.set_title(print_label(title, width=36), loc="left", fontsize=8)
            axes.set_xlabel("epoch")
            axes.locator_params(axis="x", integer=True)
            for curve in curves:
                _line(axes, curve, order.index(curve.label))
        drawn = {str(line.get_label()): line for axes in grid for line in axes.get_lines()}
        lines = {label: line for label, line in drawn.items() if not label.startswith("_")}  # the seeds have no label
        figure.legend(handles=list(lines.values()), loc="outside lower center", ncols=min(len(lines), 4))
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Orthogonality, s and d of each row, and their final values as text."""
    panels = {title: [_whole_curve(row, runs, name) for row, runs in rows] for name, title in MEASURES.items()}
    words = []
    for title, curves in panels.items():
        for each in curves:
            mean, low, high = band(each)
            ends = f" [{low[-1]:.3f}, {high[-1]:.3f}]" if np.isfinite(each.values[:, -1]).sum() > 1 else ""
            words.append(f"{title}, {each.label}: {mean[-1]:.3f}{ends} at the end")
    return Rendering({"": draw(panels)}, words)


def _whole_curve(row: Row, runs: Sequence[Run], measure: str) -> Curve:
    found = curve(row.label, runs, measure)
    if not np.isfinite(found.values).any():
        raise FolderError(
            f"the records of {row.recipe} have no {measure}: it is measured on held-out images, so hold some out, for "
            "instance with --data.val 5000."
        )
    return found


def _line(axes: "Axes", curve: Curve, look: int) -> None:
    mean, low, high = band(curve)
    there = np.isfinite(mean)
    epochs, shade = np.array(curve.epochs)[there], color(look)
    every = max(1, len(mean) // 8)  # a few symbols distinguish the lines in grayscale too
    symbols: dict[str, Any] = {
        "marker": glyph(look),
        "markersize": 3.5,
        "markevery": every,
        "label": print_label(curve.label),
    }
    axes.plot(epochs, mean[there], color=shade, **symbols)
    if len(curve.seeds) >= ENOUGH:
        axes.fill_between(epochs, low[there], high[there], color=shade, alpha=0.2, linewidth=0)
    else:
        for seed in np.asarray(curve.values) if len(curve.seeds) > 1 else ():
            axes.plot(curve.epochs, seed, color=shade, alpha=0.35, linewidth=0.7)
