"""The (s, d) plane: arrows show where OPL moves free features for some gammas, lines show the paths of real runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import FolderError
from ..results.runs import Rows
from .curves import band, curve
from .figure import Order, Rendering, paper
from .style import Array, color, glyph, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS: tuple[str, ...] = ()  # only the records
GAMMAS = (0.5, 1.0, 2.0)
ARROWS = 12  # along each axis
S, D = "s, same class", "d, other classes"


@dataclass(frozen=True, eq=False)
class Path:
    """The s and d of one method over the epochs, as means over its seeds.

    Args:
        label: name of the method.
        same: s of each epoch.
        other: d of each epoch.
    """

    label: str
    same: Array
    other: Array


def flow(same: Array, other: Array, gamma: float, positives: float = np.inf) -> tuple[Array, Array]:
    """The rates at which OPL moves s and d of free unit features in many balanced classes, up to a common factor.

    `ds = (1 - s) (s + 1 / positives - gamma d)` and `dd = d ((1 - s) - gamma (1 - d))`: d is constant where gamma is
    (1 - s) / (1 - d), and decreases above it.

    Example:
        >>> ds, dd = flow(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.5)
        >>> bool((ds > 0).all()), bool((dd > 0).all())
        (True, True)
    """
    return (1 - same) * (same + 1 / positives - gamma * other), other * ((1 - same) - gamma * (1 - other))


def draw(paths: Sequence[Path], gammas: Sequence[float] = GAMMAS) -> "Figure":
    """A matplotlib figure: one panel per gamma, with arrows of the flow and all paths.

    Example:
        >>> len(draw([Path("CE", np.array([0.5, 0.6]), np.array([0.5, 0.4]))]).axes)
        3
    """
    from matplotlib.figure import Figure

    with paper():
        figure = Figure(figsize=(2.5 * len(gammas), 2.9), layout="constrained")
        grid = figure.subplots(1, len(gammas), squeeze=False, sharey=True)[0]
        for axes, gamma in zip(grid, gammas, strict=True):
            _draw_panel(axes, paths, gamma)
        grid[0].set_ylabel(S)
        handles = {str(line.get_label()): line for line in grid[0].get_lines() if line.get_label()[:1] != "_"}
        across = len(handles) if len(handles) <= 4 else -(-len(handles) // 2)
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=across)
    return figure


def _draw_panel(axes: "Axes", paths: Sequence[Path], gamma: float) -> None:
    d, s = _grid()
    ds, dd = flow(s, d, gamma)
    length = np.hypot(ds, dd)
    length = np.where(length > 0, length, 1)
    axes.quiver(d, s, dd / length, ds / length, color="#999999", angles="xy", scale=2.2 * ARROWS, width=0.004)
    edge = np.linspace(0, 1, 50)
    axes.plot(edge, 1 - gamma * (1 - edge), color="black", linewidth=0.8, linestyle="--", label="d is constant")
    for index, path in enumerate(paths):
        known = np.isfinite(path.same) & np.isfinite(path.other)
        axes.plot(path.other[known], path.same[known], color=color(index), label=print_label(path.label))
        axes.plot(path.other[known][-1:], path.same[known][-1:], color=color(index), marker=glyph(index), markersize=5)
    axes.set_title(f"gamma {gamma:g}", loc="left")
    axes.set_xlabel(D)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _grid() -> tuple[Array, Array]:
    """The positions of the arrows, where s is at least d."""
    ticks = np.linspace(0.04, 0.96, ARROWS)
    d, s = (part.ravel() for part in np.meshgrid(ticks, ticks))
    return d[s >= d], s[s >= d]


def render(rows: Rows, order: Order) -> Rendering:
    """The paths of the rows, and as text the first and last point of each and the gamma needed there."""
    paths, text = [], []
    for row, runs in rows:
        same, other = (band(curve(row.label, runs, name))[0] for name in ("s", "d"))
        size = min(len(same), len(other))
        path = Path(row.label, same[:size], other[:size])
        known = np.flatnonzero(np.isfinite(path.same) & np.isfinite(path.other))
        if not len(known):
            raise FolderError(
                f"the records of {row.recipe} have no s and d, which are measured on held-out images: hold some out, "
                "for example with --data.val 5000."
            )
        paths.append(path)
        for when, epoch in (("first", known[0]), ("last", known[-1])):
            s, d = float(path.same[epoch]), float(path.other[epoch])
            text.append(f"{row.label}, {when}: s {s:.3f}, d {d:.3f}, gamma needed {(1 - s) / max(1e-6, 1 - d):.2f}")
    return Rendering({"": draw(paths)}, text)
