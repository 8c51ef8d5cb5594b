"""Differences from a baseline, one line a method: every seed, the mean and its interval, and what they show."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import OptionError
from ..results.comparisons import describe_decision
from ..results.runs import Rows
from ..statistics import ENOUGH, Decision, Interval
from ._pairs import paired
from .rendering import Order, Rendering
from .style import ACCENT, paper, print_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEEDS: tuple[str, ...] = ()  # only the results
METRIC = "test/top1"
WORDS = (
    "dots: seeds; line: mean and 95 % interval, from five seeds on; shaded: differences that count as none; the "
    "verdicts are after Holm's adjustment"
)


@dataclass(frozen=True)
class Contrast:
    """One method: its label, its difference from the baseline, that of every seed, and what it shows."""

    label: str
    difference: Interval
    decision: Decision
    pairs: tuple[float, ...] = ()


def draw(contrasts: Sequence[Contrast], title: str = "top-1") -> "Figure":
    """A matplotlib figure: a line for each method, the first at the top.

    Args:
        contrasts: at least one.
        title: what differs, in percentage points.

    Example:
        >>> from opl.experiments.statistics import decide, interval
        >>> one = interval([0.5, 0.7, 0.6])
        >>> figure = draw([Contrast("CE+OPL", one, decide([one], [()])[0], (0.5, 0.7, 0.6))])
        >>> figure.axes[0].get_xlabel()
        'difference from the baseline in top-1, points'
    """
    from matplotlib.figure import Figure

    if not contrasts:
        raise OptionError("there is no difference to draw: give at least one method with a baseline.")
    with paper():
        figure = Figure(figsize=(6.4, 0.9 + 0.34 * len(contrasts)), layout="constrained")
        axes = figure.subplots()
        margin = contrasts[0].difference.within.margin
        if math.isfinite(margin):
            axes.axvspan(-margin, margin, color="0.92", linewidth=0)
        axes.axvline(0, color="0.4", linewidth=0.8)
        for place, each in enumerate(contrasts):
            _line(axes, place, each)
        axes.set_yticks(range(len(contrasts)), [print_label(each.label, 60, 60) for each in contrasts])
        axes.set(xlabel=f"difference from the baseline in {print_label(title)}, points")
        axes.set_ylim(len(contrasts) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        figure.supxlabel(WORDS, fontsize=6)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """A line for each row that has a baseline, and each difference as text."""
    found = paired(rows, METRIC)
    contrasts = [Contrast(row.label, difference, decision, pairs) for row, _, pairs, difference, decision in found]
    words = [f"{each.label}: {describe_decision(each.difference, each.decision)}" for each in contrasts]
    return Rendering({"": draw(contrasts)}, [*words, WORDS])


def _line(axes: "Axes", place: int, each: Contrast) -> None:
    """Draw one method; its verdict stands at the right edge."""
    shown = [value for value in each.pairs if math.isfinite(value)]
    axes.plot(shown, [place] * len(shown), ".", color=ACCENT, markersize=5, alpha=0.5)
    one = each.difference
    if math.isfinite(one.mean):
        axes.plot(one.mean, place, "|", color=ACCENT, markersize=11, markeredgewidth=2)
    if one.size >= ENOUGH:
        axes.plot((one.low, one.high), (place, place), color=ACCENT)
    words = f"{one.mean:+.2f}, {each.decision.verdict}" if math.isfinite(one.mean) else each.decision.verdict
    axes.text(1.02, place, words, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
