"""A finished run as one small JSON file, and such files as runs again, for tables without the run folders.

`results/<scale>/<recipe>/seed-<n>.json` has all of `recipe.json` (settings, versions, commit, machine, start), the
numbers of `result.json`, every measure with its settings, the sizes of the parts with a checksum of which images were
in them, the SHA-256 of the weights, and a checksum of the record itself.
"""

import hashlib
import json
import math
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout

from ..._ranges import FolderName
from ...errors import FolderError
from ..files import read_json, write_whole
from ..item import Item
from ..run_folder import RunFolder, check_about, check_measure, check_result
from .conformity import screen
from .portable import portable
from .runs import BROKEN, DAMAGED, Run, inner

SUFFIX, LOCK = ".json", ".records.lock"
NAME = FolderName()
COMMIT = re.compile("[0-9a-f]{4,64}")
MOST = 1 << 22  # bytes of a record
PATIENCE = 600.0  # seconds to wait for another process that adds records
SHA, WEIGHTS = "sha256", "weights"
Record = dict[str, Any]
"""The content of a record."""
Status = Literal["added", "already there", "measures added", "replaced", "not added"]
KEPT: tuple[Status, ...] = ("added", "already there", "measures added", "replaced")
UNCOMMITTED = " (uncommitted code)"
TINY = "a tiny run is a smoke test on synthetic data: its numbers mean nothing."
OTHER = "{} has another result for this recipe, scale and seed: use --replace to replace it."


class RecordFolder(RunFolder):
    """A record in place of the folder of its run: it has numbers, measures, sizes and checksums, and no arrays."""

    def __init__(self, path: Path, record: Record) -> None:
        super().__init__(path)
        self.record = record

    def measures(self) -> dict[str, dict[str, Any]]:
        """Return every measure by its name."""
        return inner(self.record, "measures")

    def has_measure(self, name: str) -> bool:
        """Whether a measure was recorded."""
        return name in self.measures()

    def measure(self, name: str) -> dict[str, Any]:
        """Return the numbers and settings of a measure."""
        return inner(self.measures(), name)

    def splits(self) -> dict[str, Any]:
        """The sizes of the parts, the number of classes, and a checksum of which images were in which part."""
        return inner(self.record, "splits")

    def noise(self) -> dict[str, Any]:
        """The rates of wrong labels and a checksum of them; empty for a run without label noise."""
        return inner(self.record, "noise")

    def class_names(self) -> tuple[str, ...]:
        """Empty: a record has only the number of classes."""
        return ()

    def weights_sum(self) -> str:
        """The SHA-256 of the weights."""
        return str(self.record.get(WEIGHTS, ""))


def make_record(run: Run) -> Record:
    """Make the record of a finished run."""
    measures, noise = run.folder.measures(), run.noise()
    measured = {name for content in measures.values() for name in inner(content, "numbers")}
    record = {
        **run.about,
        "result": {name: value for name, value in run.result.items() if name not in measured},
        "measures": measures,
        "splits": _sizes(run.splits()),
        "noise": {"rates": inner(noise, "rates"), SHA: _sum(noise)} if noise else {},
        WEIGHTS: run.weights_sum(),
    }
    return with_sum(without_roots(portable(record)))


def with_sum(record: Record) -> Record:
    """The record with the checksum of its content."""
    return {**record, SHA: record_sum(record)}


def record_sum(record: Record) -> str:
    """The SHA-256 of everything in a record but this checksum."""
    return _sum({name: value for name, value in record.items() if name != SHA})


def record_file(folder: Path, record: Record) -> Path:
    """The file of a record, below the folder; the name of a custom run's file has a checksum of its changes."""
    recipe = inner(record, "recipe")
    changes = f"-{_sum(recipe['changes'])[:8]}" if recipe.get("changes") else ""
    names = str(recipe["scale"]), str(recipe["name"]), f"seed-{recipe['seed']}{changes}{SUFFIX}"
    file = folder.joinpath(*names)
    if not all(map(NAME.allows, names)) or not file.resolve().is_relative_to(folder.resolve()):
        raise FolderError(
            f"the file {str(file)!r:.200} of its record is not below {folder}: choose another folder with --to."
        )
    return file


