"""Figure 6 and the sweeps of the page: runs that differ only in OPL's weight, its gamma or the batch size."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from ...errors import OptionError
from ..results.comparisons import PERCENT
from ..results.runs import Rows, Run, inner, number
from ..statistics import ENOUGH, Interval, Range, interval
from .figure import BELOW, Axes, Figure, Order, Rendering, new_figure
from .style import Array, color, glyph, print_label
from .svg import DataTable, Scale, axes, drawing, element, extent, line_path, short, symbols_path

SETTINGS = {
    "weight": "weight λ",
    "gamma": "γ",
    "batch size": "batch size, constant learning rate",
    "scaled batch size": "batch size, learning rate in proportion",
}
"""The settings that may be varied, and their names on axes; the batch size by two rules for the learning rate."""
VARIED = ("weight λ", "γ", "batch size")
WEIGHT, GAMMA, BATCH = range(len(VARIED))
IGNORED = {"name", "seed", "batch_size", "method", "log", "devices", "nodes"}  # recipe fields left out of `rest`
LABELS = {"CrossEntropy": "CE"}
LINE = 0.17  # inches per line of a legend
WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 38


@dataclass(frozen=True)
class Sweep:
    """The results of one method for each value of one setting."""

    label: str
    setting: str
    """Name of the varied setting, such as "batch size"."""
    xs: tuple[float, ...]
    """Its values, all above zero because the axis is logarithmic."""
    values: tuple[tuple[float, ...], ...]
    """For each of `xs`, one result per seed."""
    baseline: tuple[float, ...] | None = None
    """One result per seed of the method without that setting."""

    def means(self, within: Range = PERCENT) -> list[tuple[float, Interval]]:
        """Return the values of the setting with a result, sorted, with the mean over the seeds and its interval."""
        pairs = sorted(zip(self.xs, self.values, strict=True))
        return [(float(x), mean) for x, seeds in pairs if (mean := _mean(seeds, within)).size]

    def dots(self) -> list[tuple[float, float]]:
        """Return the setting and the result of every seed, where there are too few seeds for an interval."""
        few = [(x, seeds) for x, seeds in zip(self.xs, self.values, strict=True) if len(seeds) < ENOUGH]
        return [(float(x), value) for x, seeds in few for value in seeds if math.isfinite(value)]


class Grid(NamedTuple):
    """The mean results of one method, (weights, gammas); NaN for a pair that was not run."""

    weights: tuple[float, ...]
    gammas: tuple[float, ...]
    means: Array

    def shares(self, row: int) -> list[float]:
        """Scale the means of a weight from 0, the lowest of the grid, to 1, the highest; NaN stays NaN."""
        low, high = float(np.nanmin(self.means)), float(np.nanmax(self.means))
        return [(mean - low) / (high - low) if high > low else 1.0 + 0 * mean for mean in self.means[row].tolist()]


class Settings(NamedTuple):
    """The settings of a run except its seed: the settings that may be varied, and all others."""

    method: str
    """Class name of the method without OPL."""
    rest: str
    """The method without OPL and the rest of the recipe, as JSON."""
    projection: str | None
    """OPL's settings other than weight and gamma; None for a run without OPL."""
    varied: tuple[float, ...]
    """One value for each of `VARIED`; weight and gamma are 0 in a run without OPL."""
    lr: float
    """The base learning rate; 0 if it is not known."""

    @property
    def label(self) -> str:
        """Name of the method in labels."""
        return LABELS.get(self.method, self.method) + ("" if self.projection is None else "+OPL")

    def without(self, *indices: int) -> "Settings":
        """Return these settings with some varied settings set to 0, so that runs that differ only in them are equal."""
        return self._replace(varied=tuple(0.0 if i in indices else value for i, value in enumerate(self.varied)))

    def per_image(self) -> "Settings":
        """Return the same settings with the learning rate divided by the batch size."""
        return self._replace(lr=self.lr / self.varied[BATCH])

    def baseline(self) -> "Settings":
        """Return the same settings without OPL."""
        return self._replace(projection=None).without(WEIGHT, GAMMA)


def settings(run: Run) -> Settings:
    """Return the settings of a run."""
    opl = run.opl or {}
    others = {key: value for key, value in run.recipe.items() if key not in IGNORED}
    optimizer = inner(run.recipe, "optimizer")
    others["optimizer"] = {key: value for key, value in optimizer.items() if key != "lr"}
    lr = number(optimizer.get("lr", 0.0))
    rest = json.dumps([run.baseline_method, others], sort_keys=True, default=str)
    more = [f"{key} {value}" for key, value in sorted(opl.items()) if key not in ("kind", "weight", "gamma")]
    weight, gamma = (number(opl.get(key)) if run.projects else 0.0 for key in ("weight", "gamma"))
    varied = (weight, gamma, number(run.recipe.get("batch_size")))
    form = ", ".join(more) if run.projects else None
    return Settings(str(run.baseline_method.get("kind", "")), rest, form, varied, lr)


