"""The feature space: s and d as numbers, then the classes as matrices and in the plane."""

import math
from collections.abc import Sequence

from ..figures.similarity import off_diagonal_mean
from ..results.runs import BROKEN, Run, number
from ..results.tables import number as with_interval
from ..statistics import interval
from ..tables import Row
from . import clouds, matrices
from .charts import Charts
from .groups import Group, badge, new_rows
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, no_break, tag
from .predictions import RunPredictions, first_seen

MOST = 16  # rows of a group that are looked at more closely
LEAD = (
    "OPL asks for s, the cosine within a class, of 1 and for d, the |cosine| between classes, of 0. The matrices show "
    "|cosine| between the average test features of each pair of classes: dark off the diagonal is at right angles."
)


def section(groups: Sequence[Group], charts: Charts) -> Markup | None:
    """One article for each group."""
    parts = []
    for group, rows in new_rows(groups):
        finished = [each for each in rows if group.finished(each)]
        parts += [_article(group, finished, charts)] if finished else []
    return join(tag("p", LEAD, class_="lead"), *parts) if parts else None


def _article(group: Group, rows: Sequence[Row], charts: Charts) -> Markup:
    pair = group.pair() or ()
    ordered = [each for each in pair if each in rows] + [each for each in rows if each not in pair]
    seen = [found for each in ordered[:MOST] if (found := first_seen(group, each))]
    parts = [_numbers(group, rows, seen)]
    for make in (matrices.figures, clouds.features, clouds.novel):
        try:
            parts.append(make(group, seen, charts) or Markup())
        except BROKEN as error:
            parts.append(tag("p", f"A figure cannot be drawn: {error}", class_="absent"))
    return tag("article", tag("h3", no_break(group.title)), badge(group.scale), *parts)


def _numbers(group: Group, rows: Sequence[Row], seen: Sequence[RunPredictions]) -> Markup:
    """s, d and the off-diagonal mean, as text."""
    columns = {"s": "test/s", "d": "test/d"}
    means = {one.row.recipe: _mean(one) for one in seen}
    last = ["off-diagonal mean"] if any(means.values()) else []
    head = [heading("loss"), *(heading(name, class_="number") for name in [*columns, *last])]
    body = []
    for each in rows:
        cells = [cell(name, _final(group.finished(each), key)) for name, key in columns.items()]
        cells += [cell(name, means.get(each.recipe) or "-") for name in last]
        body.append(row(each.label, *cells))
    return scroll_box(f"s and d at the end, {group.title}, scale {group.scale}", [head], body, "narrow")


def _mean(one: RunPredictions) -> str:
    try:
        matrix = one.matrix()
    except BROKEN:
        return ""
    return f"{off_diagonal_mean(matrix):.3f} (seed {one.run.seed})" if matrix else ""


def _final(runs: Sequence[Run], key: str) -> str:
    values = [number(run.result.get(key)) for run in runs]
    return with_interval(interval([value for value in values if math.isfinite(value)]))
