"""Every comparison of a table on one axis: a dot for each seed or, from five on, the interval; and the verdict."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..results.comparisons import describe_difference, describe_tests
from ..statistics import ENOUGH, GAIN, LOSS, Decision, Interval
from .context import Experiment
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag
from .svg import Scale, reach, short, ticks

HEIGHT = 26
EDGES = (4.0, 96.0)  # the axis, in per cent of the width


class Comparison(NamedTuple):
    """A row against its baseline in one metric."""

    label: str
    against: str
    difference: Interval
    pairs: tuple[float, ...]
    decision: Decision

    @property
    def ends(self) -> list[float]:
        """What has to fit on the axis."""
        if self.difference.size >= ENOUGH or not self.pairs:
            ends = [self.difference.low, self.difference.high, self.difference.mean]
            return [end for end in ends if math.isfinite(end)]
        return list(self.pairs)


def figure(experiment: Experiment) -> Markup | None:
    """The plot as a table, so that its numbers stand beside the drawing and can be sorted; None without comparisons."""
    found = comparisons(experiment)
    if not found:
        return None
    margins = {each.difference.within.margin for each in found}
    margin = margins.pop() if len(margins) == 1 else math.nan
    zone = [-margin, margin] if math.isfinite(margin) else []
    x = Scale(*reach([0.0, *zone, *(end for each in found for end in each.ends)]), *EDGES)
    item = experiment.group.item
    title = f"difference in {item.metrics[item.main[0]]}" if _one_metric(experiment) else "difference"
    head = [
        heading("compared"),
        heading(join(title, _scale(x)), class_="strip", sort=False),
        heading("mean [95 % interval]"),
        heading("verdict"),
    ]
    body = [_row(each, x, margin) for each in found]
    label = f"Differences, {experiment.group.title}, scale {experiment.group.scale}"
    return tag("div", scroll_box(label, [head], body, "forest"), tag("p", _note(found, margin), class_="note"))


def comparisons(experiment: Experiment) -> list[Comparison]:
    """Every comparison that has a value, in the order of the table."""
    item, shown = experiment.group.item, {line.recipe: line for line in experiment.lines}
    averages = tuple(average.row for average in item.averages_at(experiment.group.scale))
    bases = {row.recipe: row.baseline for row in (*item.rows, *averages)}
    found = []
    for line in experiment.lines:
        for name in item.main:
            difference = line.difference.get(name)
            if difference is None or not math.isfinite(difference.mean):
                continue
            base = shown.get(bases.get(line.recipe, ""))
            against = f" against {without_shared(base.label, line.label)}" if base else ""
            metric = "" if _one_metric(experiment) else f", {item.metrics[name]}"
            pairs = line.pairs.get(name, ())
            found.append(Comparison(line.label, f"{against}{metric}", difference, pairs, line.decisions[name]))
    return found


def verdict_mark(decision: Decision) -> Markup:
    """The verdict as a colored word."""
    kind = {GAIN: " gain", LOSS: " loss"}.get(decision.verdict, " alike" if decision.equivalent else "")
    return tag("span", decision.verdict, class_=f"pill{kind}")


def without_shared(label: str, other: str) -> str:
    """A label without the words that another one begins with too, but for the last.

    Example:
        >>> without_shared("CIFAR-100, 20 classes CE", "CIFAR-100, 20 classes CE+OPL")
        'CE'
    """
    words, beside = label.split(), other.split()
    shared = 0
    while shared < min(len(words), len(beside)) - 1 and words[shared] == beside[shared]:
        shared += 1
    return " ".join(words[shared:])


def _one_metric(experiment: Experiment) -> bool:
    return len(experiment.group.item.main) == 1


def _note(found: Sequence[Comparison], margin: float) -> str:
    few = any(each.difference.size < ENOUGH for each in found)
    many = any(each.difference.size >= ENOUGH for each in found)
    parts = ["Each dot is a seed, the bar their mean: fewer than five seeds draw no interval."] if few else []
    parts += ["The line is the 95 % interval of the mean."] if many else []
    if math.isfinite(margin):
        parts.append(f"In the gray zone, ±{margin:g}, a difference counts as none.")
    return " ".join(parts)


def _row(each: Comparison, x: Scale, margin: float) -> Markup:
    tests = describe_tests(each.decision)
    verdict = join(verdict_mark(each.decision), tag("span", f" {tests}", class_="quiet tests") if tests else None)
    return row(
        join(each.label, tag("span", each.against, class_="quiet")),
        cell("", _strip(each, x, margin), "strip"),
        cell("", describe_difference(each.difference)),
        cell("verdict", verdict, "judged"),
    )


def _scale(x: Scale) -> Markup:
    """Tick labels, without those that would touch."""
    marks = ticks(x.low, x.high, 5)
    labels = [
        tag("text", f"{value:+g}" if value else "0", x=_percent(x, value), y=10, text_anchor="middle")
        for value in marks
        if EDGES[0] <= x.at(value) <= EDGES[1]
    ]
    return tag("svg", *labels, width="100%", height=14, class_="strip", aria_hidden="true")


def _strip(each: Comparison, x: Scale, margin: float) -> Markup:
    middle, zero = HEIGHT / 2, _percent(x, 0)
    parts = []
    if math.isfinite(margin):
        width = f"{short(x.at(margin) - x.at(-margin))}%"
        parts.append(tag("rect", x=_percent(x, -margin), y=0, width=width, height=HEIGHT, class_="zone"))
    parts.append(tag("line", x1=zero, x2=zero, y1=0, y2=HEIGHT, class_="zero"))
    difference, mean = each.difference, _percent(x, each.difference.mean)
    if difference.size >= ENOUGH or not each.pairs:
        if math.isfinite(difference.half):
            ends = {"x1": _percent(x, difference.low), "x2": _percent(x, difference.high)}
            parts.append(tag("line", **ends, y1=middle, y2=middle, class_="whisker"))
        parts.append(tag("circle", cx=mean, cy=middle, r=5, class_="mean"))
    else:
        parts += [tag("circle", cx=_percent(x, value), cy=middle, r=4, class_="seed") for value in each.pairs]
        parts.append(tag("line", x1=mean, x2=mean, y1=4, y2=HEIGHT - 4, class_="mean"))
    kind = {GAIN: "strip gain", LOSS: "strip loss"}.get(each.decision.verdict, "strip")
    return tag("svg", *parts, width="100%", height=HEIGHT, class_=kind, aria_hidden="true")


def _percent(x: Scale, value: float) -> str:
    return f"{short(x.at(value))}%"