def sweeps(runs: Iterable[Run], metric: str = "test/top1") -> dict[str, list[Sweep]]:
    """Return the sweeps over each varied setting: one per choice of the other settings, with at least two values.

    The baseline of a sweep is the method without OPL in the same recipe. In a sweep over the batch size, which the
    baseline also has, the baseline is a separate sweep, even if it has only one value; runs of one sweep have equal
    learning rates, or learning rates in proportion to the batch size.
    """
    results = _results(runs, metric)
    scaled = {key.per_image(): values for key, values in results.items() if key.varied[BATCH] > 0 and key.lr > 0}
    varied = zip(SETTINGS, (WEIGHT, GAMMA, BATCH, BATCH), (results, results, results, scaled), strict=True)
    by_setting = {name: _sweeps(values, index, SETTINGS[name]) for name, index, values in varied}
    return {name: points for name, points in by_setting.items() if points}


def grids(runs: Iterable[Run], metric: str = "test/top1") -> list[Grid]:
    """Return the mean results over weight and gamma, where both have at least two values."""
    tables: dict[Settings, dict[tuple[float, float], tuple[float, ...]]] = defaultdict(dict)
    for key, values in _results(runs, metric).items():
        if key.varied[WEIGHT] > 0:
            tables[key.without(WEIGHT, GAMMA)][key.varied[WEIGHT], key.varied[GAMMA]] = values
    grid_list = []
    for cells in tables.values():
        weights, gammas = (tuple(sorted({pair[index] for pair in cells})) for index in (WEIGHT, GAMMA))
        if len(weights) > 1 and len(gammas) > 1:
            means = [[float(np.mean(cells.get((w, g), (math.nan,)))) for g in gammas] for w in weights]
            grid_list.append(Grid(weights, gammas, np.array(means)))
    return grid_list


def data_table(sweeps: Sequence[Sweep], title: str, within: Range) -> DataTable:
    """Return the mean of each sweep at each value of the setting."""
    rows = [
        (sweep.label, f"{x:g}", f"{mean.mean:.2f}", mean.size) for sweep in sweeps for x, mean in sweep.means(within)
    ]
    return DataTable(title, ("method", sweeps[0].setting, "mean", "seeds"), rows)


def to_svg(sweeps: Sequence[Sweep], title: str, within: Range) -> Markup:
    """Draw the sweeps over one setting as a chart of the page; the first color is the baseline's, if there is one."""
    values = [value for sweep in sweeps for seeds in (*sweep.values, sweep.baseline or ()) for value in seeds]
    across = {math.log(x): f"{x:g}" for x in _ticks(sweeps)}
    x = Scale(min(across) - 0.1, max(across) + 0.1, LEFT, WIDTH - RIGHT)
    y = Scale(*extent(values), HEIGHT - BOTTOM, TOP)
    parts = [axes(x, y, across, sweeps[0].setting)]
    for _, seeds, _ in _baselines(sweeps):
        height = short(y.at(_mean(seeds, within).mean))
        ends = {"x1": LEFT, "x2": WIDTH - RIGHT, "y1": height, "y2": height}
        parts.append(element("line", **ends, class_="baseline", stroke=color(0)))
    for index, sweep in enumerate(sweeps, start=first_color(sweeps)):
        parts.append(_svg_line(sweep, index, x, y, within))
    listed = "; ".join(
        f"{sweep.label} {', '.join(f'{at:g}: {mean.mean:.2f}' for at, mean in sweep.means(within))}" for sweep in sweeps
    )
    return drawing(f"{title}: {listed}.", WIDTH, HEIGHT, *parts)


def first_color(sweeps: Sequence[Sweep]) -> int:
    """Return the color index of the first sweep on the page."""
    return 1 if any(sweep.baseline for sweep in sweeps) else 0


