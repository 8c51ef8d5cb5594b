"""Every seed as a dot, with and without OPL, and a line from one to the other."""

import math
from collections.abc import Sequence

from ..charts.style import shorten
from ..item import Row
from ..results.runs import Run, number
from .context import Experiment
from .figure import data_table, drawing, figure
from .forest import without_shared
from .html_table import cell, heading, row
from .markup import Markup, join, tag
from .svg import Scale, reach, short, ticks

WIDTH, HEIGHT = 190, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 12, 30
MOST = 12  # comparisons that are drawn; all are in the data table
NAME = 12  # letters of a label below its dots


def section(experiment: Experiment) -> Markup | None:
    """A small chart for each comparison in the first compared number, and one in d for the first comparison."""
    item = experiment.group.item
    if not item.metrics:
        return None
    name = item.main[0]
    found = [(pair, values) for pair in experiment.group.pairs() if (values := _values(experiment, pair, name))]
    if not found:
        return None
    drawn = [_chart(pair, values, item.metrics[name]) for pair, values in found[:MOST]]
    first = found[0][0]
    if name != "test/d" and (values := _values(experiment, first, "test/d")):
        drawn.insert(1, _chart(first, values, "d"))
    more = f" {len(found) - MOST} more comparisons are in the data." if len(found) > MOST else ""
    words = f"A line joins the two runs of a seed; blue ones got better, orange ones worse.{more}"
    return join(
        tag("p", words, class_="lead"),
        tag("div", *drawn, class_="grid small"),
        _table(found, item.metrics[name]),
    )


Values = list[tuple[int, float, float]]


def _values(experiment: Experiment, pair: tuple[Row, Row], name: str) -> Values:
    """The seeds that both rows have, with the value of each."""
    base, own = ({run.seed: _number(run, name) for run in experiment.group.finished(row)} for row in pair)
    return [
        (seed, base[seed], own[seed])
        for seed in own
        if seed in base and math.isfinite(base[seed]) and math.isfinite(own[seed])
    ]


def _number(run: Run, name: str) -> float:
    return number(run.result.get(name))


def _chart(pair: tuple[Row, Row], values: Values, metric: str) -> Markup:
    low, high = reach([value for _, *both in values for value in both], least=1e-3)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    places = (LEFT + 24, WIDTH - RIGHT - 24)
    parts = []
    for value in ticks(low, high, 4):
        line = short(y.at(value))
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=line, y2=line, class_="rule"))
        parts.append(tag("text", f"{value:g}", x=LEFT - 5, y=line, dy=".32em", text_anchor="end"))
    base, own = pair
    names = (without_shared(base.label, own.label), without_shared(own.label, base.label))
    for name, x in zip(names, places, strict=True):
        parts.append(tag("text", shorten(name, NAME), x=x, y=HEIGHT - 10, text_anchor="middle", class_="name"))
    for seed, *both in values:
        ends = [short(y.at(value)) for value in both]
        better = (both[1] - both[0]) * (-1 if metric == "d" else 1)
        kind = "better" if better > 0 else "worse" if better < 0 else "level"
        line = tag("line", x1=places[0], x2=places[1], y1=ends[0], y2=ends[1])
        dots = [tag("circle", cx=x, cy=end, r=4) for x, end in zip(places, ends, strict=True)]
        words = tag("title", f"seed {seed}: {both[0]:g} → {both[1]:g}")
        parts.append(tag("g", line, *dots, words, class_=f"pair {kind}"))
    said = "; ".join(f"seed {seed} {before:.4g} to {after:.4g}" for seed, before, after in values)
    label = f"{metric}, {base.label} and {own.label}: {said}."
    caption = join(metric, tag("span", f" {own.label} against {names[0]}", class_="quiet"))
    return figure(caption, drawing(label, WIDTH, HEIGHT, *parts), kind="dots")


def _table(found: Sequence[tuple[tuple[Row, Row], Values]], metric: str) -> Markup:
    head = [heading(name) for name in ("compared", "seed", "baseline", "row", "difference")]
    body = [
        row(
            f"{own.label} against {base.label}",
            cell("seed", seed),
            cell("baseline", f"{before:.4g}"),
            cell("row", f"{after:.4g}"),
            cell("difference", f"{after - before:+.3g}"),
        )
        for (base, own), values in found
        for seed, before, after in values
    ]
    return data_table(f"{metric}, seed by seed", head, body)
