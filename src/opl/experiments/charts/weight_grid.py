"""Table 8 as two heat maps over weight and gamma: paired differences from cross-entropy, and the paper's accuracies."""

import math
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import OptionError
from ..results.comparisons import describe_decision
from ..results.runs import Rows, number
from ..statistics import ENOUGH, LEVEL
from .figure import Axes, Figure, Order, Rendering, new_figure, write_cell
from .forest import Contrast, pair_rows
from .style import Array

METRIC = "val/top1"
NOTE = (
    "mean over the seeds, below it each seed, or from five seeds on the 95 % interval; frame: differs from CE after "
    "Holm's adjustment; dot: the interval of this cell alone excludes 0"
)


class Cell(NamedTuple):
    """One pair of weight and gamma: its difference from the baseline over shared seeds, and the paper's accuracy."""

    weight: float
    gamma: float
    contrast: Contrast
    paper: float = math.nan

    @property
    def text(self) -> str:
        """The mean, with a dot if it is significant alone, and the interval or the difference of each seed."""
        mean, pairs = self.contrast.difference, self.contrast.pairs
        if not mean.size:
            return ""
        spread = f"\n[{mean.low:+.2f}, {mean.high:+.2f}]" if mean.size >= ENOUGH else ""
        if 1 < len(pairs) < ENOUGH:
            spread = "\n" + " ".join(f"{pair:+.1f}" for pair in pairs)
        return f"{mean.mean:+.2f}{' •' if self.contrast.decision.p < 1 - LEVEL else ''}{spread}"


def draw(cells: Sequence[Cell]) -> Figure:
    """Draw a matplotlib figure: our differences with their intervals on the left, the paper's accuracies on the right.

    Pairs of weight and gamma without a cell stay empty.
    """
    if not cells:
        raise OptionError("there is no cell to draw: pass at least one pair of weight and gamma.")
    weights = sorted({cell.weight for cell in cells})
    gammas = sorted({cell.gamma for cell in cells}, reverse=True)  # in the order of the paper
    ours, theirs = np.full((2, len(weights), len(gammas)), np.nan)
    size = (1.1 * len(gammas) * 2 + 1.6, 0.5 * len(weights) + 1.3)
    with new_figure(*size, columns=2) as (figure, [[left, right]]):
        for cell in cells:
            index = weights.index(cell.weight), gammas.index(cell.gamma)
            ours[index], theirs[index] = cell.contrast.difference.mean, cell.paper
            write_cell(left, *index, cell.text, cell.contrast.significant)
            write_cell(right, *index, f"{cell.paper:.2f}" if math.isfinite(cell.paper) else "", False)
        largest = max(1e-3, float(np.nanmax(np.abs(ours), initial=0.0)))
        low, high = (float(end(theirs)) if np.isfinite(theirs).any() else 0.0 for end in (np.nanmin, np.nanmax))
        _draw_panel(left, ours, "CE+OPL minus CE, validation top-1", ("PuOr_r", -largest, largest))
        _draw_panel(right, theirs, "the paper's validation top-1", ("cividis", low, high))
        for axes in (left, right):
            axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
            axes.set_yticks(range(len(weights)), [f"{weight:g}" for weight in weights])
        figure.supxlabel(textwrap.fill(NOTE, 110), fontsize=6)
    return figure


def cells_of(rows: Rows) -> list[Cell]:
    """Return the cells of a table whose rows, except the baseline, vary the weight and gamma of OPL."""
    cells = []
    for row, runs, contrast in pair_rows(rows, METRIC):
        weight, gamma = (number((runs[0].opl or {}).get(name)) for name in ("weight", "gamma"))
        if math.isfinite(weight) and math.isfinite(gamma):
            cells.append(Cell(weight, gamma, contrast, row.paper.get(METRIC, math.nan)))
    return cells


def render(rows: Rows, order: Order) -> Rendering:
    """Render both heat maps and, as text, each difference."""
    cells = cells_of(rows)
    text = [
        f"weight {cell.weight:g}, gamma {cell.gamma:g}: "
        f"{describe_decision(cell.contrast.difference, cell.contrast.decision)}"
        for cell in cells
    ]
    return Rendering({"": draw(cells)}, [*text, NOTE])


def _draw_panel(axes: Axes, values: Array, title: str, scale: tuple[str, float, float]) -> None:
    name, low, high = scale
    axes.imshow(values, cmap=name, vmin=low, vmax=high, aspect="auto", alpha=0.6)
    axes.set_title(title, loc="left")
    axes.set(xlabel="γ", ylabel="weight λ")
    axes.tick_params(length=0)