def draw(sweeps: Mapping[str, Sequence[Sweep]]) -> Figure:
    """Draw a matplotlib figure: one panel per setting, each mean with its 95 % interval over the seeds as a band.

    With fewer than five seeds, every seed is a dot instead. A baseline is a dashed line.
    """
    if not sweeps:
        raise OptionError(
            "the runs vary neither a setting of OPL nor the batch size: add runs with at least two values."
        )
    lines = max(len(_baselines(panel)) + len(panel) for panel in sweeps.values())
    size = (3.2 * len(sweeps), 2.7 + LINE * lines)
    with new_figure(*size, columns=len(sweeps)) as (figure, [grid]):
        for panel_axes, (title, panel) in zip(grid, sweeps.items(), strict=True):
            panel_axes.set_title(print_label(title), loc="left")
            _draw_panel(panel_axes, panel)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render one panel per setting that the runs vary and, as text, the means."""
    panels = sweeps(run for _, runs in rows for run in runs)
    text = []
    for setting, panel in panels.items():
        for sweep in panel:
            pairs = zip(sweep.xs, sweep.values, strict=True)
            means = ", ".join(f"{x:g}: {interval(values).mean:.2f}" for x, values in pairs)
            text.append(f"{sweep.label} over {setting}: {means}")
    return Rendering({"": draw(panels)}, text)


def _mean(seeds: Sequence[float], within: Range = PERCENT) -> Interval:
    """Return the mean over the seeds with a finite result, and its interval."""
    return interval([seed for seed in seeds if math.isfinite(seed)], within=within)


def _baselines(sweeps: Sequence[Sweep]) -> list[tuple[str, tuple[float, ...], int]]:
    """Return distinct baselines: name, results per seed, color index. They precede the sweeps, so the first is gray."""
    owners: dict[tuple[float, ...], str] = {}
    for sweep in sweeps:
        if sweep.baseline and _mean(sweep.baseline).size:
            owners.setdefault(tuple(sweep.baseline), sweep.label)
    names = ["baseline"] if len(owners) == 1 else [f"baseline of {label}" for label in owners.values()]
    return [(name, seeds, index) for index, (name, seeds) in enumerate(zip(names, owners, strict=True))]


def _ticks(sweeps: Sequence[Sweep]) -> list[float]:
    return sorted({float(x) for sweep in sweeps for x in sweep.xs})


def _draw_panel(axes: Axes, sweeps: Sequence[Sweep]) -> None:
    baselines = _baselines(sweeps)
    for name, seeds, index in baselines:
        mean = _mean(seeds)
        axes.axhline(mean.mean, color=color(index), linestyle="--", label=print_label(name))
        if mean.size >= ENOUGH:
            axes.axhspan(mean.low, mean.high, color=color(index), alpha=0.2, linewidth=0)
    for index, sweep in enumerate(sweeps, start=len(baselines)):
        xs, means = [x for x, _ in sweep.means()], [mean for _, mean in sweep.means()]
        label, centers = print_label(sweep.label), [mean.mean for mean in means]
        axes.plot(xs, centers, color=color(index), marker=glyph(index), markersize=4, label=label)
        bands = [mean if mean.size >= ENOUGH else mean._replace(half=math.nan) for mean in means]
        lows, highs = [mean.low for mean in bands], [mean.high for mean in bands]
        axes.fill_between(xs, lows, highs, color=color(index), alpha=0.2, linewidth=0)
        dots = sweep.dots()
        axes.plot([x for x, _ in dots], [y for _, y in dots], ".", color=color(index), markersize=3, alpha=0.7)
    ticks = _ticks(sweeps)
    axes.set_xscale("log", base=2 if all(math.log2(x).is_integer() for x in ticks) else 10)
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    axes.set(xlabel=print_label(sweeps[0].setting), ylabel="accuracy (%)")
    axes.legend(**BELOW)


def _svg_line(sweep: Sweep, index: int, x: Scale, y: Scale, within: Range) -> Markup:
    means = [(x.at(math.log(at)), mean) for at, mean in sweep.means(within)]
    points = [(at, y.at(mean.mean)) for at, mean in means]
    parts = [element("path", d=line_path(points), class_="thick", stroke=color(index))]
    for at, mean in means:
        if mean.size >= ENOUGH:
            ends = {"x1": short(at), "x2": short(at), "y1": short(y.at(mean.low)), "y2": short(y.at(mean.high))}
            parts.append(element("line", **ends, class_="thick", stroke=color(index)))
    for at, value in sweep.dots():
        center = {"cx": short(x.at(math.log(at))), "cy": short(y.at(value))}
        parts.append(element("circle", **center, r=2, class_="seed", fill=color(index)))
    parts.append(element("path", d=symbols_path(points, index), class_="marks", fill=color(index)))
    return element("g", *parts)


def _results(runs: Iterable[Run], metric: str) -> dict[Settings, tuple[float, ...]]:
    """Return the metric of each run, grouped over runs that differ only in the seed."""
    results: dict[Settings, list[float]] = defaultdict(list)
    for run in runs:
        value = number(run.result.get(metric))
        if math.isfinite(value):
            results[settings(run)].append(value)
    return {key: tuple(values) for key, values in results.items()}


def _sweeps(results: dict[Settings, tuple[float, ...]], index: int, name: str) -> list[Sweep]:
    groups: dict[Settings, dict[float, tuple[float, ...]]] = defaultdict(dict)
    for key, values in results.items():
        if 0 < key.varied[index] < math.inf:  # the axis is logarithmic
            groups[key.without(index)][key.varied[index]] = values
    several = {key: points for key, points in groups.items() if len(points) > 1}
    if index == BATCH:
        baselines = {key.baseline() for key in several}
        several |= {key: points for key, points in groups.items() if key in baselines}
    sweep_list = []
    for key, points in sorted(several.items(), key=lambda pair: pair[0].projection is not None):
        xs = tuple(sorted(points))
        base = None if index == BATCH else results.get(key.baseline())
        sweep_list.append(Sweep(_label(key, tuple(several)), name, xs, tuple(points[x] for x in xs), base))
    return sweep_list


def _label(key: Settings, several: Sequence[Settings]) -> str:
    """Return the method, and the settings that distinguish this sweep from others of the same method."""
    same_method = [settings for settings in several if settings.label == key.label]
    different = [
        f"{name} {key.varied[index]:g}"
        for index, name in enumerate(VARIED)
        if len({settings.varied[index] for settings in same_method}) > 1
    ]
    forms = [key.projection] if key.projection and len({settings.projection for settings in same_method}) > 1 else []
    return ", ".join([key.label, *different, *forms])
