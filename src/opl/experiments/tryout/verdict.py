"""The end of `opl try`: table and page of a folder, and a box with the verdict and the next step. Needs no torch."""

import json
import math
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ..._advice import LOWER_D
from ...errors import OplError
from ..files import read_json, write_whole
from ..item import Item, Row
from ..results.comparisons import Line, describe_tests, lines
from ..results.measures import Change, changes, describe_change, describe_largest, describe_pairs
from ..results.runs import Run, select_runs
from ..results.text import wrap_words
from ..scales import TRY
from ..settings import from_json, to_json
from ..statistics import FEW_SEEDS, GAIN, LOSS, TOO_FEW, UNDECIDED
from ..terminal import escape, make_console

if TYPE_CHECKING:
    from ..results.tables import Table

ITEM = "item.json"
TOP1, BALANCED = "test/top1", "test/balanced"
BOX_WIDTH = 100  # columns


def build_item(
    name: str, arms: Sequence[tuple[str, str]], current: str, imbalanced: bool, note: str, command: str
) -> Item:
    """Return the table of a folder; `command` makes it, and `note` describes it.

    `arms` are the labels and recipes: the baseline first, then the first try; `current` is the recipe that the verdict
    is about. If classes are imbalanced, the balanced accuracy is compared too.
    """
    balanced = {BALANCED: "balanced top-1 %"} if imbalanced else {}
    first = arms[0][1]
    return Item(
        name=name,
        title="CE vs CE+OPL on your images",
        dataset="your images",
        metrics={TOP1: "top-1 %", **balanced, "test/loss": "cross-entropy", "test/s": "s", "test/d": "d"},
        rows=tuple(
            Row(label, recipe, {}, baseline="" if recipe == first else first, scales=(TRY,)) for label, recipe in arms
        ),
        compared=(TOP1, *balanced),
        note=note,
        command=command,
        headline=current,
    )


def read_items(folder: Path) -> dict[str, Item]:
    """Return the tables of `opl try` in a folder and below it, by name; other files are skipped."""
    items: dict[str, Item] = {}
    for file in (*folder.glob(ITEM), *folder.glob(f"*/{ITEM}"), *folder.glob(f"*/*/{ITEM}")):
        try:
            item = from_json(read_json(file), Item)
            if isinstance(item, Item):
                items[item.name] = replace(item, metrics=dict(item.metrics))
        except (OplError, OSError, ValueError, TypeError):
            continue
    return items


class Step(NamedTuple):
    """What to do next: a sentence, and the flags of the next `opl try` or a line of code."""

    sentence: str
    flags: Mapping[str, float] | None = None
    code: str = ""


class Verdict(NamedTuple):
    """The conclusions of a try."""

    title: str
    """Better, worse or unknown."""
    accuracy: str
    """With its certainty; this and the next three are sentences."""
    geometry: str
    others: str
    """The measures that moved most; empty if there are none."""
    first: str
    """The comparison with the first try; empty for the first try."""
    step: Step
    table: "Table"
    measures: list[tuple[str, str, str]]
    """Title, values before and after, and difference of every measure, in text."""
    runs: Sequence[Run]


def judge(folder: Path, item: Item, items: Iterable[Item], unfinished: str = "") -> Verdict:
    """Compare the current try of a folder, whose table is `item`, with the baseline and with the first try.

    `items` are all other tables that a run may belong to; `unfinished` is a sentence about seeds without time, if any.
    """
    from ..results.conformity import screen
    from ..results.runs import read_runs
    from ..results.tables import build_table

    runs = screen(read_runs(folder), [*items, item])
    table = build_table(item, runs, TRY)
    base, first, current = item.rows[0], item.rows[1], _headline(item)
    before, after = (select_runs(runs, row.recipe, TRY) for row in (base, current))
    measures = changes(before, after)
    line = next(line for line in lines(item, runs, TRY) if line.recipe == current.recipe)
    verdict, settings = line.decisions[TOP1].verdict, after[0].opl or {}
    tried = {_settings_of(select_runs(runs, row.recipe, TRY)) for row in item.rows[1:]}
    d_rose = _direction(*_means(line, "test/d")) > 0
    return Verdict(
        describe_verdict(verdict),
        describe_accuracy(line, base),
        _describe_geometry(line, after),
        describe_largest(measures),
        _describe_first(table.lines, first, current) if current != first else "",
        next_step(verdict, d_rose, len(line.paired), settings, tried, unfinished),
        table,
        [(f"{change.info.title} {change.info.arrow}".strip(), change.values, _describe(change)) for change in measures],
        runs,
    )


def describe_verdict(verdict: str) -> str:
    """Describe a verdict in a few words.

    Example:
        >>> describe_verdict("a gain"), describe_verdict("undecided"), describe_verdict("equivalent within ±0.5")
        ('OPL is better', 'Unknown: no clear effect on accuracy yet', 'No difference: equivalent within ±0.5 points')
    """
    texts = {GAIN: "OPL is better", LOSS: "OPL is worse", TOO_FEW: "Unknown: one seed cannot tell",
             UNDECIDED: "Unknown: no clear effect on accuracy yet"}  # fmt: skip
    return texts.get(verdict, f"No difference: {verdict} points")