def write_record(file: Path, record: Record) -> None:
    """Write a record, with sorted names, so that equal records are equal files."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, f"{json.dumps(record, indent=1, sort_keys=True, allow_nan=False)}\n".encode())
    except OSError as error:
        raise FolderError(f"cannot write {file} ({error.strerror}): choose another folder with --to.") from error


def read_record(file: Path) -> Record:
    """Read a record; raise an error if it is damaged."""
    try:
        record: Record = read_json(file, MOST)
        check_about(record)
        check_result(record["result"])
        for measure in record["measures"].values():
            check_measure(measure)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise FolderError(
            f"{file} is not a record of a run: restore it, or delete it and add the run again."
        ) from error
    return record


def run_of(record: Record, file: Path, where: str) -> Run:
    """A record as a finished run; `where` is its name in messages."""
    folder = RecordFolder(file.with_suffix(""), record)
    measured = [inner(content, "numbers").items() for content in folder.measures().values()]
    numbers = record["result"] | {name: value for pairs in measured for name, value in pairs}
    if record.get(SHA) != record_sum(record):
        fault = f"{file.name} changed after it was recorded"
        return Run(folder, where, DAMAGED, fault, record, record["recipe"], [], {})
    return Run(folder, where, "done", "", record, record["recipe"], [], numbers)


def read_records(folder: Path) -> list[Run]:
    """Every record below a folder as a run, sorted by path."""
    files = sorted(folder.rglob(f"seed-*{SUFFIX}"))
    return [run_of(read_record(file), file, file.relative_to(folder).as_posix()) for file in files]


def _sizes(splits: dict[str, Any]) -> dict[str, Any]:
    """The lengths of the lists of images and classes with a checksum of the lists, and the name of the folder."""
    parts = {**splits, "source": PurePath(str(splits.get("source", ""))).name}
    sizes = {name: len(value) if isinstance(value, list) else value for name, value in parts.items()}
    return {**sizes, SHA: _sum(parts)} if splits else {}


def _sum(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def without_roots(value: Any) -> Any:
    """The same without the folders of data sets and without numbers that JSON does not have (NaN and infinities)."""
    if isinstance(value, list):
        return [None if _is_infinite(part) else without_roots(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {name: part for name, part in value.items() if not _is_infinite(part)}
    return {name: "" if name == "root" else without_roots(part) for name, part in kept.items()}


def _is_infinite(value: object) -> bool:
    """Whether a value is NaN or an infinity."""
    return isinstance(value, float) and not math.isfinite(value)


class Outcome(NamedTuple):
    """What happened to one run."""

    where: str
    status: Status
    sentence: str = ""
    """Why it was not added."""


def add_runs(runs: Iterable[Run], folder: Path, items: Iterable[Item], *, substitute: bool = False) -> list[Outcome]:
    """Write a record of every comparable run, and of custom runs, which no table uses.

    Args:
        runs: all runs below a folder.
        folder: where records are kept.
        items: the tables and figures that name rows and their baselines.
        substitute: replace existing records of the same recipe, scale and seed that have other results.
    """
    runs, items = list(runs), tuple(items)
    usual = screen([run for run in runs if run.scale != "custom"], items)
    custom = [_screen_custom(run) for run in runs if run.scale == "custom"]
    return [_add(run, folder, items, substitute) for run in sorted([*usual, *custom], key=lambda run: run.where)]


@contextmanager
def _adding(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of records: another process could otherwise overwrite measures that are added here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=PATIENCE)
    except Timeout as error:
        raise FolderError(f"{folder} is in use by another `opl results add`: wait until it ends.") from error
    except OSError as error:
        raise FolderError(f"cannot write to {folder} ({error.strerror}): choose another folder with --to.") from error
    try:
        yield
    finally:
        lock.release()


def mark_uncommitted(runs: Iterable[Run], repository: Path) -> list[Run]:
    """The same runs, marked where their code is not in the history of a repository.

    A commit that was rewritten after training, or a changed working tree (`+`), cannot be looked up later. Without git,
    outside of a repository and in a shallow clone, nothing is known about commits and nothing is marked.
    """
    runs = list(runs)
    if _git(repository, "rev-parse", "--is-shallow-repository") != (0, "false"):
        return runs
    commits = {commit for run in runs if COMMIT.fullmatch(commit := str(run.about.get("commit")))}
    history = {commit for commit in commits if _git(repository, "merge-base", "--is-ancestor", commit, "HEAD")[0] == 0}
    return [run if str(run.about.get("commit")) in history else _uncommitted(run) for run in runs]


def _uncommitted(run: Run) -> Run:
    commit = str(run.about.get("commit") or "").removesuffix(UNCOMMITTED)
    return replace(run, about={**run.about, "commit": f"{commit}{UNCOMMITTED}".lstrip()})


def _git(repository: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a git command; 127 if there is no git."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return 127, ""
    return done.returncode, done.stdout.strip()


def _screen_custom(run: Run) -> Run:
    """A custom run, screened as if it had the settings of its recipe."""
    screened = screen([replace(run, recipe={**run.recipe, "changes": []})], ())[0]
    return replace(screened, recipe=run.recipe)


def _add(run: Run, folder: Path, items: Sequence[Item], substitute: bool) -> Outcome:
    fault = _fault(run, items)
    if fault:
        return Outcome(run.where, "not added", fault)
    try:
        record = make_record(run)
        file = record_file(folder, record)
    except BROKEN as error:
        return Outcome(run.where, "not added", str(error))
    with _adding(folder):
        try:
            status, content = _merge(file, record, substitute)
        except FolderError as error:
            return Outcome(run.where, "not added", str(error))
        if content:
            write_record(file, content)
    return Outcome(run.where, status, OTHER.format(file) if status == "not added" else "")


def _fault(run: Run, items: Sequence[Item]) -> str:
    """Why there can be no record of a run; empty if there can."""
    if run.state != "done":
        return f"{run.state}: {run.sentence}"
    if run.scale == "tiny":
        return TINY
    if run.scale != "custom" and not any(item.has(run.name, run.scale) for item in items):
        return f"there is no recipe {run.name} at scale {run.scale}: its numbers belong to no table."
    return ""


def _merge(file: Path, record: Record, substitute: bool) -> tuple[Status, Record]:
    """What happens to a record, and the content to write; empty if nothing is written."""
    if not file.exists():
        return "added", record
    known = read_record(file)
    if known.get(SHA) != record_sum(known) or not _same_run(known, record):
        return ("replaced", record) if substitute else ("not added", {})
    merged = with_sum({**known, "measures": {**known["measures"], **record["measures"]}})
    return ("already there", {}) if merged == known else ("measures added", merged)


def _same_run(*records: Record) -> bool:
    """Whether two records have the same weights and numbers, no matter when and where they were trained."""
    first, second = ((record[WEIGHTS], {**record["result"], "seconds": 0}) for record in records)
    return first == second
