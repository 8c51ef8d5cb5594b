"""Differences from a baseline on one axis: every seed, the mean with its interval, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..item import Item, Row
from ..results.comparisons import Line, describe_decision, range_of
from ..results.measures import Change
from ..results.runs import Rows, Run, number
from ..results.tables import short_label
from ..statistics import ENOUGH, GAIN, LOSS, Decision, Interval, decide, interval, moderate
from .figure import Axes, Figure, Order, Rendering, new_figure
from .style import ACCENT, print_label
from .svg import Scale, element, extent, short, ticks

METRIC = "test/top1"
NOTE = (
    "dots: seeds; line: mean and 95 % interval, from five seeds on; shaded: differences that count as none; the "
    "verdicts are after Holm's adjustment"
)
HEIGHT = 26
EDGES = (4.0, 96.0)  # the axis of the page, in percent of the width


@dataclass(frozen=True)
class Contrast:
    """One method compared with its baseline in one metric."""

    label: str
    difference: Interval
    decision: Decision
    pairs: tuple[float, ...] = ()
    """The difference of each seed."""
    versus: str = ""
    """What it is compared with, and in which metric if there are several; empty if this is clear."""
    group: str = ""
    """The heading of its group, whose words its label does not repeat; empty without groups."""

    @property
    def has_interval(self) -> bool:
        """Whether the interval is drawn; otherwise each seed is a dot."""
        return self.difference.size >= ENOUGH

    @property
    def significant(self) -> bool:
        """Whether there is a difference, after the adjustment for all comparisons."""
        return self.decision.verdict in (GAIN, LOSS)

    @property
    def ends(self) -> list[float]:
        """The values that the axis of the page must include."""
        if self.pairs and not self.has_interval:
            return list(self.pairs)
        ends = (self.difference.low, self.difference.high, self.difference.mean)
        return [end for end in ends if math.isfinite(end)]


def pair_rows(rows: Rows, metric: str) -> list[tuple[Row, Sequence[Run], Contrast]]:
    """Return the rows that have a baseline, their runs, and their differences over shared seeds, decided together."""
    by_recipe = {row.recipe: {run.seed: number(run.result.get(metric)) for run in runs} for row, runs in rows}
    compared = [(row, runs) for row, runs in rows if row.baseline]
    pairs = []
    for row, _ in compared:
        values, base = by_recipe[row.recipe], by_recipe.get(row.baseline, {})
        pairs.append(tuple(values[seed] - base[seed] for seed in values if seed in base))
    within = range_of(metric).of_differences
    differences = moderate([interval(values, within=within) for values in pairs])
    contrasts = zip(compared, differences, decide(differences, pairs), pairs, strict=True)
    return [
        (row, runs, Contrast(row.label, difference, decision, values))
        for (row, runs), difference, decision, values in contrasts
    ]


def contrasts(item: Item, lines: Sequence[Line], headings: Sequence[str] = ()) -> list[Contrast]:
    """Return every comparison of a table that has a value, in the order of the table.

    `headings` has the group of each row, whose words its label does not repeat; it is empty without groups.
    """
    comparisons = []
    for line, group in zip(lines, headings or [""] * len(lines), strict=True):
        for name in item.main:
            difference = line.difference.get(name)
            if difference is None or not math.isfinite(difference.mean):
                continue
            versus = f" vs {short_label(line.baseline, group)}" if line.baseline else ""
            metric = "" if len(item.main) == 1 else f", {item.metrics[name]}"
            values = (difference, line.decisions[name], line.pairs.get(name, ()))
            comparisons.append(Contrast(short_label(line.label, group), *values, f"{versus}{metric}", group))
    return comparisons


def of_measure(change: Change) -> Contrast:
    """Return the change of a measure as a comparison; better is a gain, whatever the measure's direction."""
    verdict = {"better": GAIN, "worse": LOSS}.get(change.verdict, change.verdict)
    return Contrast(change.info.title, change.difference, change.decision._replace(verdict=verdict), change.pairs)


def measure_axis(change: Change) -> Scale:
    """Return a measure's own axis with 0 in the middle, in percent of the width: measures have different units."""
    end = 1.08 * max((abs(end) for end in of_measure(change).ends), default=0.0) or 1.0
    return Scale(-end, end, *EDGES)


def measure_strip(change: Change) -> Markup | None:
    """Draw the differences of all seeds in a measure; None without a seed that both rows have."""
    return to_svg(of_measure(change), measure_axis(change), math.nan) if change.before else None


def margin_of(contrasts: Sequence[Contrast]) -> float:
    """Return the margin within which differences count as none; NaN if the metrics have different margins."""
    margins = {contrast.difference.within.margin for contrast in contrasts}
    return margins.pop() if len(margins) == 1 else math.nan


