"""RESULTS.md: a text whose tables are rendered from records.

Each table stands between two marker lines, and everything else stays as it is:

<!-- opl results: table-1 small -->
(the table)
<!-- end -->
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import FolderError, OptionError, did_you_mean
from ..item import Item, Row
from ..statistics import Interval, Range
from .comparisons import Line, decide_lines, range_of
from .conformity import screen
from .records import read_records
from .runs import Run, inner, list_seeds, select_runs
from .tables import Table, build_table
from .text import document

SCALES = ("paper", "small")  # tiny and custom runs have no table
TRANSCRIBED = "transcribed"
BEGIN = re.compile(r"<!-- opl results: (?P<words>[^<>]*) -->")
END = "<!-- end -->"
LIKE_A_MARKER = re.compile(r"<!--\s*opl\s+results|<!--\s*end\s*-->")

Render = Callable[[list[str], int], str]
"""The text of a block, from the words of its marker and the number of the marker's line."""


def render_document(text: str, folder: Path, items: Mapping[str, Item]) -> str:
    """The text with the table of every block made anew from the records of a folder; needs no torch."""
    runs = read_comparable(folder, items)

    def render(words: list[str], place: int) -> str:
        copied, (item, scale) = words[:1] == [TRANSCRIBED], _chosen(words, place, items)
        if copied:
            return document(read_transcription(folder, item, scale))
        return render_table(item, runs, scale, folder)

    return render_blocks(text, render)


def read_comparable(folder: Path, items: Mapping[str, Item]) -> list[Run]:
    """The records of a folder as runs; those that may not be compared say so."""
    if not folder.is_dir():
        raise FolderError(f"there is no folder {folder}: `opl results add DIR` makes it.")
    return screen(read_records(folder), items.values())


def render_table(item: Item, runs: Sequence[Run], scale: str, folder: Path) -> str:
    """The table of an item with where its numbers come from."""
    used = [run for row in item.at(scale) for run in select_runs(runs, row.recipe, scale)]
    if not used:
        raise FolderError(
            f"{folder} has no records of {item.name} at scale {scale}: add some with `opl results add DIR`, or take "
            "its block out."
        )
    return "\n\n".join([document(build_table(item, runs, scale)), describe_origin(used)])


def describe_origin(runs: Sequence[Run]) -> str:
    """Which runs, of which seeds, code, days and machines, and how long they took together."""
    days = sorted({str(run.about.get("started", "?"))[:10] for run in runs})
    return (
        f"From {len(runs)} records, {list_seeds(run.seed for run in runs)}; commit {_each(map(_commit, runs))}; "
        f"{_each(map(_versions, runs))}; {_each(map(_machine, runs))}; "
        f"{days[0] if len(days) == 1 else f'{days[0]} to {days[-1]}'}; "
        f"{describe_seconds(sum(run.seconds for run in runs))} of training in all."
    )


