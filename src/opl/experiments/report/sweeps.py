"""Accuracy over the settings of the loss and the batch size, for runs that differ in nothing else."""

import math
from collections.abc import Sequence

import numpy as np

from ..charts.search import SETTINGS, Grid, Sweep, grids, sweeps
from ..charts.style import color
from ..results.comparisons import range_of
from ..statistics import ENOUGH, Interval, interval
from .context import Experiment
from .figure import data_table, drawing, figure
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag
from .svg import Scale, line_path, reach, short, swatch, symbols_path, ticks

LEAD = (
    "Means over the seeds; every dot is a seed, or from five seeds on the bar is the 95 % interval. The dashed line is "
    "the same method without OPL, trained in the same way."
)
LEAST = 2  # cells of a grid: two are better told by the table
WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 38


def section(experiment: Experiment) -> Markup | None:
    """Charts for an experiment whose runs vary a setting."""
    group = experiment.group
    if not group.item.metrics:
        return None
    metric, words = next(iter(group.item.metrics.items()))
    runs = [run for each in group.rows for run in group.finished(each)]
    lines = sweeps(runs, metric)
    drawn = [_grid(grid, words, group.title) for grid in grids(runs, metric) if np.isfinite(grid.means).sum() > LEAST]
    for setting in [name for name in lines if name != "gamma" or not drawn]:  # a grid already shows gamma
        drawn.append(_chart(lines[setting], SETTINGS[setting], metric, words))
    if not drawn:
        return None
    return join(tag("p", LEAD, class_="lead"), tag("div", *drawn, class_="grid two"))


def _grid(grid: Grid, words: str, title: str) -> Markup:
    """Means over weight and gamma, as a table whose cells are shaded."""
    names = (SETTINGS["weight"], SETTINGS["gamma"])
    known = grid.means[np.isfinite(grid.means)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    head = [heading(f"{names[0]} \\ {names[1]}", sort=False)]
    head += [heading(f"{gamma:g}", class_="number", sort=False) for gamma in grid.gammas]
    body = []
    for weight, means in zip(grid.weights, grid.means.tolist(), strict=True):
        cells = [
            _shaded(f"{names[1]} {gamma:g}", mean, low, high) for gamma, mean in zip(grid.gammas, means, strict=True)
        ]
        body.append(row(f"{weight:g}", *cells))
    box = scroll_box(f"{words} over {' and '.join(names)}, {title}", [head], body, "heat")
    return figure(f"{words} over {' and '.join(names)}", box)


def _shaded(label: str, mean: float, low: float, high: float) -> Markup:
    if not math.isfinite(mean):
        return cell(label, "-")
    share = (mean - low) / (high - low) if high > low else 1.0
    return cell(label, f"{mean:.2f}", style=f"--share:{100 * share:.0f}%")


def _chart(some: Sequence[Sweep], name: str, metric: str, words: str) -> Markup:
    points = [(sweep, _intervals(sweep, metric)) for sweep in some]
    values = [value for sweep in some for seeds in (*sweep.values, sweep.baseline or ()) for value in seeds]
    xs = sorted({float(x) for sweep in some for x in sweep.xs})
    near, far = math.log(xs[0]), math.log(xs[-1])
    x = Scale(near - 0.1, far + 0.1, LEFT, WIDTH - RIGHT)
    y = Scale(*reach(values), HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, xs, name)]
    first = 1 if any(sweep.baseline for sweep in some) else 0
    parts += [_baseline(sweep, y) for sweep in {sweep.baseline: sweep for sweep in some}.values() if sweep.baseline]
    parts += [_line(sweep, found, x, y, first + look) for look, (sweep, found) in enumerate(points)]
    keys = [tag("span", swatch(first + look), " ", sweep.label, class_="key") for look, sweep in enumerate(some)]
    title = f"{words} over {name}"
    said = "; ".join(
        f"{sweep.label} {', '.join(f'{at:g}: {one.mean:.2f}' for at, one in found)}" for sweep, found in points
    )
    chart = drawing(f"{title}: {said}.", WIDTH, HEIGHT, *parts)
    return figure(join(title, tag("span", *keys, class_="keys")), chart, _table(points, title, name))


def _intervals(sweep: Sweep, metric: str) -> list[tuple[float, Interval]]:
    within = range_of(metric)
    found = []
    for at, seeds in sorted(zip(sweep.xs, sweep.values, strict=True)):
        one = interval([seed for seed in seeds if math.isfinite(seed)], within=within)
        if one.size:
            found.append((float(at), one))
    return found


def _frame(x: Scale, y: Scale, xs: Sequence[float], name: str) -> Markup:
    parts = []
    for value in ticks(y.low, y.high):
        place = short(y.at(value))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="rule"))
        parts.append(tag("text", f"{value:g}", x=LEFT - 5, y=place, dy=".32em", text_anchor="end"))
    for at in xs:
        place = short(x.at(math.log(at)))
        parts.append(tag("text", f"{at:g}", x=place, y=HEIGHT - BOTTOM + 15, text_anchor="middle"))
    title = tag("text", name, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle", class_="title")
    return tag("g", *parts, title, class_="axes", aria_hidden="true")


def _baseline(sweep: Sweep, y: Scale) -> Markup:
    known = [seed for seed in sweep.baseline or () if math.isfinite(seed)]
    place = short(y.at(math.fsum(known) / len(known))) if known else "-9"
    return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="baseline", stroke=color(0))


def _line(sweep: Sweep, found: Sequence[tuple[float, Interval]], x: Scale, y: Scale, look: int) -> Markup:
    points = [(x.at(math.log(at)), y.at(one.mean)) for at, one in found]
    parts = [tag("path", d=line_path(points), class_="thick", stroke=color(look))]
    for at, one in found:
        if one.size >= ENOUGH:
            place = short(x.at(math.log(at)))
            ends = {"y1": short(y.at(one.low)), "y2": short(y.at(one.high))}
            parts.append(tag("line", x1=place, x2=place, **ends, class_="thick", stroke=color(look)))
    few = [(x.at(math.log(at)), y.at(seed)) for at, seeds in zip(sweep.xs, sweep.values, strict=True)
           for seed in seeds if len(seeds) < ENOUGH and math.isfinite(seed)]  # fmt: skip
    parts += [tag("circle", cx=short(a), cy=short(b), r=2, class_="seed", fill=color(look)) for a, b in few]
    parts.append(tag("path", d=symbols_path(points, look), class_="marks", fill=color(look)))
    return tag("g", *parts)


def _table(points: Sequence[tuple[Sweep, list[tuple[float, Interval]]]], title: str, name: str) -> Markup:
    head = [heading(word) for word in ("method", name, "mean", "seeds")]
    body = [
        row(sweep.label, cell(name, f"{at:g}"), cell("mean", f"{one.mean:.2f}"), cell("seeds", one.size))
        for sweep, found in points
        for at, one in found
    ]
    return data_table(title, head, body)