def next_step(
    verdict: str,
    d_rose: bool,
    seeds: int,
    settings: Mapping[str, float],
    tried: Collection[tuple[float, float]],
    unfinished: str = "",
) -> Step:
    """Return what to do next, given the verdict on the accuracy, whether d rose, and the number of finished seeds.

    `settings` has weight and gamma of this try; `tried` are all pairs of them; `unfinished` is as in `judge`.
    """
    weight, gamma = settings.get("weight", math.nan), settings.get("gamma", math.nan)
    if unfinished:
        return Step(f"{unfinished}; continue", {})
    if verdict == GAIN:
        code = f"criterion = opl.regularize(torch.nn.CrossEntropyLoss(), model, weight={weight:g}, gamma={gamma:g})"
        return Step("add OPL to your training", code=code)
    if (verdict == LOSS or d_rose) and (LOWER_D.weight, LOWER_D.gamma) not in tried:
        reason = "d rose" if d_rose else "OPL lowered the accuracy"
        flags = {"weight": LOWER_D.weight, "gamma": LOWER_D.gamma}
        return Step(f"{reason}: compare with {LOWER_D.take}, which lowers d at little cost in accuracy", flags)
    if verdict in (UNDECIDED, TOO_FEW) or (verdict != LOSS and seeds < FEW_SEEDS):
        return Step("train more seeds for a clearer verdict", {"seeds": max(FEW_SEEDS, 2 * seeds)})
    return Step("keep cross-entropy for these images")


def _headline(item: Item) -> Row:
    """Return the row that the verdict is about."""
    return next(row for row in item.rows if row.recipe == item.headline)


def _describe(change: Change) -> str:
    """Describe the difference of a measure; with few seeds, the difference of every seed."""
    if len(change.pairs) < FEW_SEEDS:
        return describe_pairs(change)
    return describe_change(change.info, change.difference, change.decision)


def _settings_of(runs: Sequence[Run]) -> tuple[float, float]:
    settings = (runs[0].opl or {}) if runs else {}
    return settings.get("weight", math.nan), settings.get("gamma", math.nan)


def _means(line: Line, name: str) -> tuple[float, float]:
    """Return the means of the baseline and of the row over the seeds that both have."""
    after = fmean(value for seed, value in zip(line.seeds, line.values[name], strict=True) if seed in line.paired)
    return after - line.difference[name].mean, after


def describe_accuracy(line: Line, base: Row) -> str:
    """Describe the accuracy with and without OPL, and the certainty of the difference."""
    before, after = _means(line, TOP1)
    pairs, difference, decision = line.pairs[TOP1], line.difference[TOP1], line.decisions[TOP1]
    text = f"Accuracy {after:.1f} % with {line.label}, {before:.1f} % with {base.label}"
    if len(pairs) < FEW_SEEDS:
        values = [value for seed, value in zip(line.seeds, line.values[TOP1], strict=True) if seed in line.paired]
        by_seed = ", ".join(f"{value - pair:.1f} → {value:.1f}" for value, pair in zip(values, pairs, strict=True))
        unsure = "two seeds: too few to be sure" if decision.verdict == UNDECIDED else "two seeds"
        text += f" ({by_seed} %, {'one seed' if len(pairs) == 1 else unsure})"
    else:
        tests = describe_tests(decision)
        interval = f"{difference.mean:+.1f} points [{difference.low:+.1f}, {difference.high:+.1f}]"
        text += f": {interval}, 95 % interval over {len(pairs)} seeds{f', {tests}' if tests else ''}"
    if BALANCED in line.difference:
        low, high = _means(line, BALANCED)
        text += f"; balanced accuracy {low:.1f} → {high:.1f} %"
    return f"{text}."


def _describe_geometry(line: Line, runs: Sequence[Run]) -> str:
    """Describe the directions of d and s, and why d rose if it did."""
    d, s = (describe_direction(name, *_means(line, f"test/{name}"), aim) for name, aim in (("d", -1), ("s", 1)))
    gamma = _settings_of(runs)[1]
    needed = [value for run in runs for value in run.column("train/gamma_needed").tolist() if math.isfinite(value)]
    cause = ""
    if _direction(*_means(line, "test/d")) > 0 and needed and gamma < fmean(needed):
        cause = f": gamma {gamma:g} was below the {fmean(needed):.2f} that these features need"
    return f"{d}{cause}; {s}."


def describe_direction(name: str, before: float, after: float, aim: int) -> str:
    """Describe how a number changed, and whether as intended.

    Example:
        >>> describe_direction("d", 0.61, 0.69, -1), describe_direction("s", 0.611, 0.614, 1)
        ('d rose from 0.61 to 0.69, the opposite of the aim', 's stayed at 0.61')
    """
    direction = _direction(before, after)
    if not direction:
        return f"{name} stayed at {after:.2f}"
    verb = "rose" if direction > 0 else "fell"
    judgment = "as intended" if direction == aim else "the opposite of the aim"
    return f"{name} {verb} from {before:.2f} to {after:.2f}, {judgment}"


