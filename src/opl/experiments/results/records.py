"""A finished run as one small JSON file, and such files as runs again, for tables without the run folders.

`results/<scale>/<recipe>/seed-<n>.json` has all of `recipe.json` (settings, versions, commit, machine, start), the
numbers of `result.json`, every measure with its settings, the sizes of the parts with a checksum of which images were
in them, the SHA-256 of the weights, and a checksum of the record itself.
"""

import hashlib
import json
import math
from pathlib import Path, PurePath
from typing import Any

from ...errors import FolderError
from ..files import write_whole
from ..run_folder import RunFolder
from .epochs import EpochRecords
from .runs import DAMAGED, Run, inner

SUFFIX = ".json"
SHA, WEIGHTS = "sha256", "weights"
Record = dict[str, Any]
"""The content of a record."""


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
        """Nothing: a record has the number of classes alone."""
        return ()

    def weights_sum(self) -> str:
        """The SHA-256 of the weights."""
        return str(self.record.get(WEIGHTS, ""))


def make_record(run: Run) -> Record:
    """Make the record of a finished run."""
    measures = run.folder.measures()
    measured = {name for content in measures.values() for name in content["numbers"]}
    record = _portable(
        {
            **run.about,
            "result": {name: value for name, value in run.result.items() if name not in measured},
            "measures": measures,
            "splits": _sizes(run.splits()),
            "noise": _rates(run.noise()),
            WEIGHTS: run.weights_sum(),
        }
    )
    return with_sum(record)


def with_sum(record: Record) -> Record:
    """The record with the checksum of its content."""
    return {**record, SHA: record_sum(record)}


def record_sum(record: Record) -> str:
    """The SHA-256 of everything in a record but this checksum."""
    return _sum({name: value for name, value in record.items() if name != SHA})


def record_file(folder: Path, record: Record) -> Path:
    """The file of a record; a run with settings of its own is told from others like it by its changes."""
    recipe = inner(record, "recipe")
    changes = f"-{_sum(recipe['changes'])[:8]}" if recipe.get("changes") else ""
    return folder / str(recipe["scale"]) / str(recipe["name"]) / f"seed-{recipe['seed']}{changes}{SUFFIX}"


def write_record(file: Path, record: Record) -> None:
    """Write a record, with sorted names, so that equal records are equal files."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, f"{json.dumps(record, indent=1, sort_keys=True, allow_nan=False)}\n".encode())
    except OSError as error:
        raise FolderError(f"cannot write {file} ({error.strerror}): give another folder with --to.") from error


def read_record(file: Path) -> Record:
    """Read a record; one that is damaged is an error."""
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not inner(record, "recipe") or not inner(record, "result"):
        raise FolderError(f"{file} is not a record of a run: restore it, or delete it and add the run again.")
    return record


def run_of(record: Record, file: Path, where: str) -> Run:
    """A record as a finished run, which messages call `where`."""
    folder = RecordFolder(file.with_suffix(""), record)
    measured = [inner(content, "numbers").items() for content in folder.measures().values()]
    numbers = record["result"] | {name: value for each in measured for name, value in each}
    if record.get(SHA) != record_sum(record):
        fault = f"{file.name} is not what was recorded"
        return Run(folder, where, DAMAGED, fault, record, record["recipe"], EpochRecords(), {})
    return Run(folder, where, "done", "", record, record["recipe"], EpochRecords(), numbers)


def read_records(folder: Path) -> list[Run]:
    """Every record below a folder as a run, sorted by path."""
    files = sorted(folder.rglob(f"seed-*{SUFFIX}"))
    return [run_of(read_record(file), file, file.relative_to(folder).as_posix()) for file in files]


def _sizes(splits: dict[str, Any]) -> dict[str, Any]:
    """Lists of images and classes as their lengths, with a checksum of the lists; of the folder only its name."""
    parts = {**splits, "source": PurePath(str(splits.get("source", ""))).name}
    sizes = {name: len(value) if isinstance(value, list) else value for name, value in parts.items()}
    return {**sizes, SHA: _sum(parts)} if splits else {}


def _rates(noise: dict[str, Any]) -> dict[str, Any]:
    return {"rates": inner(noise, "rates"), SHA: _sum(noise)} if noise else {}


def _sum(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _portable(value: Any) -> Any:
    """The same without folders of the machine, and without numbers that are not finite, which JSON does not have."""
    if isinstance(value, list):
        return [_portable(part) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {name: part for name, part in value.items() if not (isinstance(part, float) and not math.isfinite(part))}
    return {name: "" if name == "root" else _portable(part) for name, part in kept.items()}
