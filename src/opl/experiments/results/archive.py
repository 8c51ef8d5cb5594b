"""Adding finished runs to a folder of records: what is added, what is there already, and what is refused and why."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ...errors import FolderError
from ..differences import FREE, describe_changes
from ..item import Item
from .conformity import Recipes, screen
from .records import SHA, WEIGHTS, Record, make_record, read_record, record_file, record_sum, with_sum, write_record
from .runs import REFUSED, Run

Word = Literal["added", "already there", "measures added", "replaced", "not added"]
KEPT: tuple[Word, ...] = ("added", "already there", "measures added", "replaced")
TINY = "a tiny run is a smoke test on synthetic data: its numbers mean nothing."
OTHER = "{} has another result for this recipe, scale and seed: give --replace to put this one in its place."


class Outcome(NamedTuple):
    """What became of one run."""

    where: str
    word: Word
    sentence: str = ""
    """Why it was not added."""


def add_runs(
    runs: Iterable[Run], folder: Path, items: Sequence[Item], recipes: Recipes, *, substitute: bool = False
) -> list[Outcome]:
    """Write a record of every run that may be compared, and of those with settings of their own, which no table uses.

    Args:
        runs: all runs below a folder.
        folder: where records are kept.
        items: the tables and figures that name rows and their baselines.
        recipes: what runs must be like.
        substitute: put other results of the same recipe, scale and seed in place of the records that are there.
    """
    runs = list(runs)
    usual = screen([run for run in runs if run.scale != "custom"], items, recipes)
    custom = [_screen_custom(run) for run in runs if run.scale == "custom"]
    return [_add(run, folder, recipes, substitute) for run in sorted([*usual, *custom], key=lambda run: run.where)]


def refuse_older_settings(runs: Sequence[Run]) -> list[Run]:
    """The same runs, refusing those whose settings are not those of the latest run of their recipe and scale.

    A setting that only one of the two has is not compared: it came or went with a version of the code.
    """
    latest: dict[tuple[str, str], Run] = {}
    for run in sorted(runs, key=lambda run: str(run.about.get("started", ""))):
        latest[run.name, run.scale] = run
    found = []
    for run in runs:
        newest = latest[run.name, run.scale]
        changed = describe_changes(_shared(run.recipe, newest.recipe), _shared(newest.recipe, run.recipe), FREE)
        sentence = f"other settings than {newest.where}: {', '.join(changed)}".replace("recipe:", "there:")
        found.append(replace(run, state=REFUSED, sentence=sentence) if changed and run.scale != "custom" else run)
    return found


def _screen_custom(run: Run) -> Run:
    """A run with settings of its own, refused if its files are not what it wrote."""
    screened = screen([replace(run, recipe={**run.recipe, "changes": []})], ())[0]
    return replace(screened, recipe=run.recipe)


def _add(run: Run, folder: Path, recipes: Recipes, substitute: bool) -> Outcome:
    fault = _fault(run, recipes)
    if fault:
        return Outcome(run.where, "not added", fault)
    record = make_record(run)
    file = record_file(folder, record)
    try:
        word, content = _place(file, record, substitute)
    except FolderError as error:
        return Outcome(run.where, "not added", str(error))
    if content:
        write_record(file, content)
    return Outcome(run.where, word, OTHER.format(file) if word == "not added" else "")


def _fault(run: Run, recipes: Recipes) -> str:
    """Why there can be no record of a run; empty if there can."""
    if run.state != "done":
        return f"{run.state}: {run.sentence}"
    if run.scale == "tiny":
        return TINY
    if run.scale != "custom" and recipes.settings(run.name, run.scale) is None:
        return f"there is no recipe {run.name} at scale {run.scale}: its numbers belong to no table."
    return ""


def _place(file: Path, record: Record, substitute: bool) -> tuple[Word, Record]:
    """What becomes of a record, and what to write for it; empty if nothing."""
    if not file.exists():
        return "added", record
    there = read_record(file)
    if there.get(SHA) != record_sum(there) or not _same_run(there, record):
        return ("replaced", record) if substitute else ("not added", {})
    merged = with_sum({**there, "measures": {**there["measures"], **record["measures"]}})
    return ("already there", {}) if merged == there else ("measures added", merged)


def _same_run(one: Record, other: Record) -> bool:
    """Whether two records have the same weights and numbers, whenever and wherever they were trained."""
    return bool(one[WEIGHTS] == other[WEIGHTS] and _numbers(one) == _numbers(other))


def _numbers(record: Record) -> dict[str, Any]:
    return {name: value for name, value in record["result"].items() if name != "seconds"}


def _shared(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The part of some settings that the others have too."""
    return {
        name: _shared(value, other[name]) if isinstance(value, dict) and isinstance(other[name], dict) else value
        for name, value in one.items()
        if name in other
    }
