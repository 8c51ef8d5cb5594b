"""Every seed as two dots, the baseline and the row compared with it, joined by a line. Drawn on the page only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..results.runs import Run, number
from .style import shorten, split_common
from .svg import DataTable, Scale, axes, drawing, element, extent, short

WIDTH, HEIGHT = 190, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 12, 30
NAME = 12  # characters of a label below its dots
LOWER_IS_BETTER = ("test/d",)


@dataclass(frozen=True)
class SeedPairs:
    """The values of a metric in a baseline and a row, for the seeds that both have."""

    title: str
    labels: tuple[str, str]
    values: tuple[tuple[int, float, float], ...]
    """Seed, value of the baseline, value of the row."""
    sign: int = 1
    """1 if more is better, -1 if less is better."""

    @property
    def versus(self) -> str:
        """Name of the comparison, without the words that both labels begin with."""
        return f"{self.labels[1]} vs {split_common(*self.labels)[1][0]}"

    def direction(self, before: float, after: float) -> str:
        """Return whether a seed got `better`, `worse` or stayed `level`."""
        change = self.sign * (after - before)
        return "better" if change > 0 else "worse" if change < 0 else "level"


def seed_pairs(
    metric: str, title: str, labels: tuple[str, str], before: Sequence[Run], after: Sequence[Run]
) -> SeedPairs | None:
    """Return the seeds for which both rows have a finite value of the metric; None if there are none."""
    values_before, values_after = (
        {run.seed: number(run.result.get(metric)) for run in runs} for runs in (before, after)
    )
    values = [(seed, values_before[seed], value) for seed, value in values_after.items() if seed in values_before]
    finite = tuple(value for value in values if math.isfinite(value[1]) and math.isfinite(value[2]))
    return SeedPairs(title, labels, finite, -1 if metric in LOWER_IS_BETTER else 1) if finite else None


def to_svg(pairs: SeedPairs) -> Markup:
    """Draw the pairs as a small chart of the page."""
    y = Scale(*extent([value for _, *both in pairs.values for value in both], 1e-3), HEIGHT - BOTTOM, TOP)
    names = split_common(*pairs.labels)[1]
    columns = (LEFT + 24, WIDTH - RIGHT - 24)
    parts = [axes(Scale(0, 1, LEFT, WIDTH - RIGHT), y, {}, most=4)]
    for name, x in zip(names, columns, strict=True):
        parts.append(element("text", shorten(name, NAME), x=x, y=HEIGHT - 10, text_anchor="middle", class_="name"))
    for seed, before, after in pairs.values:
        ends = short(y.at(before)), short(y.at(after))
        line = element("line", x1=columns[0], x2=columns[1], y1=ends[0], y2=ends[1])
        dots = [element("circle", cx=x, cy=end, r=4) for x, end in zip(columns, ends, strict=True)]
        title = element("title", f"seed {seed}: {before:g} → {after:g}")
        parts.append(element("g", line, *dots, title, class_=f"pair {pairs.direction(before, after)}"))
    listed = "; ".join(f"seed {seed} {before:.4g} to {after:.4g}" for seed, before, after in pairs.values)
    return drawing(f"{pairs.title}, {' and '.join(pairs.labels)}: {listed}.", WIDTH, HEIGHT, *parts)


def data_table(compared: Sequence[SeedPairs]) -> DataTable:
    """Return all pairs of all comparisons."""
    rows = [
        (f"{pairs.labels[1]} vs {pairs.labels[0]}", seed, f"{before:.4g}", f"{after:.4g}", f"{after - before:+.3g}")
        for pairs in compared
        for seed, before, after in pairs.values
    ]
    return DataTable(f"{compared[0].title} by seed", ("comparison", "seed", "baseline", "row", "difference"), rows)
