"""Tables as text: one-sentence summaries, Markdown, and rows on the terminal.

Rows on the terminal are whole at any width; where the output is not a terminal, lines are never broken.
"""

import math
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ..item import Item, Row
from ..statistics import GAIN, LOSS, TOO_FEW, UNDECIDED
from ..terminal import escape, make_console
from .comparisons import (
    PERCENT,
    Line,
    describe_difference,
    describe_paper,
    format_interval,
    lines,
    paired_means,
    range_of,
    without_percent,
)
from .runs import Run, select_runs
from .tables import PAPER, Table, cells, describe_seeds_of, headings_of, list_rows, short_label

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 10_000  # columns, more than any table needs
GAP = 2  # spaces between columns
COMFORT = 20  # characters that a wrapped cell gets before a column is left out
EMPTY = "-"
"""A cell without a value."""
D = "test/d"


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *rows))


def document(table: Table) -> str:
    """The table with the text below it as paragraphs: its file, the page's copy, and its part of RESULTS.md."""
    return "\n\n".join([markdown_table(*cells(table)), *table.below])


class Column(NamedTuple):
    """A column of a table on the terminal."""

    heading: str
    cells: Sequence[str]
    wraps: bool = False
    """Whether its cells wrap between words; headings always do."""
    rank: int = 0
    """Columns with the highest rank are left out first where the terminal is too narrow; 0 is never left out."""

    def natural(self, lines: int = 1) -> int:
        """The width at which no cell wraps, and the heading takes at most so many lines."""
        longest = max(map(len, (*self.cells, *wrap_words(self.heading, 1))))
        while len(wrap_words(self.heading, longest)) > lines:
            longest += 1
        return longest

    def least(self, comfort: int = 0) -> int:
        """The smallest width that breaks no word; cells that wrap get `comfort` characters if they have so many."""
        parts = [part for cell in self.cells for part in (cell.split() if self.wraps else [cell])]
        longest = max(map(len, (*parts, *wrap_words(self.heading, 1))), default=0)
        return max(longest, min(comfort, self.natural(2))) if self.wraps else longest


def show(table: Table) -> None:
    """Print a table, and below it what does not fit into it, once.

    Where the terminal is narrow, columns are left out in this order: the paper's numbers of metrics that are not
    compared, these metrics (the last first), the seeds, the paper's numbers. A table that compares several metrics
    becomes one grid per metric. Output that is not a terminal has all columns, and its lines are not broken.
    """
    width = _console().width
    marked = " (synthetic data: the numbers mean nothing)" if table.scale == "tiny" else ""
    show_lines([f"{table.item.name}: {table.item.title}, scale {table.scale}{marked}", ""])
    headings = headings_of(table)
    grouped = len(set(headings)) > 1
    labels = [
        short_label(line.label, heading) if grouped else line.label
        for line, heading in zip(table.lines, headings, strict=True)
    ]
    left_out: dict[str, None] = {}
    for columns in _grids(table, labels, width):
        kept = _choose(columns, width)
        left_out |= dict.fromkeys(column.heading for column in columns if column not in kept)
        empty = [line.quoted and not any(column.heading.startswith(PAPER) for column in kept) for line in table.lines]
        _print_grid(width, kept, headings if grouped else [], empty)
    show_lines(_below(table, list(left_out), width))


def _below(table: Table, left_out: list[str], width: int) -> Iterator[str]:
    """The lines below the grid: columns that are left out, the paper's setting, missing runs, and the notes."""
    if left_out:
        yield f"Left out at {width} columns: {', '.join(left_out)}; table.md and the page have every column."
    if table.with_paper and table.paper_title != PAPER:
        yield f"The paper's numbers: {table.item.setting}."
    reasons = dict.fromkeys(line.missing for line in table.lines if line.missing)
    for reason in reasons:
        yield f"{list_rows([line.label for line in table.lines if line.missing == reason])}: {reason}."
    yield from table.below


