"""RESULTS.md: a text whose tables are made from records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ...errors import FolderError, OptionError, did_you_mean
from ..item import Item
from .archive import refuse_older_settings
from .blocks import render_blocks
from .conformity import screen
from .markdown import document
from .records import read_records
from .runs import Run, inner, list_seeds, select_runs
from .tables import build_table
from .transcriptions import FOLDER as TRANSCRIBED
from .transcriptions import read_transcription

SCALES = ("paper", "small")  # of tiny and custom runs there is no table


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
    return screen(refuse_older_settings(read_records(folder)), items.values())


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