def _direction(before: float, after: float) -> int:
    """Return 1 if a number rose, -1 if it fell, and 0 if its two decimals are the same."""
    first, last = round(before, 2), round(after, 2)
    return (last > first) - (last < first)


def _describe_first(table: Sequence[Line], first: Row, current: Row) -> str:
    """Compare the current try with the first one, over the seeds that both have."""
    by_recipe = {line.recipe: dict(zip(line.seeds, range(len(line.seeds)), strict=True)) for line in table}
    one, two = (next(line for line in table if line.recipe == row.recipe) for row in (first, current))
    seeds = [seed for seed in one.seeds if seed in two.seeds]
    if not seeds:
        return ""
    parts = []
    for name, title, digits in ((TOP1, "accuracy", 1), ("test/d", "d", 2), ("test/s", "s", 2)):
        means = [fmean(line.values[name][by_recipe[line.recipe][seed]] for seed in seeds) for line in (one, two)]
        parts.append(f"{title} {means[0]:.{digits}f} → {means[1]:.{digits}f}")
    return f"Compared with the first {first.label} on the same seeds: {', '.join(parts)}."


# Output


def write_results(folder: Path, item: Item, verdict: Verdict, command: str, items: Mapping[str, Item]) -> Path:
    """Write the table and the page of a folder, with the next step; return the path of the page."""
    from ..report.page import write_report
    from ..results.tables import as_json
    from ..results.text import document

    step = f"Next: {verdict.step.sentence}{f': {command}' if command else '.'}"
    item = replace(item, advice=(verdict.geometry, *([verdict.first] if verdict.first else []), step))
    write_whole(folder / ITEM, f"{json.dumps(to_json(item), indent=1)}\n")  # `opl report` reads it
    write_whole(folder / "table.md", f"{document(verdict.table)}\n")
    write_whole(folder / "table.json", f"{json.dumps(as_json(verdict.table), indent=1)}\n".encode())
    return write_report(folder, {**items, item.name: item}, runs=verdict.runs)


def show_tables(item: Item, verdict: Verdict) -> None:
    """Print the numbers of all arms, and the other measures of the current try."""
    from ..results.text import show_rows

    heading = [item.what, "seeds", *item.metrics.values()]
    table = verdict.table.lines
    body = [[line.label, str(len(line.seeds)), *(_cell(line, name) for name in item.metrics)] for line in table]
    show_rows(item.title, heading, body)
    title = f"What else changed: {_headline(item).label} vs {item.rows[0].label} (arrow: better)"
    few = any(0 < len(line.seeds) < FEW_SEEDS for line in table)
    difference = "difference of each seed" if few else "difference"
    show_rows(title, ("measure", "before → after", difference), verdict.measures)


def _cell(line: Line, name: str) -> str:
    """Format a mean; for accuracies also the interval, or with few seeds the values of all seeds."""
    if name not in line.numbers:
        return "-"
    mean, digits = line.numbers[name], 1 if name in (TOP1, BALANCED) else 3
    text = f"{mean.mean:.{digits}f}"
    if digits > 1 or len(line.seeds) == 1:
        return text
    if len(line.seeds) < FEW_SEEDS:
        return f"{text} ({', '.join(f'{value:.1f}' for value in line.values[name])})"
    return f"{text} ± {mean.half:.1f}"


def show_box(verdict: Verdict, command: str, page: Path, *, stderr: bool = False) -> None:
    """Print the verdict, its certainty, and the next step between two rules.

    Lines wrap between words; a longer word, such as a path, has its own line. No line ends with spaces, because after a
    backslash they would end a command that is copied.
    """
    console = make_console(stderr=stderr)
    width = min(console.width, BOX_WIDTH)
    title = f"── {verdict.title} "
    parts = [part for part in (verdict.accuracy, verdict.geometry, verdict.others, verdict.first) if part]
    parts.append(f"Next: {verdict.step.sentence}{':' if command else '.'}")
    wrapped = [line for part in parts for line in wrap_words(part, width - 4)]
    body = [*wrapped, *wrap_command(command, width - 4), *wrap_words(f"Page: {page}", width - 4)]
    lines = [title.ljust(width, "─"), *(f"  {line}" for line in body), "─" * width]
    print("\n".join(map(escape, lines)), file=sys.stderr if stderr else sys.stdout)


def wrap_command(command: str, width: int) -> list[str]:
    """Return the lines of a command, continued by backslashes between its arguments.

    Example:
        >>> wrap_command("opl try 'my photos' --seeds 4", 22)
        ["  opl try 'my photos' \\\\", '    --seeds 4']
    """
    if " = " in command or not command:  # a line of code
        return [f"  {command}"] if command else []
    pieces = [shlex.quote(argument) for argument in shlex.split(command)]
    for index in range(len(pieces) - 2, 0, -1):  # a flag stays with its value
        if pieces[index].startswith("--") and not pieces[index + 1].startswith("--"):
            pieces[index : index + 2] = [f"{pieces[index]} {pieces[index + 1]}"]
    lines = [" "]
    for piece in pieces:
        if len(lines[-1]) + len(piece) + 3 > width and lines[-1].strip():
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {piece}"
    return lines
