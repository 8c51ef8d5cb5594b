"""Tables in words: one-sentence summaries, Markdown, and rows on the terminal.

Rows on the terminal are whole at any width; where the output is not a terminal, lines are never broken.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING

from ..item import Item, Row
from ..statistics import GAIN, LOSS, TOO_FEW, UNDECIDED
from .comparisons import PERCENT, Line, lines, range_of
from .runs import Run, select_runs
from .tables import Table, cells

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

WIDEST = 10_000  # columns, more than any table needs
EMPTY = "-"
"""A cell without a value."""
D = "test/d"


def markdown(table: Table) -> str:
    """The table alone."""
    heading, body = cells(table)
    ruled = [heading, ["---"] * len(heading), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in ruled)


def document(table: Table) -> str:
    """The table with the text below it as paragraphs: its file, the page's copy, and its part of RESULTS.md."""
    return "\n\n".join([markdown(table), *table.below])


def show(table: Table) -> None:
    """Print a table, and below it its differences and notes, one line each."""
    heading, body = cells(table)
    marked = " (synthetic data: the numbers mean nothing)" if table.scale == "tiny" else ""
    title = f"{table.item.name}: {table.item.title}, scale {table.scale}{marked}"
    apart = len(heading) - len(table.item.main)
    show_rows(title, heading[:apart], [row[:apart] for row in body], labels=2)
    show_lines(
        f"{row[0]}, {name}: {text}"
        for row in body
        for name, text in zip(heading[apart:], row[apart:], strict=True)
        if text != EMPTY
    )
    show_lines(table.below)


def show_rows(title: str, heading: Sequence[str], body: Sequence[Sequence[str]], labels: int = 1) -> None:
    """Print rows as a grid, or as one paragraph per row if the terminal is too narrow for the grid.

    Args:
        title: printed above the rows.
        heading: the names of the columns.
        body: the cells of each row.
        labels: the number of first columns that may wrap between words; other columns do not wrap.
    """
    from rich.console import Console

    console = Console()
    grid = _grid(title, heading, body, labels)
    least = console.measure(grid, options=console.options.update(width=WIDEST)).minimum
    if least <= console.width:
        console.print(grid)
    elif console.is_terminal:
        _show_stacked(console, title, heading, body)
    else:
        Console(width=least).print(grid)


def show_columns(body: Sequence[Sequence[str]]) -> None:
    """Print rows as columns without borders; on a terminal, all columns but the first may wrap."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        widths = [max(map(len, column)) for column in zip(*body, strict=True)]
        for row in body:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    grid = Grid.grid(padding=(0, 2))
    for column in range(len(body[0])):
        grid.add_column(overflow="fold", no_wrap=column == 0 and console.width > 2 * max(len(row[0]) for row in body))
    for row in body:
        grid.add_row(*map(Text, row))
    console.print(grid)


def show_lines(lines: Iterable[str], stderr: bool = False) -> None:
    """Print lines, which wrap between words on a terminal."""
    from rich.console import Console

    console = Console(stderr=stderr)
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def _grid(title: str, heading: Sequence[str], body: Sequence[Sequence[str]], labels: int) -> "Grid":
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(title=Text(title))
    for column, name in enumerate(heading):
        parts = [part for row in body for part in (row[column].split() if column < labels else [row[column]])]
        grid.add_column(Text(name), min_width=max(map(len, (*parts, *name.split())), default=0), overflow="fold")
    for row in body:
        grid.add_row(*map(Text, row))
    return grid


def _show_stacked(console: "Console", title: str, heading: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    """Print one paragraph per row below its first cell."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(title))
    for row in body:
        console.print(Text(row[0], "bold"))
        cells = [f"{name}: {text}" for name, text in zip(heading[1:], row[1:], strict=True) if text != EMPTY]
        console.print(Padding(Text("; ".join(cells)), (0, 0, 0, 2)))


def opl_pair(item: Item, runs: Sequence[Run], scale: str) -> tuple[Row, Row] | None:
    """The comparison to summarize, as baseline and row: the headline, the first row with OPL, or the first row."""
    with_runs = {run.name for run in runs if run.scale == scale}
    with_opl = {run.name for run in runs if run.scale == scale and run.projects}
    by_recipe = {row.recipe: row for row in item.at(scale) if row.recipe in with_runs}
    pairs = [(by_recipe[row.baseline], row) for row in by_recipe.values() if row.baseline in by_recipe]
    return min(pairs, key=lambda pair: (pair[1].recipe != item.headline, pair[1].recipe not in with_opl), default=None)


