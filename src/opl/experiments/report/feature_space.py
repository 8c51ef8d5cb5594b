"""The feature space: s and d as numbers, then similarity matrices and features in the plane."""

import math
from collections.abc import Sequence

from ..figures.similarity import off_diagonal_mean
from ..item import Row
from ..results.runs import BROKEN, Rows, Run, describe_seeds, number
from ..results.text import number as with_interval
from ..statistics import interval
from . import clouds, matrices
from .charts import Charts
from .context import Context
from .groups import Group, badge, new_rows
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, no_break, tag

FIGURES = (matrices.figures, clouds.features, clouds.novel)
MOST = 16  # maximum number of rows of a group that get figures
LEAD = (
    "OPL asks for s, the cosine within a class, of 1 and for d, the |cosine| between classes, of 0. The matrices show "
    "|cosine| between the average test features of each pair of classes: dark off the diagonal is at right angles."
)


def section(context: Context) -> Markup | None:
    """One article per group."""
    parts = []
    for group, rows in new_rows(context.groups):
        finished = [each for each in rows if group.finished(each)]
        parts += [_article(group, finished, context.charts)] if finished else []
    return join(tag("p", LEAD, class_="lead"), *parts) if parts else None


def _article(group: Group, rows: Sequence[Row], charts: Charts) -> Markup:
    pair = group.pair() or ()
    ordered = [each for each in pair if each in rows] + [each for each in rows if each not in pair]
    kept = [(each, [run for run in group.finished(each) if run.arrays()]) for each in ordered[:MOST]]
    drawable = [(each, runs) for each, runs in kept if runs]
    parts = [_numbers(group, rows, drawable)]
    for make in FIGURES:
        try:
            parts.append(make(group, drawable, charts) or Markup())
        except BROKEN as error:
            parts.append(tag("p", f"A figure cannot be drawn: {error}", class_="absent"))
    return tag("article", tag("h3", no_break(group.title)), badge(group.scale), *parts)


def _numbers(group: Group, rows: Sequence[Row], drawable: Rows) -> Markup:
    """A table of s, d and the off-diagonal mean."""
    columns = {"s": "test/s", "d": "test/d"}
    means = {each.recipe: _mean(each, runs) for each, runs in drawable}
    last = ["off-diagonal mean"] if any(means.values()) else []
    head = [heading("loss"), *(heading(name, class_="number") for name in [*columns, *last])]
    body = []
    for each in rows:
        cells = [cell(name, _final(group.finished(each), key)) for name, key in columns.items()]
        cells += [cell(name, means.get(each.recipe) or "-") for name in last]
        body.append(row(each.label, *cells))
    return scroll_box(f"s and d at the end, {group.title}, scale {group.scale}", [head], body, "narrow")


def _mean(each: Row, runs: Sequence[Run]) -> str:
    try:
        found = matrices.average(each, runs)
    except BROKEN:
        return ""
    return f"{off_diagonal_mean(found.matrix):.3f} ({describe_seeds(found.seeds)})" if found else ""


def _final(runs: Sequence[Run], key: str) -> str:
    values = [number(run.result.get(key)) for run in runs]
    return with_interval(interval([value for value in values if math.isfinite(value)]))
