"""The table of an experiment: ours, the paper's numbers below them, and what the paired differences show."""

import math
from collections.abc import Sequence
from dataclasses import replace

from ..results.comparisons import Comparison, Line, compare, comparison_verdict, describe_difference, format_interval
from ..results.runs import BROKEN, Run
from ..results.tables import Table, build_table, describe_seeds_of
from ..results.text import document
from .context import Experiment
from .figure import absent
from .forest import verdict_mark
from .groups import Group
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag

WIDEST = 2  # compared numbers whose differences stand in the table too; of more, only the plot shows them
LEGEND = (
    "Ours is the mean over the seeds ± half of its 95 % interval (t distribution), cut off where nothing is possible. "
    "A difference is taken seed by seed from the row's baseline. A verdict holds after Holm's adjustment for all "
    "comparisons of the table; equivalent means that two one-sided tests put the difference inside the margin."
)


def section(experiment: Experiment, runs: Sequence[Run]) -> Markup:
    """The table, or why it cannot be made."""
    group = experiment.group
    if not group.item.metrics:
        return absent("No finished run has numbers for this table yet.")
    try:
        averages = {each.row.recipe for each in group.item.averages_at(group.scale)}
        here = {row.recipe for row in group.rows} | averages
        table = build_table(group.item, runs, group.scale)
        shown = [line for line in table.lines if line.recipe in here or line.quoted]
        return join(_table(group, replace(table, lines=shown)), _below(group, table, runs, len(shown)))
    except BROKEN as error:
        words = f"a result has no {error}." if isinstance(error, KeyError) else str(error)
        return absent(f"This table cannot be made: {words}")


def _table(group: Group, table: Table) -> Markup:
    metrics = {
        name: title
        for name, title in table.item.metrics.items()
        if any(name in line.numbers or name in line.paper for line in table.lines)
    }
    compared = [name for name in table.item.main if len(table.item.main) <= WIDEST]
    head = [heading(table.item.what), heading("seeds", class_="number")]
    head += [heading(title, class_="number") for title in metrics.values()]
    head += [heading(f"difference in {metrics[name]}") for name in compared if name in metrics]
    body = [_row(line, metrics, [name for name in compared if name in metrics]) for line in table.lines]
    return scroll_box(f"{group.title}, scale {group.scale}", [head], body)


def _row(line: Line, metrics: dict[str, str], compared: Sequence[str]) -> Markup:
    cells = [cell("seeds", describe_seeds_of(line))]
    for name, title in metrics.items():
        ours = _ours(format_interval(line.numbers[name])) if name in line.numbers else "-"
        theirs = tag("span", f" paper {line.paper[name]:.2f}", class_="paper") if name in line.paper else None
        cells.append(cell(title, join(ours, theirs), "number ours"))
    cells += [_difference(line, name, f"difference in {metrics[name]}") for name in compared]
    return row(line.label, *cells)


def _ours(text: str) -> Markup:
    """A mean, and its interval, which may stand below it where a table is wide."""
    mean, _, ends = text.partition(" ")
    return join(mean, tag("span", f" {ends}", class_="ends") if ends else None)


def _difference(line: Line, name: str, label: str) -> Markup:
    content: list[object] = []
    difference = line.difference.get(name)
    if difference is not None and math.isfinite(difference.mean):
        content = [describe_difference(difference), " ", verdict_mark(line.decisions[name])]
    elif difference is None and not line.missing:
        content = [tag("span", "the baseline" if line.seeds else "-", class_="quiet")]
    if line.missing:
        content.append(tag("span", f" {line.missing}", class_="quiet missing"))
    return tag("td", *content, role="cell", class_="difference", data_label=label)


def _below(group: Group, table: Table, runs: Sequence[Run], shown: int) -> Markup:
    """The content below a table; the copied Markdown equals the table's file, including rows without runs."""
    text, absent_rows = f"copy-{group.key}", len(table.lines) - shown
    button = tag("button", "Copy as Markdown", type="button", class_="copy", data_copy=text)
    lacking = [f"{absent_rows} rows of it have no runs here."] if absent_rows else []
    setting = [f"The paper's numbers: {table.item.setting}."] if table.item.setting and table.with_paper else []
    words = [LEGEND, *table.protocols, *setting, *([table.item.note] if table.item.note else []), *lacking]
    pairs = compare(group.item, runs, group.scale)
    return join(
        tag("div", *(tag("p", each) for each in words), button, class_="below"),
        _comparisons(group, pairs) if pairs else None,
        tag("pre", document(table), id=text, hidden=True),
    )


def _comparisons(group: Group, pairs: list[Comparison]) -> Markup:
    """The differences between these networks, which say nothing about other seeds."""
    words = f"Differences over the same {pairs[0].difference.size} {pairs[0].unit}, for these networks"
    names = ("against", "number", "seeds", "difference", "verdict")
    head = [heading(group.item.what), *(heading(name) for name in names)]
    body = [
        row(
            each.label,
            cell("against", each.baseline, "words"),
            cell("number", each.metric, "words"),
            cell("seeds", str(len(each.seeds))),
            cell("difference", describe_difference(each.difference)),
            cell("verdict", comparison_verdict(each.difference), "words"),
        )
        for each in pairs
    ]
    return tag(
        "details", tag("summary", words), scroll_box(f"{group.title}, over the same {pairs[0].unit}", [head], body)
    )