def _grids(table: Table, labels: Sequence[str], width: int) -> list[list[Column]]:
    """All columns of a table as one grid or, if it compares several metrics and is too wide, a grid per metric."""
    item, every = table.item, table.lines
    numbers, papers = {}, {}
    differences: dict[str, list[Column]] = {name: [] for name in item.main}
    for index, (name, title) in enumerate(item.metrics.items()):
        main = name in item.main
        texts = [format_interval(line.numbers[name]) if name in line.numbers else EMPTY for line in every]
        numbers[name] = Column(title, texts, rank=0 if main else 3 + index)
        if name in table.with_paper:
            texts = [describe_paper(line, name) or EMPTY for line in every]
            heading = PAPER if len(table.with_paper) == 1 else f"{PAPER}'s {title}"
            papers[name] = Column(heading, texts, rank=1 if main else 3 + len(item.metrics))
        if main and any(name in line.decisions for line in every):
            paired = [line if name in line.decisions and line.difference[name].size else None for line in every]
            texts = [describe_difference(line.difference[name]) if line else EMPTY for line in paired]
            verdicts = [line.decisions[name].verdict if line else EMPTY for line in paired]
            differences[name] = [Column(f"difference in {title}", texts), Column("verdict", verdicts, wraps=True)]
    label = Column(item.what, labels, wraps=True)
    seeds = Column("seeds", [describe_seeds_of(line) for line in every], wraps=True, rank=2)
    judged = [column for columns in differences.values() for column in columns]
    whole = [label, seeds, *numbers.values(), *papers.values(), *judged]
    if len(item.main) < 2 or _widths(whole, width, COMFORT):
        return [whole]
    grids = [
        [label, numbers[name], *(papers[key] for key in papers if key == name), *differences[name]]
        for name in item.main
    ]
    others = [columns[name] for columns in (numbers, papers) for name in columns if name not in item.main]
    return [[label, seeds, *grids[0][1:], *others], *grids[1:]]


