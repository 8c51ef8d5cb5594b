"""Table 8 as two heat maps over weight and gamma: paired differences from cross-entropy, and the paper's accuracies."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import OptionError
from ..results.comparisons import describe_decision
from ..results.runs import Rows, number
from ..statistics import ENOUGH, LEVEL, Decision, Interval
from .figure import Order, Rendering, paper
from .forest import pair_rows
from .style import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS: tuple[str, ...] = ()  # only the results
METRIC = "val/top1"
NOTE = (
    "mean over the seeds, below it each seed, or from five seeds on the 95 % interval; frame: differs from CE after "
    "Holm's adjustment; dot: the interval of this cell alone excludes 0"
)


@dataclass(frozen=True)
class Cell:
    """One pair of weight and gamma: its difference from the baseline over shared seeds, and the paper's accuracy."""

    weight: float
    gamma: float
    difference: Interval
    decision: Decision
    paper: float = math.nan
    pairs: tuple[float, ...] = ()
    """The difference of each seed."""

    @property
    def decided(self) -> bool:
        """Whether the difference is significant after the adjustment for all cells."""
        return self.decision.adjusted < 1 - LEVEL

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of this cell alone excludes zero."""
        return self.decision.p < 1 - LEVEL


def draw(cells: Sequence[Cell]) -> "Figure":
    """A matplotlib figure: our differences with their intervals on the left, the paper's accuracies on the right.

    Args:
        cells: at least one; pairs without a cell stay empty.

    Example:
        >>> from opl.experiments.statistics import decide, interval
        >>> mean = interval([0.5, 0.7, 0.6])
        >>> draw([Cell(1.0, 0.5, mean, decide([mean], [()])[0], 72.2)]).axes[0].get_xlabel()
        'γ'
    """
    from matplotlib.figure import Figure

    if not cells:
        raise OptionError("there is no cell to draw: give at least one pair of weight and gamma.")
    weights = sorted({cell.weight for cell in cells})
    gammas = sorted({cell.gamma for cell in cells}, reverse=True)  # in the order of the paper
    shape = (len(weights), len(gammas))
    with paper():
        figure = Figure(figsize=(1.1 * len(gammas) * 2 + 1.6, 0.5 * len(weights) + 1.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        ours, theirs = np.full(shape, np.nan), np.full(shape, np.nan)
        for cell in cells:
            index = weights.index(cell.weight), gammas.index(cell.gamma)
            ours[index], theirs[index] = cell.difference.mean, cell.paper
            _draw_cell(left, cell, index)
            if math.isfinite(cell.paper):
                _write(right, index, f"{cell.paper:.2f}")
        largest = max(1e-3, float(np.nanmax(np.abs(ours), initial=0.0)))
        _draw_panel(left, ours, "CE+OPL minus CE, validation top-1", weights, gammas, ("PuOr_r", -largest, largest))
        low, high = (float(end(theirs)) if np.isfinite(theirs).any() else 0.0 for end in (np.nanmin, np.nanmax))
        _draw_panel(right, theirs, "the paper's validation top-1", weights, gammas, ("cividis", low, high))
        figure.supxlabel(textwrap.fill(NOTE, 110), fontsize=6)
    return figure


def cells_of(rows: Rows) -> list[Cell]:
    """The cells of a table whose rows, except the baseline, vary the weight and gamma of OPL."""
    cells = []
    for pair in pair_rows(rows, METRIC):
        opl = pair.runs[0].opl or {}
        weight, gamma = (number(opl.get(name)) for name in ("weight", "gamma"))
        if math.isfinite(weight) and math.isfinite(gamma):
            paper_value = pair.row.paper.get(METRIC, math.nan)
            cells.append(Cell(weight, gamma, pair.difference, pair.decision, paper_value, pair.pairs))
    return cells


def render(rows: Rows, order: Order) -> Rendering:
    """Both heat maps, and each difference as text."""
    cells = cells_of(rows)
    text = [
        f"weight {cell.weight:g}, gamma {cell.gamma:g}: {describe_decision(cell.difference, cell.decision)}"
        for cell in cells
    ]
    return Rendering({"": draw(cells)}, [*text, NOTE])


def _draw_panel(
    axes: "Axes",
    values: Array,
    title: str,
    weights: Sequence[float],
    gammas: Sequence[float],
    scale: tuple[str, float, float],
) -> None:
    name, low, high = scale
    axes.imshow(values, cmap=name, vmin=low, vmax=high, aspect="auto", alpha=0.6)
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(weights)), [f"{weight:g}" for weight in weights])
    axes.set_title(title, loc="left")
    axes.set(xlabel="γ", ylabel="weight λ")
    axes.tick_params(length=0)


def _draw_cell(axes: "Axes", cell: Cell, index: tuple[int, int]) -> None:
    """Write a difference with its interval, and mark it if it is significant."""
    from matplotlib.patches import Rectangle

    mean = cell.difference
    spread = f"\n[{mean.low:+.2f}, {mean.high:+.2f}]" if mean.size >= ENOUGH else ""
    if 1 < len(cell.pairs) < ENOUGH:
        spread = "\n" + " ".join(f"{pair:+.1f}" for pair in cell.pairs)
    if mean.size:
        _write(axes, index, f"{mean.mean:+.2f}{' •' if cell.excludes_zero else ''}{spread}")
    if cell.decided:
        row, column = index
        axes.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fill=False, linewidth=1.6, edgecolor="black"))


def _write(axes: "Axes", index: tuple[int, int], text: str) -> None:
    axes.text(index[1], index[0], text, ha="center", va="center", fontsize=7)
