"""Figure 6: accuracy over lambda and over the batch size."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...errors import OptionError
from ..results.comparisons import PERCENT
from ..results.runs import Rows
from ..statistics import ENOUGH, Interval, interval
from ._sweeps import SETTINGS, Grid, Sweep, grids, sweeps
from .rendering import Order, Rendering
from .style import BELOW, LINE, color, glyph, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["NEEDS", "SETTINGS", "Grid", "Sweep", "draw", "grids", "render", "sweeps"]

NEEDS: tuple[str, ...] = ()  # only the results


def draw(sweeps: Mapping[str, Sequence[Sweep]]) -> "Figure":
    """A matplotlib figure: one panel per setting, each mean with its 95 % interval over the seeds as a band.

    Where there are fewer than five seeds, every seed is a dot instead. A baseline is a dashed line.

    Args:
        sweeps: the sweeps of each panel, by its title.

    Example:
        >>> sweep = Sweep("CE+OPL", "lambda", (0.5, 1.0), ((72.0, 72.4), (72.9, 73.1)), baseline=(71.0, 71.4))
        >>> draw({"CIFAR-100": [sweep]}).axes[0].get_xlabel()
        'lambda'
    """
    from matplotlib.figure import Figure

    if not sweeps or not all(sweeps.values()):
        raise OptionError("a panel has no sweep to draw: give at least one panel, with at least one sweep in each.")
    with paper():
        lines = max(len(_baselines(some)) + len(some) for some in sweeps.values())
        figure = Figure(figsize=(3.2 * len(sweeps), 2.7 + LINE * lines), layout="constrained")
        grid = figure.subplots(1, len(sweeps), squeeze=False)[0]
        for axes, (title, some) in zip(grid, sweeps.items(), strict=True):
            axes.set_title(print_label(title), loc="left")
            _panel(axes, some)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """One panel per setting that the runs vary, and the means as text."""
    panels = sweeps(run for _, runs in rows for run in runs)
    words = []
    for setting, some in panels.items():
        for sweep in some:
            pairs = zip(sweep.xs, sweep.values, strict=True)
            means = ", ".join(f"{x:g}: {interval(values).mean:.2f}" for x, values in pairs)
            words.append(f"{sweep.label} over {setting}: {means}")
    return Rendering({"": draw(panels)}, words)


def _interval(seeds: Sequence[float]) -> Interval:
    """The interval over the seeds with a finite result."""
    return interval([seed for seed in seeds if math.isfinite(seed)], within=PERCENT)


def _found(sweep: Sweep) -> list[tuple[float, Interval]]:
    """The values of the setting that have a result, sorted, with their intervals."""
    pairs = sorted(zip(sweep.xs, sweep.values, strict=True))
    return [(float(x), one) for x, seeds in pairs if (one := _interval(seeds)).size]


def _baselines(sweeps: Sequence[Sweep]) -> list[tuple[str, tuple[float, ...], int]]:
    """The distinct baselines: name, results per seed and color index. They precede the sweeps, so the first is gray."""
    owners: dict[tuple[float, ...], str] = {}
    for sweep in sweeps:
        if sweep.baseline and _interval(sweep.baseline).size:
            owners.setdefault(tuple(sweep.baseline), sweep.label)
    named = ["baseline"] if len(owners) == 1 else [f"baseline of {label}" for label in owners.values()]
    return [(name, seeds, look) for look, (name, seeds) in enumerate(zip(named, owners, strict=True))]


def _ticks(sweeps: Sequence[Sweep]) -> list[float]:
    return sorted({float(x) for sweep in sweeps for x in sweep.xs})


def _panel(axes: "Axes", sweeps: Sequence[Sweep]) -> None:
    baselines = _baselines(sweeps)
    for name, seeds, look in baselines:
        one = _interval(seeds)
        axes.axhline(one.mean, color=color(look), linestyle="--", label=print_label(name))
        if one.size >= ENOUGH:
            axes.axhspan(one.low, one.high, color=color(look), alpha=0.2, linewidth=0)
    for look, sweep in enumerate(sweeps, start=len(baselines)):
        found = _found(sweep)
        xs = [x for x, _ in found]
        means, name = [one.mean for _, one in found], print_label(sweep.label)
        axes.plot(xs, means, color=color(look), marker=glyph(look), markersize=4, label=name)
        wide = [one if one.size >= ENOUGH else one._replace(half=math.nan) for _, one in found]
        lows, highs = [one.low for one in wide], [one.high for one in wide]
        axes.fill_between(xs, lows, highs, color=color(look), alpha=0.2, linewidth=0)
        axes.plot(*_dots(sweep), ".", color=color(look), markersize=3, alpha=0.7)
    ticks = _ticks(sweeps)
    axes.set_xscale("log", base=2 if all(math.log2(x).is_integer() for x in ticks) else 10)
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    axes.set(xlabel=print_label(sweeps[0].setting), ylabel="accuracy (%)")
    axes.legend(**BELOW)


def _dots(sweep: Sweep) -> tuple[list[float], list[float]]:
    """The setting and the result of every seed, where these are fewer than `ENOUGH`."""
    few = [(x, seeds) for x, seeds in zip(sweep.xs, sweep.values, strict=True) if len(seeds) < ENOUGH]
    pairs = [(float(x), value) for x, seeds in few for value in seeds if math.isfinite(value)]
    return [x for x, _ in pairs], [value for _, value in pairs]