def _choose(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit, after the columns with the highest rank were left out."""
    kept = list(columns)
    while not _widths(kept, width, COMFORT) and (most := max(column.rank for column in kept)):
        del kept[max(index for index, column in enumerate(kept) if column.rank == most)]
    return kept


def _widths(columns: Sequence[Column], width: int, comfort: int = 0) -> list[int]:
    """The widths at which the columns fit, the widest shrunk first; empty if they do not."""
    widths = [column.natural() for column in columns]
    if sum(widths) + GAP * (len(widths) - 1) > width:
        widths = [column.natural(2) for column in columns]
    least = [column.least(comfort) for column in columns]
    while sum(widths) + GAP * (len(widths) - 1) > width:
        slack = [now - low for now, low in zip(widths, least, strict=True)]
        if not max(slack, default=0):
            return []
        widths[slack.index(max(slack))] -= 1
    return widths


def _print_grid(width: int, columns: Sequence[Column], headings: Sequence[str], empty: Sequence[bool]) -> None:
    """Print columns, and a heading where a group begins; terminals that are too narrow get a paragraph per row.

    Args:
        width: of the terminal.
        columns: the first names the rows.
        headings: the group of each row; empty without groups.
        empty: for each row, whether it is not printed.
    """
    widths = _widths(columns, width)
    names = [column.heading for column in columns]
    if widths:
        _print_row(names, widths)
        print((" " * GAP).join("-" * column for column in widths))
    before = ""
    for index, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if empty[index]:
            continue
        heading = headings[index] if headings else ""
        if heading != before:
            show_lines(["", heading] if before else [heading])
        before = heading
        if widths:
            _print_row(row, widths)
        else:
            numbers = (f"{name} {cell}" for name, cell in zip(names[1:], row[1:], strict=True) if cell != EMPTY)
            show_lines([f"{row[0]}: {'; '.join(numbers) or EMPTY}"])
    print()


def _print_row(cells: Sequence[str], widths: Sequence[int]) -> None:
    parts = [wrap_words(cell, width) for cell, width in zip(cells, widths, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        texts = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print(escape((" " * GAP).join(texts).rstrip()))


def wrap_words(text: str, width: int) -> list[str]:
    """The lines of a text, broken between words; a percent sign stays with the word before it."""
    joined = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(joined, max(1, width), break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in lines] or [""]


def show_rows(title: str, heading: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Print a title and rows as a grid, or one paragraph per row if the terminal is too narrow for the grid.

    The cells of the first column may wrap between words.
    """
    show_lines([title, ""])
    columns = [Column(name, [row[index] for row in body], wraps=index == 0) for index, name in enumerate(heading)]
    _print_grid(_console().width, columns, [], [False] * len(body))


def show_columns(body: Sequence[Sequence[str]]) -> None:
    """Print rows as columns without headings; on a terminal, all columns but the first may wrap."""
    columns = [Column("", cells, wraps=index > 0) for index, cells in enumerate(zip(*body, strict=True))]
    width = _console().width
    widths = _widths(columns, width) or [width]
    for row in body:
        _print_row(row if len(widths) == len(row) else ["  ".join(row)], widths)


def show_lines(lines: Iterable[str], stderr: bool = False) -> None:
    """Print lines, which wrap between words on a terminal."""
    console = _console(stderr)
    for line in lines:
        for part in wrap_words(line, console.width) if console.is_terminal else [line]:
            print(escape(part), file=sys.stderr if stderr else sys.stdout)


def _console(stderr: bool = False) -> "Console":
    """The console; where it is not a terminal, it is wider than any table."""
    console = make_console(stderr=stderr)
    return console if console.is_terminal else make_console(stderr=stderr, width=WIDEST)


def compared_rows(item: Item, runs: Sequence[Run], scale: str) -> list[tuple[Row, Row]]:
    """Each baseline with a row compared with it, both with runs; the headline first, then rows with OPL."""
    with_runs = {run.name for run in runs if run.scale == scale}
    with_opl = {run.name for run in runs if run.scale == scale and run.projects}
    by_recipe = {row.recipe: row for row in item.at(scale) if row.recipe in with_runs}
    pairs = [(by_recipe[row.baseline], row) for row in by_recipe.values() if row.baseline in by_recipe]
    return sorted(pairs, key=lambda pair: (pair[1].recipe != item.headline, pair[1].recipe not in with_opl))


def describe_effect(item: Item, runs: Sequence[Run], scale: str) -> str:
    """The effect of OPL, or of the first compared row, in one sentence.

    The first part is about d, the second about the first compared metric; both give the verdict on the paired
    difference, adjusted for all rows.
    """
    pairs = compared_rows(item, runs, scale)
    if not pairs:
        return _describe_alone(item, runs, scale)
    base, row = pairs[0]
    shared = {run.seed for run in select_runs(runs, base.recipe, scale)}
    seeds = [run.seed for run in select_runs(runs, row.recipe, scale) if run.seed in shared]
    if not seeds or not item.metrics:
        return f"{row.label} and {base.label} have no finished run with the same seed yet, so they are not compared."
    name = item.main[0]
    main = _line_of(lines(item, runs, scale), row)
    geometry = _line_of(lines_of_d(item, runs, scale), row)
    subject = "OPL" if (base.label, row.label) == ("CE", "CE+OPL") else row.label
    about_d = _describe_d(geometry)
    known, unknown = _describe_metric(main, name, item.metrics[name])
    parts = [part for part in (about_d, known) if part]
    effect = f" {' and '.join(parts)}" if parts else ""
    rest = f"{';' if parts else ':'} {unknown}" if unknown else ""
    return f"{subject}{effect}{rest}, {len(seeds)} seed{'' if len(seeds) == 1 else 's'}."


def count_verdicts(compared: Sequence[Line]) -> str:
    """The number of comparisons of a table with each verdict; empty for fewer than two comparisons.

    Rows without a run are not counted.
    """
    verdicts = Counter(decision.verdict for line in compared if line.paired for decision in line.decisions.values())
    if verdicts.total() < 2:
        return ""
    return f"All {verdicts.total()} comparisons, Holm-adjusted: {list_verdicts(verdicts)}."


def list_verdicts(verdicts: Counter[str]) -> str:
    """How often there is each verdict.

    Example:
        >>> list_verdicts(Counter(["undecided", "a loss", "a loss"]))
        '2 losses, 1 undecided'
    """
    plural, order = {GAIN: "gains", LOSS: "losses"}, (GAIN, LOSS, "equivalent", UNDECIDED, TOO_FEW)
    ranked = [verdict for start in order for verdict in verdicts if verdict.startswith(start)]
    return ", ".join(
        f"{verdicts[verdict]} {verdict.removeprefix('a ') if verdicts[verdict] == 1 else plural.get(verdict, verdict)}"
        for verdict in ranked
    )


def lines_of_d(item: Item, runs: Sequence[Run], scale: str) -> list[Line]:
    """The same table with d as its only number, so that its differences are decided together."""
    of_d = replace(item, metrics={D: "d"}, compared=(D,), averages=(), measures=(), quoted=())
    return lines(of_d, [run for run in runs if run.state != "done" or D in run.result], scale)


def _line_of(table: Sequence[Line], row: Row) -> Line:
    return next(line for line in table if line.recipe == row.recipe)


def _describe_d(line: Line) -> str:
    difference, decision = line.difference.get(D), line.decisions.get(D)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return ""
    before, after = (f"{mean:.2f}" for mean in paired_means(line, D))
    change = f"d {before} → {after}"
    sentences = {
        LOSS: f"moved images of different classes apart ({change})",
        GAIN: f"moved images of different classes closer together ({change})",
        UNDECIDED: f"had no clear effect on images of different classes ({change})",
        TOO_FEW: f"changed {change.replace('d ', 'd (', 1)})",
    }
    return sentences.get(decision.verdict, f"left images of different classes where they were ({change})")


def _describe_metric(line: Line, name: str, title: str) -> tuple[str, str]:
    """The effect of the row on a metric if there is a verdict, and what is known without a verdict; one is empty."""
    difference, decision = line.difference.get(name), line.decisions.get(name)
    percent = range_of(name, title) is PERCENT
    metric = describe_metric(title, percent)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return "", f"{metric} was not measured"
    before, after = paired_means(line, name)
    digits = 1 if abs(difference.mean) >= 0.05 else 2
    values = f"{after:.{digits}f} vs {before:.{digits}f}{' %' if percent else ''}"
    open_verdicts = {
        UNDECIDED: f"no clear effect on {metric} yet: {values}",
        TOO_FEW: f"too few seeds to judge {metric}: {values}",
    }
    sentences = {
        GAIN: f"raised {metric}: {values}",
        LOSS: f"lowered {metric}: {values}",
    }
    if decision.verdict in open_verdicts:
        return "", open_verdicts[decision.verdict]
    return sentences.get(decision.verdict, f"left {metric} unchanged, {decision.verdict}: {values}"), ""


def describe_metric(title: str, percent: bool = True) -> str:
    """A column heading as part of a sentence.

    Example:
        >>> describe_metric("top-1 %"), describe_metric("1-shot %"), describe_metric("seconds", percent=False)
        ('accuracy', 'accuracy (1-shot)', 'seconds')
    """
    metric = without_percent(title)
    if not percent:
        return metric
    return "accuracy" if metric in ("", "top-1") else f"accuracy ({metric})"


def _describe_alone(item: Item, runs: Sequence[Run], scale: str) -> str:
    """The result of rows without a baseline."""
    done = [line for line in lines(item, runs, scale) if line.seeds] if item.metrics else []
    if not done:
        states = Counter(run.state for run in runs if run.scale == scale)
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"No run of this table has finished yet: {counts or 'no run has started'}."
    line, name = done[0], item.main[0]
    sign = " %" if range_of(name, item.metrics[name]) is PERCENT else ""
    seeds = f"{len(line.seeds)} seed{'' if len(line.seeds) == 1 else 's'}"
    more = f", and {len(done) - 1} more in the table" if len(done) > 1 else ""
    metric = without_percent(item.metrics[name])
    return (
        f"{line.label} reached {metric} {line.numbers[name].mean:.1f}{sign} over {seeds}{more}; there is no "
        "baseline to compare with."
    )
