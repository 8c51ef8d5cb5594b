"""One run on disk, as other packages see it: settings, records, checkpoints, results and measures."""

import io
import json
import os
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from ...errors import DamagedError, FolderError
from ..files import MOST_JSON, make_folder, open_regular, open_to_append, read_json, read_limited, sweep, write_whole
from ..settings import differences
from . import checkpoints
from .facts import check_about, check_arrays, check_measure, check_noise, check_result, check_splits
from .manifest import DONE, RECIPE, RUNNING, Manifest, damaged, json_bytes, settings_of
from .owner import own, unwritable

RESULT, MODEL, METRICS = "result.json", "model.safetensors", "metrics.jsonl"
SPLITS, NOISE, ERROR = "splits.json", "noise.json", "error.json"
TRACES = (RECIPE, DONE, checkpoints.CHECKPOINT)  # the folder of every run has at least one of these files
DERIVED = ("changes", "scale")  # settings that follow from others
RESUMABLE = ("timeout", "checkpoint_every")  # settings that a resumed run may change, since they affect no number
MEASURES, ARRAYS = "measures/", ".npz"
FEATURES = "features-"
"""The prefix of outputs that hold features, which are large and can be computed again."""
ENDED_AFTER = "ended_after"
"""In a result: the number of epochs after which a method ended training by its own rules."""
UNPACKED, RATIO, ALWAYS = 1 << 33, 50, 1 << 26  # limits for unpacked bytes: in total, per packed byte, always allowed
MOST_LOG = 1 << 16  # bytes at the end of a log that are read
MOST_METRICS = 1 << 30  # bytes of metrics.jsonl
CHECK = ', "check": "'  # stands before the checksum at the end of a line of metrics.jsonl
CHECKED = len('01234567"}')  # characters from there to the end of the line
Settings = dict[str, Any]
Record = dict[str, Any]