def describe_seconds(seconds: float) -> str:
    """A time in words.

    Example:
        >>> describe_seconds(42.4), describe_seconds(4061)
        ('42 s', '1 h 7 min 41 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{value} {unit}" for value, unit in parts if value) or "0 s"


def _chosen(words: list[str], place: int, items: Mapping[str, Item]) -> tuple[Item, str]:
    """The item and scale that a marker names."""
    names = words[1:] if words[:1] == [TRANSCRIBED] else words
    if len(names) != 2:
        raise OptionError(f"the marker in line {place} says {' '.join(words)!r}: give an item and a scale.")
    name, scale = names
    if name not in items:
        raise OptionError(f"line {place}: {did_you_mean('table or figure', name, items)}")
    if scale not in SCALES:
        raise OptionError(f"line {place}: {did_you_mean('scale of a block', scale, SCALES)}")
    return items[name], scale


def _each(texts: Iterable[str]) -> str:
    """One text if all are equal, otherwise every text with the number of its runs."""
    counts = Counter(texts)
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{text} ({n} runs)" for text, n in counts.items())


def _commit(run: Run) -> str:
    return str(run.about.get("commit") or "unknown")


def _versions(run: Run) -> str:
    versions = inner(run.about, "versions")
    return f"Python {versions.get('python', '?')}, torch {versions.get('torch', '?')}"


def _machine(run: Run) -> str:
    machine = inner(run.about, "machine")
    system, cores, threads = (machine.get(name, "?") for name in ("system", "cores", "threads"))
    accelerator = str(machine.get("accelerator", "none")).replace("none", "no accelerator")
    return f"{system}, {cores} cores, {threads} threads a run, {accelerator}"


def render_blocks(text: str, render: Render) -> str:
    """The text with every block made anew, and everything else as it was."""
    found: list[str] = []
    begun = 0  # the line of the marker whose block is being left out
    for place, line in enumerate(text.split("\n"), start=1):
        marker = BEGIN.fullmatch(line.strip())
        if marker and not begun:
            found += [line, "", render(marker["words"].split(), place), ""]
            begun = place
        elif line.strip() == END and begun:
            found.append(line)
            begun = 0
        elif LIKE_A_MARKER.search(line):
            raise OptionError(_problem(place, begun))
        elif not begun:
            found.append(line)
    if begun:
        raise OptionError(f"line {begun} begins a block that has no {END} line: add one where the block ends.")
    return "\n".join(found)


def _problem(place: int, begun: int) -> str:
    if begun:
        return f"line {place} has a marker inside the block that line {begun} begins: put {END} before it."
    return (
        f"line {place} is no marker: write `<!-- opl results: ITEM SCALE -->` on a line of its own, and {END} after it."
    )


def read_transcription(folder: Path, item: Item, scale: str) -> Table:
    """Read the transcribed table of an item from `<folder>/transcribed/<item>-<scale>.json`.

    What the differences show is decided anew, in the same way as for runs; the paper's numbers are the item's.
    """
    file = folder / TRANSCRIBED / f"{item.name}-{scale}.json"
    try:
        content = json.loads(file.read_bytes())
        return _table(content, item, scale)
    except OSError as error:
        raise FolderError(f"there is no {file}: take the block out, or restore the file.") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FolderError(
            f"{file} is not a transcribed table of {item.name}: restore it from the repository."
        ) from error


def _table(content: dict[str, Any], item: Item, scale: str) -> Table:
    rows = {row.recipe: row for row in (*item.rows, *(average.row for average in item.averages_at(scale)))}
    ranges = {name: range_of(name, title) for name, title in item.metrics.items()}
    found = [_line(each, rows[each["recipe"]], ranges) for each in content["rows"]]
    told = {name: title for name, title in item.metrics.items() if any(name in line.numbers for line in found)}
    compared = tuple(name for name in item.main if name in told)
    narrow = replace(item, metrics=told, compared=compared, note="")  # the note is about today's runs
    return Table(narrow, scale, decide_lines(narrow, found), [_describe(content)], [])


def _describe(content: dict[str, Any]) -> str:
    """Where transcribed numbers come from."""
    return (
        f"Transcribed, the run folders are gone: `{content['command']}`, commit {content['commit']}, "
        f"{list_seeds(content['seeds'])}, {content['time']}."
    )


def _line(content: dict[str, Any], row: Row, ranges: dict[str, Range]) -> Line:
    values = {name: tuple(each.values()) for name, each in content["values"].items()}
    numbers = {name: _interval(each, ranges[name]) for name, each in content["numbers"].items()}
    difference = {name: _interval(each, ranges[name].of_differences) for name, each in content["difference"].items()}
    seeds = tuple(content["seeds"])
    return Line(content["label"], row.recipe, seeds, numbers, values, row.paper, difference, "", transcribed=True)


def _interval(content: dict[str, Any], within: Range) -> Interval:
    """An interval from JSON, in which an unknown half-width is null."""
    return Interval(content["mean"], math.nan if content["half"] is None else content["half"], content["size"], within)
