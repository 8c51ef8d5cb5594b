"""One table per item and scale: the paper's numbers, ours, and the paired differences as numbers and drawings."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ..results.comparisons import Comparison, compare, comparison_verdict
from ..results.lines import Line
from ..results.markdown import document
from ..results.runs import BROKEN, Run
from ..results.tables import Table, build_table, describe_seeds_of
from ..results.text import describe_difference, describe_tests, number
from ..statistics import GAIN
from .context import Context
from .groups import Group, badge
from .html_table import cell, heading, row, scroll_box
from .intervals import DifferenceAxis
from .markup import Markup, join, no_break, tag

LEGEND = (
    "Ours is the mean over the seeds ± half of its 95 % interval (t distribution). A difference is taken seed by seed "
    "from the row's baseline, with the p-value of the paired t-test. A gain or a loss is what remains one after Holm's "
    "adjustment for all comparisons of the table; from six seeds on a sign-flip test stands beside it. Quoted lines "
    "are the paper's, of methods that are not run here."
)


def section(context: Context) -> Markup | None:
    """The section with all tables."""
    articles = [_article(group, context.runs) for group in context.groups]
    return join(tag("p", LEGEND, class_="lead"), *articles) if articles else None


def _article(group: Group, runs: Sequence[Run]) -> Markup:
    title = tag("h3", no_break(group.title), id=f"{group.key}-title")
    return tag("article", title, badge(group.scale), _content(group, runs), aria_labelledby=f"{group.key}-title")


def _content(group: Group, runs: Sequence[Run]) -> Markup:
    if not group.item.metrics:
        return tag("p", "No finished run has numbers for this table yet.", class_="absent")
    try:
        averages = {each.row.recipe for each in group.item.averages_at(group.scale)}
        here = {row.recipe for row in group.rows} | averages
        table = build_table(group.item, runs, group.scale)
        shown = [line for line in table.lines if line.recipe in here or line.quoted]
        return join(_table(group, replace(table, lines=shown)), _below(group, table, runs, len(shown)))
    except BROKEN as error:
        words = f"a result has no {error}." if isinstance(error, KeyError) else str(error)
        return tag("p", f"This table cannot be made: {words}", class_="absent")


def _table(group: Group, table: Table) -> Markup:
    axes = {name: axis for name in group.item.main if (axis := _axis(name, table.lines))}
    body = [_row(line, table, axes) for line in table.lines]
    return scroll_box(f"{group.title}, scale {group.scale}", _head(table, axes), body)


def _axis(name: str, shown: list[Line]) -> DifferenceAxis | None:
    return DifferenceAxis.over([line.difference[name] for line in shown if name in line.difference])


def _head(table: Table, axes: dict[str, DifferenceAxis]) -> list[list[Markup]]:
    metrics, papers = table.item.metrics, table.with_paper
    first = [heading(table.item.what, rowspan=2), heading("seeds", rowspan=2, class_="number")]
    first.append(heading("ours", colspan=len(metrics), scope="colgroup"))
    second = [heading(title, class_="number") for title in metrics.values()]
    if papers:
        first.append(heading(table.paper_title, colspan=len(papers), scope="colgroup", class_="paper"))
        second += [heading(metrics[name], class_="number") for name in papers]
    for name, axis in axes.items():
        words = join(f"difference in {metrics[name]}", axis.scale())
        first.append(heading(words, rowspan=2, class_="difference"))
    return [first, second]


def _row(line: Line, table: Table, axes: dict[str, DifferenceAxis]) -> Markup:
    metrics = table.item.metrics
    cells = [cell("seeds", describe_seeds_of(line))]
    for name, title in metrics.items():
        cells.append(cell(f"{title}, ours", number(line.numbers[name]) if name in line.numbers else "-", "ours"))
    for name in table.with_paper:
        cells.append(cell(f"{metrics[name]}, paper", f"{line.paper[name]:.2f}" if name in line.paper else "-"))
    cells += [_difference(line, name, axis, f"difference in {metrics[name]}") for name, axis in axes.items()]
    return row(line.label, *cells)


def _difference(line: Line, name: str, axis: DifferenceAxis, label: str) -> Markup:
    content = []
    difference = line.difference.get(name)
    if difference is not None and math.isfinite(difference.mean):
        decision = line.decisions[name]
        text = tag("span", describe_difference(difference), class_="number")
        pill = tag("span", decision.verdict, class_="pill gain" if decision.verdict == GAIN else "pill")
        tests = describe_tests(decision)
        content = [
            axis.draw(difference, decision.verdict == GAIN),
            tag("div", text, " ", pill, class_="said"),
            tag("div", tests, class_="quiet") if tests else None,
        ]
    elif difference is None and not line.missing:
        content = [tag("span", "the baseline" if line.seeds else "-", class_="quiet")]
    if line.missing:
        content.append(tag("div", line.missing, class_="quiet"))
    return tag("td", *content, role="cell", class_="difference", data_label=label)


def _below(group: Group, table: Table, runs: Sequence[Run], shown: int) -> Markup:
    """The content below a table; the copied Markdown equals the table's file, including rows without runs."""
    text, absent = f"copy-{group.key}", len(table.lines) - shown
    button = tag("button", "Copy as Markdown", type="button", class_="copy", data_copy=text)
    lacking = [f"{absent} rows of it have no runs here."] if absent else []
    words = [*table.protocols, *([table.item.note] if table.item.note else []), *lacking]
    pairs = compare(group.item, runs, group.scale)
    return join(
        tag("div", button, *(tag("p", each, class_="quiet") for each in words), class_="below"),
        _comparisons(group, pairs) if pairs else None,
        tag("pre", document(table), id=text, hidden=True),
    )


def _comparisons(group: Group, pairs: list[Comparison]) -> Markup:
    """The differences between these networks, which say nothing about other seeds."""
    words = f"Differences over the same {pairs[0].difference.size} {pairs[0].unit}, for these networks"
    head = [
        heading(group.item.what),
        *(heading(name) for name in ("against", "number", "seeds", "difference", "verdict")),
    ]
    body = [
        row(
            each.label,
            cell("against", each.baseline),
            cell("number", each.metric),
            cell("seeds", str(len(each.seeds))),
            cell("difference", describe_difference(each.difference)),
            cell("verdict", comparison_verdict(each.difference)),
        )
        for each in pairs
    ]
    return tag(
        "details", tag("summary", words), scroll_box(f"{group.title}, over the same {pairs[0].unit}", [head], body)
    )
