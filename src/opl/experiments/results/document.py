"""RESULTS.md and docs/results/: texts whose tables are rendered from records.

Each table stands between two marker lines, and everything else stays as it is:

<!-- opl results: table-1 small -->
(the table)
<!-- end -->

Other blocks are `short ITEM ... SCALE` (the comparisons of some items in a small table), `summary SCALE` (the effect of
OPL over all tables), `tasks SCALE` (its means alone), `settings SCALE` (what it is made of), `verdicts` (every
comparison with variances of single rows and with moderated ones), `costs ITEM ... SCALE` (commands and their cost), and
the kinds that the caller adds, such as `differences board SCALE`. A block of an item without records says so, with the
command that makes its runs.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import dropwhile, takewhile, zip_longest
from pathlib import Path
from typing import NamedTuple

from ...errors import FolderError, OptionError, did_you_mean
from ..item import Item, describe_costs
from ..statistics import GAIN, LOSS, Interval
from ..terminal import count
from .comparisons import Line, describe_difference, family_of, lines, paired_means, stale_runs, without_percent
from .conformity import screen
from .records import read_records
from .runs import Run, inner, list_seeds, select_runs
from .summary import collect_settings, list_entry, render_settings, render_summary, render_tasks
from .tables import Table, build_table
from .text import D, document, lines_of_d, list_verdicts, markdown_table

SCALES = ("paper", "small")  # tiny and custom runs have no table
SHORT, VERDICTS, COSTS = "short", "verdicts", "costs"
OVERVIEWS = {"summary": render_summary, "tasks": render_tasks, "settings": render_settings}
"""Blocks over all settings of OPL."""
MOST = 6  # comparisons of a short table; of more, it has the decided ones, or the means
BEGIN = re.compile(r"<!-- opl results: (?P<arguments>[^<>]*) -->")
EXAMPLE, END = "`<!-- opl results: ITEM SCALE -->`", "<!-- end -->"
LIKE_A_MARKER = re.compile(r"<!--\s*opl\s+results|<!--\s*end\s*-->")

Render = Callable[[list[str], int], str]
"""The text of a block, from the arguments in its marker and the line number of the marker."""
RenderItem = Callable[[Item, Sequence[Run], str], str]
"""The text of a block of another kind, from an item, the records and a scale."""


def render_document(
    text: str, runs: Sequence[Run], items: Mapping[str, Item], blocks: Mapping[str, RenderItem] | None = None
) -> str:
    """The text with every block rendered from records; `blocks` has further kinds, `KIND ITEM SCALE`, by kind."""

    def render(arguments: list[str], line: int) -> str:
        if len(arguments) == 2 and arguments[0] in OVERVIEWS and arguments[1] in SCALES:
            return OVERVIEWS[arguments[0]](collect_settings(items.values(), runs, arguments[1]))
        if arguments == [VERDICTS]:
            return render_verdicts(runs, items)
        if arguments[:1] in ([SHORT], [COSTS]) and len(arguments) > 2:
            *names, scale = arguments[1:]
            chosen = [_chosen([name, scale], line, items)[0] for name in names]
            if arguments[0] == COSTS:
                return render_costs(chosen, scale)
            return render_short(chosen, runs, scale, items)
        if arguments and blocks and arguments[0] in blocks:
            item, scale = _chosen(arguments[1:], line, items)
            return blocks[arguments[0]](item, runs, scale)
        item, scale = _chosen(arguments, line, items)
        return render_table(item, runs, scale)

    return render_blocks(text, render)


def read_comparable(folder: Path, items: Mapping[str, Item]) -> list[Run]:
    """The records of a folder as runs, with incomparable ones refused."""
    if not folder.is_dir():
        raise FolderError(f"there is no folder {folder}: create it with `opl results add DIR`.")
    return screen(read_records(folder), items.values())


def render_table(item: Item, runs: Sequence[Run], scale: str) -> str:
    """The table of an item, and the origin of its numbers."""
    used = [run for row in item.at(scale) for run in select_runs(runs, row.recipe, scale)]
    if not used:
        return describe_absence(item, scale)
    table = build_table(item, runs, scale)
    counts = describe_counts(item, _pairs(table), runs, scale)
    return "\n\n".join([document(table), *counts, describe_origin(used)])


def describe_absence(item: Item, scale: str) -> str:
    """The sentence in place of a table without records."""
    return f"No runs are recorded yet: `{item.command or f'opl reproduce {item.name} --scale {scale}'}`."


class Compared(NamedTuple):
    """One comparison of a short table."""

    table: Table
    line: Line
    base: Line
    metric: str

    @property
    def verdict(self) -> str:
        """What the difference shows."""
        return self.line.decisions[self.metric].verdict

    @property
    def family(self) -> str:
        """The family inside which its p-value is adjusted."""
        return family_of(self.table.item, self.line, self.metric)


def render_short(chosen: Sequence[Item], runs: Sequence[Run], scale: str, items: Mapping[str, Item]) -> str:
    """The comparisons of some items with their baselines: our numbers, the paper's, the difference and the verdict.

    Of many comparisons of an item, the table has the means of rows or columns, or else the decided ones and the
    headline; a sentence per item below the table counts all of them.
    """
    rows, sentences = [], []
    for item in chosen:
        pairs = _compare(item, runs, scale, items)
        if not pairs:
            sentences.append(f"{item.name}: {describe_absence(item, scale)}")
            continue
        revisions = [
            revision for revision in item.revisions if not revision.metrics or {*revision.metrics} & {*item.main}
        ]
        stale = {run.name for revision in revisions for run in stale_runs(revision, runs) if run.scale == scale}
        rows += [_short_row(pair, stale) for pair in _select(item, pairs)]
        sentences += describe_counts(item, pairs, runs, scale)
    heading = ("comparison", "seeds", "ours", "paper", "difference", "verdict")
    table = [markdown_table(heading, rows)] if rows else []
    return "\n\n".join([*table, "\n".join(map(list_entry, sentences))])


def describe_counts(item: Item, pairs: Sequence[Compared], runs: Sequence[Run], scale: str) -> list[str]:
    """The number of comparisons with each verdict, and of single seeds that agree; empty without a comparison."""
    if not pairs:
        return []
    verdicts = Counter(pair.verdict for pair in pairs)
    differences = [value for pair in pairs if not pair.family for value in pair.line.pairs[pair.metric]]
    compared = {pair.line.recipe for pair in pairs}
    changes_of_d = [
        value for line in lines_of_d(item, runs, scale) if line.recipe in compared for value in line.pairs[D]
    ]
    above = f"; {sum(value > 0 for value in differences)} of {len(differences)} per-seed differences above zero"
    lower = f"; d lower in {sum(value < 0 for value in changes_of_d)} of {len(changes_of_d)} pairs of runs"
    parts = (above if differences else "", lower if changes_of_d else "")
    return [f"{item.name}: {list_verdicts(verdicts)}{''.join(parts)}."]


def render_costs(chosen: Sequence[Item], scale: str) -> str:
    """How to run some items at a scale, and what it costs, in Markdown."""
    rows = []
    for item in chosen:
        cost = describe_costs({name: cost for name, cost in item.costs.items() if name == scale})
        time = cost.partition(": ")[2] or "not measured"
        runs = f"{len(item.at(scale))} x {item.seeds_at(scale)}"
        rows.append((f"`opl reproduce {item.name} --scale {scale}`", item.dataset.partition(";")[0], runs, time))
    return markdown_table(("command", "data", "rows and seeds", "time per run"), rows)


class Verdicts(NamedTuple):
    """One comparison of a table, decided in two ways."""

    item: str
    label: str
    difference: Interval
    single: str
    """The verdict with the variance of the row alone, and all comparisons of the table as one family."""
    moderated: str
    """The verdict of the tables: variances moderated over the rows, by families of comparisons."""


def collect_verdicts(runs: Sequence[Run], items: Mapping[str, Item]) -> list[Verdicts]:
    """Every comparison of all tables with at least one seed, decided in both ways; of repeated ones, the first."""
    collected: dict[tuple[str, ...], Verdicts] = {}
    for scale in SCALES:
        for item in (item.for_scale(scale) for item in items.values() if item.metrics):
            both = (lines(item, runs, scale, moderated) for moderated in (False, True))
            for single, line in zip(*both, strict=True):
                for name, decision in line.decisions.items():
                    if line.difference[name].size:
                        title = without_percent(item.metrics[name])
                        label = f"{line.label} vs {_shorten(line.baseline, line.label)}, {title}"
                        verdicts = single.decisions[name].verdict, decision.verdict
                        row = Verdicts(f"{item.name}, {scale}", label, line.difference[name], *verdicts)
                        collected.setdefault((scale, line.recipe, line.baseline, name, *verdicts), row)
    return list(collected.values())


def render_verdicts(runs: Sequence[Run], items: Mapping[str, Item]) -> str:
    """Every comparison with both verdicts; changed ones are bold."""
    verdicts = collect_verdicts(runs, items)
    changed = Counter((one.single, one.moderated) for one in verdicts if one.single != one.moderated)
    heading = ("table", "comparison", "difference", "variance of the row alone", "moderated variance")
    rows = [
        (
            one.item,
            one.label,
            describe_difference(one.difference),
            one.single,
            one.moderated if one.single == one.moderated else f"**{one.moderated}**",
        )
        for one in verdicts
    ]
    counts = ", ".join(f"{number} from {single} to {moderated}" for (single, moderated), number in changed.items())
    text = f"{changed.total()} of {len(verdicts)} verdicts differ: {counts or 'none'}."
    return f"{text}\n\n{markdown_table(heading, rows)}"


def _select(item: Item, pairs: Sequence[Compared]) -> Sequence[Compared]:
    """The comparisons that a short table shows."""
    if len(pairs) <= MOST:
        return pairs
    headline = item.headline or pairs[0].line.recipe
    means = [pair for pair in pairs if pair.family == "means"]
    return means or [pair for pair in pairs if pair.verdict in (GAIN, LOSS) or pair.line.recipe == headline]


def _compare(item: Item, runs: Sequence[Run], scale: str, items: Mapping[str, Item]) -> Sequence[Compared]:
    """The comparisons of an item that have runs.

    Numbers of selected weights are left out, and so are comparisons that an earlier item has.
    """
    earlier = list(takewhile(lambda other: other.name != item.name, items.values()))
    known = {(row.recipe, row.baseline, metric) for other in earlier for row in other.rows for metric in other.main}
    pairs = _pairs(build_table(item, runs, scale))
    return [pair for pair in pairs if (pair.line.recipe, pair.base.recipe, pair.metric) not in known]


def _pairs(table: Table) -> list[Compared]:
    """The comparisons of a table that have a value, except for selected weights."""
    by_recipe = {line.recipe: line for line in table.lines}
    rows = (*table.item.rows, *(mean.row for mean in table.item.averages_at(table.scale)))
    baselines = {row.recipe: row.baseline for row in rows}
    pairs = [
        Compared(table, line, by_recipe[baseline], name)
        for line in table.lines
        if (baseline := baselines.get(line.recipe))
        for name in table.item.main
        if name in line.decisions and line.difference[name].size
    ]
    return [pair for pair in pairs if pair.family != "selected"]


def _short_row(pair: Compared, stale: AbstractSet[str]) -> tuple[str, ...]:
    """The cells of a comparison; its seeds are marked if a run of either row is stale."""
    line, base, metric = pair.line, pair.base, pair.metric
    several = sum(not name.startswith("selected/") for name in pair.table.item.main) > 1
    title = without_percent(pair.table.item.metrics[metric])
    return (
        f"{line.label} vs {_shorten(base.label, line.label)}" + (f", {title}" if several else ""),
        str(len(line.paired)) + (", stale" if {line.recipe, base.recipe} & stale else ""),
        _pair(*paired_means(line, metric)),
        _pair(base.paper.get(metric), line.paper.get(metric)),
        describe_difference(line.difference[metric]),
        pair.verdict,
    )


def _shorten(baseline: str, row: str) -> str:
    """The label of a baseline without the first words that it shares with the row, if a name remains.

    Example:
        >>> _shorten("MNIST, uniform, TL", "MNIST, uniform, TL+OPL"), _shorten("network alone", "network alone+OPL")
        ('TL', 'network alone')
    """
    pairs = dropwhile(lambda pair: pair[0] == pair[1], zip_longest(baseline.split(), row.split()))
    rest = " ".join(word for word, _ in pairs if word)
    return rest if rest[:1].isupper() else baseline


def _pair(before: float | None, after: float | None) -> str:
    """Two numbers, the baseline's first.

    Example:
        >>> _pair(72.4, 73.52), _pair(None, 73.52), _pair(72.4, None)
        ('72.40 → 73.52', '73.52', '-')
    """
    if after is None:
        return "-"
    return f"{after:.2f}" if before is None else f"{before:.2f} → {after:.2f}"


def describe_origin(runs: Sequence[Run]) -> str:
    """The seeds, code, days, machines and total time of some runs."""
    days = sorted({str(run.about.get("started", "?"))[:10] for run in runs})
    return (
        f"From {count(len(runs), 'record')}, {list_seeds(run.seed for run in runs)}; "
        f"commit {_count(str(run.about.get('commit') or 'unknown') for run in runs)}; "
        f"{_count(map(_versions, runs))}; {_count(map(describe_machine, runs))}; "
        f"{days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}; "
        f"{describe_seconds(sum(run.seconds for run in runs))} of training in total."
    )


def describe_seconds(seconds: float) -> str:
    """A duration as text.

    Example:
        >>> describe_seconds(42.4), describe_seconds(4061)
        ('42 s', '1 h 7 min 41 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"


def _chosen(arguments: list[str], line: int, items: Mapping[str, Item]) -> tuple[Item, str]:
    """The item and scale that a marker names."""
    if len(arguments) != 2:
        raise OptionError(f"the marker in line {line} has {' '.join(arguments)!r}: write an item and a scale.")
    name, scale = arguments
    if name not in items:
        raise OptionError(f"line {line}: {did_you_mean('table or figure', name, items)}")
    if scale not in SCALES:
        raise OptionError(f"line {line}: {did_you_mean('scale of a block', scale, SCALES)}")
    return items[name], scale


def _count(texts: Iterable[str]) -> str:
    """One text if all are equal, otherwise every text with the number of its runs."""
    counts = Counter(texts)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{text} ({count(number, 'run')})" for text, number in counts.items())


def _versions(run: Run) -> str:
    versions = inner(run.about, "versions")
    return f"Python {versions.get('python', '?')}, torch {versions.get('torch', '?')}"


def describe_machine(run: Run) -> str:
    """The system, cores, threads and accelerator of a run."""
    machine = inner(run.about, "machine")
    system, cores, threads = (machine.get(name, "?") for name in ("system", "cores", "threads"))
    accelerator = str(machine.get("accelerator", "none")).replace("none", "no accelerator")
    return f"{system}, {count(cores, 'core')}, {count(threads, 'thread')} per run, {accelerator}"


def render_blocks(text: str, render: Render) -> str:
    """The text with every block rendered again, and everything else unchanged."""
    result: list[str] = []
    start = 0  # line number of the marker of the current block; 0 outside of blocks
    for number, line in enumerate(text.split("\n"), start=1):
        marker = BEGIN.fullmatch(line.strip())
        if marker and not start:
            result += [line, render(marker["arguments"].split(), number)]
            start = number
        elif line.strip() == END and start:
            result.append(line)
            start = 0
        elif LIKE_A_MARKER.search(line):
            inside = f"has a marker inside the block that starts in line {start}: put {END} before it."
            outside = f"is not a valid marker: write {EXAMPLE} on a separate line, and {END} after the block."
            raise OptionError(f"line {number} {inside if start else outside}")
        elif not start:
            result.append(line)
    if start:
        raise OptionError(f"the block that starts in line {start} has no {END} line: add one where the block ends.")
    return "\n".join(result)