def axis_of(contrasts: Sequence[Contrast]) -> Scale:
    """Return the axis of the page that all comparisons share, in percent of the width."""
    margin = margin_of(contrasts)
    zone = [-margin, margin] if math.isfinite(margin) else []
    return Scale(*extent([0.0, *zone, *(end for contrast in contrasts for end in contrast.ends)]), *EDGES)


def describe_marks(contrasts: Sequence[Contrast]) -> str:
    """Describe what dots, bars and lines mean in the drawing of these comparisons."""
    margin = margin_of(contrasts)
    parts = []
    if not all(contrast.has_interval for contrast in contrasts):
        parts.append("One dot per seed; the bar is their mean. With fewer than five seeds, no interval is drawn.")
    if any(contrast.has_interval for contrast in contrasts):
        parts.append("The line is the 95 % interval of the mean.")
    if math.isfinite(margin):
        parts.append(f"In the gray zone, ±{margin:g}, a difference counts as none.")
    return " ".join(parts)


def axis_svg(x: Scale) -> Markup:
    """Draw the tick labels of the axis, without labels that would touch an edge."""
    labels = [
        element("text", f"{value:+g}" if value else "0", x=_percent(x, value), y=10, text_anchor="middle")
        for value in ticks(x.low, x.high, 5)
        if EDGES[0] <= x.at(value) <= EDGES[1]
    ]
    return element("svg", *labels, width="100%", height=14, class_="strip", aria_hidden="true")


def to_svg(contrast: Contrast, x: Scale, margin: float) -> Markup:
    """Draw one comparison as a strip of the page."""
    middle, zero, mean = HEIGHT / 2, _percent(x, 0), _percent(x, contrast.difference.mean)
    parts = []
    if math.isfinite(margin):
        width = f"{short(x.at(margin) - x.at(-margin))}%"
        parts.append(element("rect", x=_percent(x, -margin), y=0, width=width, height=HEIGHT, class_="zone"))
    parts.append(element("line", x1=zero, x2=zero, y1=0, y2=HEIGHT, class_="zero"))
    if contrast.has_interval or not contrast.pairs:
        if math.isfinite(contrast.difference.half):
            low, high = _percent(x, contrast.difference.low), _percent(x, contrast.difference.high)
            parts.append(element("line", x1=low, x2=high, y1=middle, y2=middle, class_="whisker"))
        parts.append(element("circle", cx=mean, cy=middle, r=5, class_="mean"))
    else:
        parts += [element("circle", cx=_percent(x, pair), cy=middle, r=4, class_="seed") for pair in contrast.pairs]
        parts.append(element("line", x1=mean, x2=mean, y1=4, y2=HEIGHT - 4, class_="mean"))
    kind = {GAIN: "strip gain", LOSS: "strip loss"}.get(contrast.decision.verdict, "strip")
    return element("svg", *parts, width="100%", height=HEIGHT, class_=kind, aria_hidden="true")


def draw(contrasts: Sequence[Contrast]) -> Figure:
    """Draw a matplotlib figure of the differences in top-1: one line per method, the first at the top."""
    with new_figure(6.4, 0.9 + 0.34 * len(contrasts)) as (figure, [[axes]]):
        margin = contrasts[0].difference.within.margin
        if math.isfinite(margin):
            axes.axvspan(-margin, margin, color="0.92", linewidth=0)
        axes.axvline(0, color="0.4", linewidth=0.8)
        for row, contrast in enumerate(contrasts):
            _draw_line(axes, row, contrast)
        axes.set_yticks(range(len(contrasts)), [print_label(contrast.label, 60, 60) for contrast in contrasts])
        axes.set(xlabel="difference from the baseline in top-1, points")
        axes.set_ylim(len(contrasts) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        figure.supxlabel(NOTE, fontsize=6)
    return figure


def render(rows: Rows, order: Order) -> Rendering:
    """Render one line per row that has a baseline and, as text, each difference."""
    pairs = [contrast for _, _, contrast in pair_rows(rows, METRIC)]
    text = [f"{contrast.label}: {describe_decision(contrast.difference, contrast.decision)}" for contrast in pairs]
    return Rendering({"": draw(pairs)}, [*text, NOTE])


def _draw_line(axes: Axes, row: int, contrast: Contrast) -> None:
    """Draw one method, with its verdict at the right edge."""
    values = [value for value in contrast.pairs if math.isfinite(value)]
    axes.plot(values, [row] * len(values), ".", color=ACCENT, markersize=5, alpha=0.5)
    mean, verdict = contrast.difference.mean, contrast.decision.verdict
    if math.isfinite(mean):
        axes.plot(mean, row, "|", color=ACCENT, markersize=11, markeredgewidth=2)
    if contrast.has_interval:
        axes.plot((contrast.difference.low, contrast.difference.high), (row, row), color=ACCENT)
    text = f"{mean:+.2f}, {verdict}" if math.isfinite(mean) else verdict
    axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7)


def _percent(x: Scale, value: float) -> str:
    return f"{short(x.at(value))}%"
