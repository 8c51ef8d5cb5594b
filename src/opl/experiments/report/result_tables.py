"""One table per item and scale: the paper's numbers, ours, and the paired differences as numbers and drawings."""

import math
from collections.abc import Sequence

from ..results.comparisons import Comparison, compare, comparison_verdict, notes
from ..results.runs import BROKEN, Run
from ..results.tables import Line, describe_difference, document, lines, number
from ..statistics import Interval, verdict
from .context import Context
from .groups import Group, badge
from .html_table import cell, heading, row, scroll_box
from .intervals import DifferenceAxis
from .markup import Markup, join, no_break, tag

LEGEND = (
    "Ours is the mean over the seeds ± half of its 95 % interval (t distribution). A difference is taken seed by seed "
    "from the row's baseline; only where its whole interval is above zero is it called a gain."
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
        found = lines(group.item, runs, group.scale)
        table = _table(group, [line for line in found if line.recipe in here])
        return join(table, _below(group, found, runs, sum(line.recipe not in here for line in found)))
    except BROKEN as error:
        words = f"a result has no {error}." if isinstance(error, KeyError) else str(error)
        return tag("p", f"This table cannot be made: {words}", class_="absent")


def _table(group: Group, shown: list[Line]) -> Markup:
    metrics = group.item.metrics
    with_paper = [name for name in metrics if any(name in line.paper for line in shown)]
    axes = {name: axis for name in group.item.main if (axis := _axis(name, shown))}
    body = [_row(line, metrics, with_paper, axes) for line in shown]
    head = _head(group.item.what, metrics, with_paper, axes)
    return scroll_box(f"{group.title}, scale {group.scale}", head, body)


def _axis(name: str, shown: list[Line]) -> DifferenceAxis | None:
    return DifferenceAxis.over([line.difference[name] for line in shown if name in line.difference])


def _head(
    what: str, metrics: dict[str, str], with_paper: list[str], axes: dict[str, DifferenceAxis]
) -> list[list[Markup]]:
    first = [heading(what, rowspan=2), heading("seeds", rowspan=2, class_="number")]
    second = []
    for name, title in metrics.items():
        if name in with_paper:
            first.append(heading(title, colspan=2, scope="colgroup"))
            second += [heading("ours", class_="number"), heading("paper", class_="number")]
        else:
            first.append(heading(title, rowspan=2, class_="number"))
        if name in axes:
            words = join(f"difference in {title}", axes[name].scale())
            first.append(heading(words, rowspan=2, class_="difference"))
    return [first, second]


def _row(line: Line, metrics: dict[str, str], with_paper: list[str], axes: dict[str, DifferenceAxis]) -> Markup:
    cells = [cell("seeds", str(len(line.seeds)))]
    for name, title in metrics.items():
        cells.append(cell(f"{title}, ours" if name in with_paper else title, number(line.numbers[name]), "ours"))
        if name in with_paper:
            cells.append(cell(f"{title}, paper", f"{line.paper[name]:.2f}" if name in line.paper else "-"))
        if name in axes:
            cells.append(_difference(line, line.difference.get(name), axes[name], f"difference in {title}"))
    return row(line.label, *cells)


def _difference(line: Line, difference: Interval | None, axis: DifferenceAxis, label: str) -> Markup:
    content = []
    if difference is not None and math.isfinite(difference.mean):
        words = verdict(difference)
        text = tag("span", describe_difference(difference), class_="number")
        pill = tag("span", words, class_="pill gain" if words == "a gain" else "pill")
        content = [axis.draw(difference), tag("div", text, " ", pill, class_="said")]
    elif difference is None and not line.missing:
        content = [tag("span", "the baseline" if line.seeds else "-", class_="quiet")]
    if line.missing:
        content.append(tag("div", line.missing, class_="quiet"))
    return tag("td", *content, role="cell", class_="difference", data_label=label)


def _below(group: Group, found: list[Line], runs: Sequence[Run], absent: int) -> Markup:
    """The content below a table; the copied Markdown equals the table's file, including rows without runs."""
    text = f"copy-{group.key}"
    button = tag("button", "Copy as Markdown", type="button", class_="copy", data_copy=text)
    note = " ".join([group.item.note, f"{absent} rows of it have no runs here." if absent > 0 else ""]).strip()
    pairs = compare(group.item, runs, group.scale)
    copied = document(group.item, found, notes(group.item, runs, group.scale))
    return join(
        tag("div", button, tag("span", note, class_="quiet") if note else None, class_="below"),
        _comparisons(group, pairs) if pairs else None,
        tag("pre", copied, id=text, hidden=True),
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