class RunFolder:
    """The folder of one run.

    Example:
        >>> RunFolder.of("runs", "digits-ce", 0).path.as_posix()
        'runs/digits-ce/seed-0'
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.manifest = Manifest(self.path)

    @classmethod
    def of(cls, out: Path | str, recipe: str, seed: int) -> "RunFolder":
        """Return the folder below `out` for a recipe and a seed."""
        return cls(Path(out) / recipe / f"seed-{seed}")

    def beside(self, recipe: str) -> "RunFolder":
        """Return the folder of another recipe's run with the same seed, below the same output folder."""
        return RunFolder(self.path.parents[1] / recipe / self.path.name)

    @classmethod
    def below(cls, folder: Path | str) -> "list[RunFolder]":
        """Return all runs below a folder, sorted by path, including runs whose settings were deleted."""
        return [cls(path) for path in sorted({file.parent for name in TRACES for file in Path(folder).rglob(name)})]

    @property
    def log_file(self) -> Path:
        """The log file of a process that trains this run in the background."""
        return self.path / "log.txt"

    def last_log_line(self) -> str:
        """Return the last non-blank line of the log; empty if there is no log."""
        try:
            with open_regular(self.log_file, links=False) as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - MOST_LOG))
                text = stream.read(MOST_LOG).decode(errors="replace")
        except OSError:
            return ""
        return next((line for line in reversed(text.splitlines()) if line.strip()), "")

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return self.manifest.finished

    @property
    def begun(self) -> bool:
        """Whether a run exists in this folder, finished or not."""
        return any((self.path / name).exists() for name in TRACES)

    def owned(self, wait: float = 0.0) -> AbstractContextManager[Path]:
        """Own the folder while the run is trained: a second process waits, then gets an error that names the first."""
        return own(*self._root_and_names(), wait=wait)

    def create(self) -> None:
        """Create the folder; raise if it, or the folder of its recipe, is a link."""
        try:
            make_folder(*self._root_and_names())
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _root_and_names(self) -> tuple[Path, *tuple[str, ...]]:
        """Return the output folder, and below it the folders of the recipe and of the seed."""
        root = [self.path, *self.path.parents][:3][-1]
        return root, *self.path.relative_to(root).parts

    def start(self, recipe: Settings, about: Settings, complete: Callable[[Settings], Settings] = dict) -> None:
        """Write `recipe.json`, before any other file; raise if the folder holds a run with a different recipe."""
        self.create()
        try:
            if self.begun:
                self.check_settings(recipe, complete)
                (self.path / ERROR).unlink(missing_ok=True)
            else:
                self.manifest.write_json(RECIPE, {"recipe": recipe, **about})
        except OSError as error:
            raise unwritable(self.path, error) from error

    def check_settings(self, recipe: Settings, complete: Callable[[Settings], Settings] = dict) -> None:
        """Raise if the run in this folder has another recipe; `complete` adds settings newer than the run."""
        different = [name for name in differences(complete(self.recipe()), recipe) if name not in RESUMABLE]
        different = [name for name in different if name not in DERIVED] or different
        if different:
            raise FolderError(
                f"{self.path} holds a run with other settings ({', '.join(different[:3])}): choose another folder with "
                "--out, or delete the folder."
            )

    def sweep(self) -> None:
        """Delete or complete what killed processes left; in an unfinished run only the owner may do so."""
        if self.done:
            with ExitStack() as stack:
                try:
                    stack.enter_context(self.owned())  # deletes the note of an owner that died after its last write
                except FolderError:  # behind a link, or another process is at work
                    return
                self.manifest.mend()
        else:
            sweep(self.path)
            checkpoints.settle(self.path)

    def recipe(self) -> dict[str, Any]:
        """Return the settings of the run."""
        settings: dict[str, Any] = self.about()["recipe"]
        return settings

    def about(self) -> dict[str, Any]:
        """Return the content of `recipe.json`: settings, versions, commit and machine."""
        return self.manifest.read_json(RECIPE, check_about)

    def write_splits(self, splits: dict[str, Any]) -> None:
        """Write `splits.json`: the validation rows, the sizes of the other parts, and the class names."""
        self.manifest.write_json(SPLITS, splits)

    def splits(self) -> dict[str, Any]:
        """Return the content of `splits.json`; empty if there is none."""
        return self.manifest.read_json(SPLITS, check_splits, MOST_JSON) if self.manifest.has(SPLITS) else {}

    def class_names(self) -> tuple[str, ...]:
        """Return the class names of the training data."""
        return tuple(str(name) for name in self.splits().get("class_names") or ())

    def write_noise(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Record the corrupted labels; raise if the run was started with a different noise matrix."""
        if self.manifest.has(NOISE) and self.noise().get("matrix") != facts["matrix"]:
            raise FolderError(
                f"{self.path} holds a run with another noise matrix, so the matrix file changed: choose another folder "
                "with --out, or delete the folder."
            )
        self.write_outputs(arrays, "noise")
        self.manifest.write_json(NOISE, facts)

    def noise(self) -> dict[str, Any]:
        """Return the content of `noise.json`; empty if there is none."""
        return self.manifest.read_json(NOISE, check_noise, MOST_JSON) if self.manifest.has(NOISE) else {}

    def log(self, record: Record) -> None:
        """Append the record of an epoch to `metrics.jsonl`, and wait until it is on the disk.

        Each line has a checksum of the settings and of itself, because the manifest cannot be rewritten for every line;
        once the run is finished, `done` lists the SHA-256 of the file.
        """
        with open_to_append(self.path / METRICS) as file:
            file.write(_line(record, self._key()))
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[Record]:
        """Return the records of all epochs so far."""
        return list(self.iterate_metrics())

    def iterate_metrics(self) -> Iterator[Record]:
        """Yield the records of all epochs so far, which must be 0, 1, 2, ...; an incomplete last line is ignored."""
        key = self._key()
        file, data = self.path / METRICS, b""
        if self.done:
            data = self.manifest.read(METRICS, MOST_METRICS) if self.manifest.has(METRICS) else b""
        elif file.exists() or file.is_symlink():
            data = read_limited(file, MOST_METRICS, links=False)
        elif checkpoints.exists(self.path):  # training writes the file, which may be empty, before any checkpoint
            raise damaged(self.path, METRICS, "is missing")
        for epoch, line in enumerate(io.BytesIO(data)):  # a list of a million lines takes a gigabyte
            record = _record(line.removesuffix(b"\n"), key)
            if not line.endswith(b"\n"):
                _, check, end = line.rpartition(CHECK.encode())
                if check and len(end) >= CHECKED:  # a whole line, so it was not cut by a crash
                    raise damaged(self.path, METRICS, f"has no end of line {epoch + 1}")
                return
            if record is None or record.get("epoch") != epoch:
                raise damaged(self.path, METRICS, f"is not what the run wrote (line {epoch + 1})")
            yield record

    def restore_metrics(self, records: Iterable[Record]) -> None:
        """Make `metrics.jsonl` hold exactly the records of a checkpoint, whatever it held before."""
        key = self._key()
        write_whole(self.path / METRICS, b"".join(_line(record, key) for record in records))

    def _key(self) -> int:
        """Return the checksum of the settings, which starts the checksum of each line, so other runs' lines differ."""
        return zlib.crc32(settings_of(self.path))

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the previous one is kept."""
        checkpoints.save(self.path, state)

    def load(self) -> dict[str, Any] | None:
        """Return the newest valid checkpoint; None if there is none. A warning names damaged checkpoints."""
        return checkpoints.load(self.path)

    def save_best(self, state: dict[str, Any]) -> None:
        """Save the weights with the best validation accuracy."""
        checkpoints.save_best(self.path, state)

    def load_best(self) -> dict[str, Any]:
        """Load the weights with the best validation accuracy."""
        return checkpoints.load_best(self.path)

    def write_outputs(self, arrays: dict[str, Any], name: str = "test") -> None:
        """Save the predictions for some images; see `training.validation` for the arrays."""
        self.manifest.write(f"{name}{ARRAYS}", pack_arrays(arrays))

    def outputs(self, name: str = "test") -> dict[str, Any] | None:
        """Load the arrays of `write_outputs`; None if there are none."""
        file = f"{name}{ARRAYS}"
        return self._unpack_arrays(file) if self.manifest.has(file) else None

    def finish(self, weights: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the model and the result, and finally `done`, the manifest of all files."""
        from safetensors.torch import save

        deque(self.iterate_metrics(), maxlen=0)  # a damaged file must not get a checksum
        self.manifest.write_all({MODEL: save(weights), RESULT: json_bytes(result)})
        self.sweep()
        self.manifest.finish(*[METRICS] * (self.path / METRICS).exists())
        (self.path / ERROR).unlink(missing_ok=True)

    def fail(self, sentence: str) -> None:
        """Record why the run stopped; if the file cannot be written, the sentence is only printed."""
        try:
            write_whole(self.path / ERROR, json_bytes({"error": sentence}))
        except OSError:
            return

    def error(self) -> str | None:
        """Return why the run stopped; None if it did not fail."""
        if self.done or not (self.path / ERROR).exists():
            return None
        try:
            return str(read_json(self.path / ERROR, MOST_LOG, links=False)["error"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise damaged(self.path, ERROR, "cannot be read") from error

    def result(self) -> dict[str, Any]:
        """Return the final numbers of the run and the numbers of all measures."""
        measured = [(content.get("numbers") or {}).items() for content in self.measures().values()]
        result = self.manifest.read_json(RESULT, check_result)
        return result | {name: value for numbers in measured for name, value in numbers}

    def measures(self) -> dict[str, dict[str, Any]]:
        """Return every measure by its name, as passed to `write_measure`."""
        present = {file.name for file in (self.path / MEASURES).glob("*.json")}
        listed = {name for name in filter(self.manifest.has, self.manifest.sums()) if name.startswith(MEASURES)}
        names = {Path(name).stem for name in present | listed if name.endswith(".json")}
        return {name: self.measure(name) for name in sorted(names)}

    def write_measure(self, name: str, content: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Save a measure, with its `numbers` in `content`. Arrays come first: a `.json` file marks it as complete."""
        (self.path / MEASURES).mkdir(exist_ok=True)
        file = f"{MEASURES}{name}"
        self.manifest.write_all({f"{file}{ARRAYS}": pack_arrays(arrays), f"{file}.json": json_bytes(content)})

    def has_measure(self, name: str) -> bool:
        """Return whether a measure exists."""
        return self.manifest.has(f"{MEASURES}{name}.json")

    def measure(self, name: str) -> dict[str, Any]:
        """Return the `content` passed to `write_measure`."""
        return self.manifest.read_json(f"{MEASURES}{name}.json", check_measure)

    def measure_arrays(self, name: str) -> dict[str, Any]:
        """Return the arrays of a measure; empty if there are none."""
        return self.outputs(f"{MEASURES}{name}") or {}

    def write_part(self, name: str, arrays: dict[str, Any]) -> None:
        """Save the intermediate state of an unfinished measure, so that it can be resumed."""
        (self.path / MEASURES).mkdir(exist_ok=True)
        self.write_outputs(arrays, f"{MEASURES}{name}.part")

    def part(self, name: str) -> dict[str, Any] | None:
        """Load the intermediate state of a measure; None if there is none."""
        return self.outputs(f"{MEASURES}{name}.part")

    def drop_part(self, name: str) -> None:
        """Delete the intermediate state of a measure, after the measure is complete."""
        self.manifest.remove(f"{MEASURES}{name}.part{ARRAYS}")

    def weights(self) -> dict[str, Any]:
        """Load the state dict of the final model."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            weights: dict[str, Any] = load(self.manifest.read(MODEL))
        except SafetensorError as error:
            raise damaged(self.path, MODEL, f"holds no weights ({error})") from error
        return weights

    def weights_sum(self) -> str:
        """Return the SHA-256 of the final model as the run wrote it; empty if the run is not finished."""
        return (self.manifest.sums().get(MODEL) or [""])[-1]

    def faults(self) -> dict[str, str]:
        """Return what is wrong with each missing or altered file, by name."""
        faults = self._faults()
        return faults if RECIPE in faults else faults | checkpoints.faults(self.path)

    def faults_of_numbers(self) -> dict[str, str]:
        """Return the same without weights, checkpoints and cached features, which are large and in no table."""
        return self._faults(MODEL, FEATURES)

    def _faults(self, *ignored: str) -> dict[str, str]:
        if not self.done and not (self.path / RUNNING).exists():
            return {DONE: f"is missing, and so is {RUNNING}"}
        faults: dict[str, str] = {}
        try:
            faults = self.manifest.faults(*ignored)
            lines = 1 if self.done else None  # the manifest of a finished run covers all of them
            deque(islice(self.iterate_metrics(), lines), maxlen=0)
        except DamagedError as error:
            faults = {error.name: error.fault} | faults
        except OSError as error:
            faults = {METRICS: f"cannot be read ({error.strerror})"} | faults
        if RECIPE in faults:
            faults[RECIPE] += f", or {DONE if self.done else RUNNING} is another run's"
            faults.pop(METRICS, None)  # its lines cannot be checked without the settings
        return faults

    def _unpack_arrays(self, name: str) -> dict[str, Any]:
        """Load the arrays of a file; reject objects, and arrays far larger than the file."""
        import numpy as np

        data = self.manifest.read(name, UNPACKED)
        unreadable = OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, MemoryError, SyntaxError
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                size = sum(member.file_size for member in archive.infolist())
            allowed = size <= min(UNPACKED, max(ALWAYS, RATIO * len(data)))
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = dict(file) if allowed else {}
        except unreadable as error:
            raise damaged(self.path, name, "holds no arrays") from error
        if not allowed:
            raise damaged(self.path, name, f"would take {size:,} bytes of memory")
        try:
            check_arrays(arrays)
        except ValueError as error:
            raise damaged(self.path, name, str(error)) from error
        return arrays


def measure_name(metric: str) -> str:
    """Return the name under which `RunFolder.measure` stores a metric.

    Example:
        >>> measure_name("episodes/5-way-1-shot")
        'episodes-5-way-1-shot'
    """
    return metric.replace("/", "-", 1)


def pack_arrays(arrays: dict[str, Any]) -> bytes:
    """Serialize arrays as the bytes of a compressed `.npz` file."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _line(record: Record, key: int) -> bytes:
    text = json.dumps(record)
    return f'{text[:-1]}{CHECK}{_check(text, key)}"}}\n'.encode()


def _record(line: bytes, key: int) -> Record | None:
    """Parse a line; return None if its checksum is wrong."""
    try:
        start, _, end = line.decode().rpartition(CHECK)
        text = f"{start}}}"
        record: Any = json.loads(text) if end == f'{_check(text, key)}"}}' else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _check(text: str, key: int) -> str:
    return f"{zlib.crc32(text.encode(), key):08x}"