def describe_effect(item: Item, runs: Sequence[Run], scale: str) -> str:
    """The effect of OPL, or of the first compared row, in one sentence.

    The first part is about d, the second about the first compared metric; both give the verdict on the paired
    difference, adjusted for all rows.
    """
    pair = opl_pair(item, runs, scale)
    if pair is None:
        return _describe_alone(item, runs, scale)
    base, row = pair
    shared = {run.seed for run in select_runs(runs, base.recipe, scale)}
    seeds = [run.seed for run in select_runs(runs, row.recipe, scale) if run.seed in shared]
    if not seeds or not item.metrics:
        return f"{row.label} and {base.label} have no finished run with the same seed yet, so they are not compared."
    name = item.main[0]
    main = _line_of(lines(item, runs, scale), row)
    geometry = _line_of(_geometry(item, runs, scale), row)
    subject = "OPL" if (base.label, row.label) == ("CE", "CE+OPL") else row.label
    about_d = _describe_d(geometry)
    counted = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return f"{_join(subject, about_d, *_describe_metric(main, name, item.metrics[name]))}, {counted}."


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
    plural = {GAIN: "gains", LOSS: "losses"}
    return ", ".join(_count(plural.get(word, word), word, verdicts[word]) for word in sorted(verdicts, key=_rank))


def _count(many: str, word: str, count: int) -> str:
    return f"{count} {word.removeprefix('a ') if count == 1 else many}"


def _rank(verdict: str) -> int:
    order = (GAIN, LOSS, "equivalent", UNDECIDED, TOO_FEW)
    return next(index for index, start in enumerate(order) if verdict.startswith(start))


def _geometry(item: Item, runs: Sequence[Run], scale: str) -> list[Line]:
    """The same table with d as its only number, so that its differences are decided together."""
    of_d = replace(item, metrics={D: "d"}, compared=(D,), averages=(), measures=(), quoted=())
    return lines(of_d, [run for run in runs if run.state != "done" or D in run.result], scale)


def _line_of(table: Sequence[Line], row: Row) -> Line:
    return next(line for line in table if line.recipe == row.recipe)


def _means(line: Line, name: str) -> tuple[float, float]:
    """The means of the baseline and of the row over the seeds that both have."""
    shared = fmean(line.values[name][index] for index, seed in enumerate(line.seeds) if seed in line.paired)
    return shared - line.difference[name].mean, shared


def _describe_d(line: Line) -> str:
    difference, decision = line.difference.get(D), line.decisions.get(D)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return ""
    before, after = (f"{mean:.2f}" for mean in _means(line, D))
    change = f"d {before} → {after}"
    words = {
        LOSS: f"moved the classes apart ({change})",
        GAIN: f"moved the classes closer together ({change})",
        UNDECIDED: f"had no clear effect on the classes ({change})",
        TOO_FEW: f"changed {change.replace('d ', 'd (', 1)})",
    }
    return words.get(decision.verdict, f"left the distance of the classes unchanged ({change})")


def _describe_metric(line: Line, name: str, title: str) -> tuple[str, str]:
    """The effect of the row on a metric if there is a verdict, and what is known without a verdict; one is empty."""
    difference, decision = line.difference.get(name), line.decisions.get(name)
    percent = range_of(name, title) is PERCENT
    metric = describe_metric(title, percent)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return "", f"{metric} was not measured"
    before, after = _means(line, name)
    digits = 1 if abs(difference.mean) >= 0.05 else 2
    values = f"{after:.{digits}f} vs {before:.{digits}f}{' %' if percent else ''}"
    open_words = {
        UNDECIDED: f"no clear effect on {metric} yet: {values}",
        TOO_FEW: f"too few seeds to judge {metric}: {values}",
    }
    words = {
        GAIN: f"raised {metric}: {values}",
        LOSS: f"lowered {metric}: {values}",
    }
    if decision.verdict in open_words:
        return "", open_words[decision.verdict]
    return words.get(decision.verdict, f"left {metric} unchanged, {decision.verdict}: {values}"), ""


def _join(subject: str, about_d: str, known: str, unknown: str) -> str:
    if known:
        return f"{subject} {' and '.join(part for part in (about_d, known) if part)}"
    return f"{subject} {about_d}; {unknown}" if about_d else f"{subject}: {unknown}"


def describe_metric(title: str, percent: bool = True) -> str:
    """A column heading as part of a sentence.

    Example:
        >>> describe_metric("top-1 %"), describe_metric("1-shot %"), describe_metric("seconds", percent=False)
        ('accuracy', 'accuracy (1-shot)', 'seconds')
    """
    words = title.replace("%", "").strip(" ,")
    if not percent:
        return words
    return "accuracy" if words in ("", "top-1") else f"accuracy ({words})"


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
    metric = item.metrics[name].replace("%", "").strip(" ,")
    return (
        f"{line.label} reached {metric} {line.numbers[name].mean:.1f}{sign} over {seeds}{more}; there is no "
        "baseline to compare with."
    )
