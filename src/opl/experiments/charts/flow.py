"""The (s, d) plane: arrows show where OPL moves free features for some gammas, lines show the paths of real runs."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..results.runs import Rows
from .curves import band, complete_curve
from .figure import Axes, Figure, Order, Rendering, new_figure
from .style import Array, color, glyph, print_label

GAMMAS = (0.5, 1.0, 2.0)
ARROWS = 12  # along each axis
S, D = "s, same class", "d, other classes"


class Path(NamedTuple):
    """The s and d of one method after each epoch that has both, as means over its seeds."""

    label: str
    same: Array
    other: Array


def flow(same: Array, other: Array, gamma: float, positives: float = np.inf) -> tuple[Array, Array]:
    """Return the rates at which OPL moves s and d of free unit features in many balanced classes, up to a factor.

    `ds = (1 - s) (s + 1 / positives - gamma d)` and `dd = d ((1 - s) - gamma (1 - d))`: d is constant where gamma is
    (1 - s) / (1 - d), and decreases above it.

    Example:
        >>> ds, dd = flow(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.5)
        >>> bool((ds > 0).all()), bool((dd > 0).all())
        (True, True)
    """
    return (1 - same) * (same + 1 / positives - gamma * other), other * ((1 - same) - gamma * (1 - other))


def draw(paths: Sequence[Path]) -> Figure:
    """Draw a matplotlib figure: one panel per gamma, with arrows of the flow and all paths."""
    with new_figure(2.5 * len(GAMMAS), 2.9, columns=len(GAMMAS), sharey=True) as (figure, [grid]):
        for axes, gamma in zip(grid, GAMMAS, strict=True):
            _draw_panel(axes, paths, gamma)
        grid[0].set_ylabel(S)
        handles, _ = grid[0].get_legend_handles_labels()
        across = len(handles) if len(handles) <= 4 else -(-len(handles) // 2)
        figure.legend(handles=handles, loc="outside lower center", ncols=across)
    return figure


def _draw_panel(axes: Axes, paths: Sequence[Path], gamma: float) -> None:
    ticks = np.linspace(0.04, 0.96, ARROWS)
    d, s = (part.ravel() for part in np.meshgrid(ticks, ticks))
    d, s = d[s >= d], s[s >= d]
    ds, dd = flow(s, d, gamma)
    length = np.hypot(ds, dd)
    length = np.where(length > 0, length, 1)
    axes.quiver(d, s, dd / length, ds / length, color="#999999", angles="xy", scale=2.2 * ARROWS, width=0.004)
    edge = np.linspace(0, 1, 50)
    axes.plot(edge, 1 - gamma * (1 - edge), color="black", linewidth=0.8, linestyle="--", label="d is constant")
    for index, (label, same, other) in enumerate(paths):
        axes.plot(other, same, color=color(index), label=print_label(label))
        axes.plot(other[-1:], same[-1:], color=color(index), marker=glyph(index), markersize=5)
    axes.set_title(f"gamma {gamma:g}", loc="left")
    axes.set(xlabel=D, xlim=(0, 1), ylim=(0, 1))


def render(rows: Rows, order: Order) -> Rendering:
    """Render the paths of the rows and, as text, their first and last points and the gamma needed there."""
    paths, text = [], []
    for row, runs in rows:
        curves = [complete_curve(row, runs, name) for name in ("s", "d")]
        by_epoch = [dict(zip(curve.epochs, band(curve)[0].tolist(), strict=True)) for curve in curves]
        both = np.array([(by_epoch[0][epoch], by_epoch[1].get(epoch, np.nan)) for epoch in by_epoch[0]])
        path = Path(row.label, *both[np.isfinite(both).all(axis=1)].T)
        paths.append(path)
        for when, epoch in (("first", 0), ("last", -1)):
            s, d = float(path.same[epoch]), float(path.other[epoch])
            text.append(f"{row.label}, {when}: s {s:.3f}, d {d:.3f}, gamma needed {(1 - s) / max(1e-6, 1 - d):.2f}")
    return Rendering({"": draw(paths)}, text)
