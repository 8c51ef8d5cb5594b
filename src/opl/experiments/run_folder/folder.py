"""One run on disk, as the other rooms see it: settings, records, checkpoints, results and measures."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from ...errors import DamagedError, FolderError
from ..files import read_limited, sweep, write_whole
from ..settings import differences
from . import checkpoints, metrics, names
from .arrays import pack_arrays, unpack_arrays, unpack_weights
from .ledger import DONE, RECIPE, RUNNING, Ledger, damaged, json_bytes
from .lock import FileLock

RESULT, MODEL = "result.json", "model.safetensors"
SPLITS, NOISE, ERROR, OWNER = "splits.json", "noise.json", "error.json", "owner.json"
TRACES = (RECIPE, DONE, checkpoints.CHECKPOINT)  # one of these is in the folder of every run
DERIVED = ("changes", "scale")  # settings that follow from others
ANEW = ("timeout", "checkpoint_every")  # settings that a resumed run may change, since they change no number
MEASURES, ARRAYS = "measures/", ".npz"
Settings = dict[str, Any]


class RunFolder:
    """The folder of one run.

    Example:
        >>> RunFolder.of("runs", "digits-ce", 0).path.as_posix()
        'runs/digits-ce/seed-0'
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.ledger = Ledger(self.path)

    @classmethod
    def of(cls, out: Path | str, recipe: str, seed: int) -> "RunFolder":
        """Return the folder below `out` for a recipe and a seed."""
        return cls(Path(out) / recipe / f"seed-{seed}")

    def beside(self, recipe: str) -> "RunFolder":
        """Return the folder of another recipe's run with the same seed, below the same output folder."""
        return RunFolder(self.path.parents[1] / recipe / self.path.name)

    @classmethod
    def below(cls, folder: Path | str) -> "list[RunFolder]":
        """Return all runs below a folder, sorted by path; one whose settings were deleted is among them."""
        return [cls(path) for path in sorted({file.parent for name in TRACES for file in Path(folder).rglob(name)})]

    @property
    def log_file(self) -> Path:
        """The log file of a process that trains this run in the background."""
        return self.path / "log.txt"

    def last_log_line(self) -> str:
        """Return the last non-blank line of the log; empty if there is no log."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return next((line for line in reversed(text.splitlines()) if line.strip()), "")

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return self.ledger.finished

    @property
    def begun(self) -> bool:
        """Whether a run exists in this folder, finished or not."""
        return any((self.path / name).exists() for name in TRACES)

    def owned(self, wait: float = 0.0) -> FileLock:
        """Return a lock, to be held while the run is trained: a second process waits, then gets an error."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return FileLock(self.path / OWNER, wait=wait, refresh=True)

    def start(self, recipe: Settings, about: Settings, complete: Callable[[Settings], Settings] = dict) -> None:
        """Write `recipe.json`, before any other file; raise if the folder holds a run with a different recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.begun:
                self.check_settings(recipe, complete)
                (self.path / ERROR).unlink(missing_ok=True)
            else:
                self.ledger.write_json(RECIPE, {"recipe": recipe, **about})
        except OSError as error:
            raise self._unwritable(error) from error

    def check_settings(self, recipe: Settings, complete: Callable[[Settings], Settings] = dict) -> None:
        """Raise if the run in this folder has another recipe; `complete` adds the settings that are newer than it."""
        different = [name for name in differences(complete(self.recipe()), recipe) if name not in ANEW]
        different = [name for name in different if name not in DERIVED] or different
        if different:
            raise FolderError(
                f"{self.path} holds a run with other settings ({', '.join(different[:3])}): give another --out, or "
                "delete that folder."
            )

    def sweep(self) -> None:
        """Delete or complete what killed processes left; in an unfinished run only the owner may do so."""
        if self.done:
            self.ledger.mend()
            with suppress(FolderError), self.owned():
                return  # which deletes the lock of an owner that died after its last write
        else:
            sweep(self.path)
            checkpoints.settle(self.path)

    def recipe(self) -> dict[str, Any]:
        """The settings of the run."""
        settings = self.about().get("recipe")
        if not isinstance(settings, dict):
            raise damaged(self.path, RECIPE, "has no settings")
        return settings

    def about(self) -> dict[str, Any]:
        """The content of `recipe.json`: settings, versions, commit and machine."""
        return self.ledger.read_json(RECIPE)

    def write_splits(self, splits: dict[str, Any]) -> None:
        """Write `splits.json`: the validation rows, the sizes of the other parts, and the class names."""
        self.ledger.write_json(SPLITS, splits)

    def splits(self) -> dict[str, Any]:
        """The content of `splits.json`; empty if there is none."""
        return self.ledger.read_json(SPLITS) if self.ledger.has(SPLITS) else {}

    def class_names(self) -> tuple[str, ...]:
        """The class names of the training data."""
        return tuple(str(name) for name in self.splits().get("class_names", ()))

    def write_noise(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Record the corrupted labels; raise if the run was started with a different noise matrix."""
        if self.ledger.has(NOISE) and self.ledger.read_json(NOISE)["matrix"] != facts["matrix"]:
            raise FolderError(
                f"{self.path} holds a run with another noise matrix, so its file changed: give another --out, or "
                "delete that folder."
            )
        self.write_outputs(arrays, "noise")
        self.ledger.write_json(NOISE, facts)

    def noise(self) -> dict[str, Any]:
        """The content of `noise.json`; empty if there is none."""
        return self.ledger.read_json(NOISE) if self.ledger.has(NOISE) else {}

    def log(self, record: dict[str, Any]) -> None:
        """Append the record of an epoch to `metrics.jsonl`."""
        metrics.append(self.path, record)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the records of all epochs so far."""
        return list(self.iterate_metrics())

    def iterate_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the records of all epochs so far, one at a time."""
        file = self.path / metrics.METRICS
        if self.done:
            data = self.ledger.read(metrics.METRICS) if self.ledger.has(metrics.METRICS) else b""
        else:
            data = read_limited(file, links=False) if file.exists() or file.is_symlink() else b""
        yield from metrics.parse(self.path, data)

    def restore_metrics(self, records: Iterable[dict[str, Any]]) -> None:
        """Make `metrics.jsonl` hold exactly the records of a checkpoint, whatever became of it."""
        metrics.rewrite(self.path, records)

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the previous one is kept."""
        checkpoints.save(self.path, state)

    def load(self) -> dict[str, Any] | None:
        """Return the newest valid checkpoint; None if there is none. Damaged ones are said and passed over."""
        return checkpoints.load(self.path)

    def save_best(self, state: dict[str, Any]) -> None:
        """Save the weights with the best validation accuracy."""
        checkpoints.save_best(self.path, state)

    def load_best(self) -> dict[str, Any]:
        """Load the weights with the best validation accuracy."""
        return checkpoints.load_best(self.path)

    def write_outputs(self, arrays: dict[str, Any], name: str = "test") -> None:
        """Save the predictions for some images; see `training.validation` for the arrays."""
        self.ledger.write(f"{name}{ARRAYS}", pack_arrays(arrays))

    def outputs(self, name: str = "test") -> dict[str, Any] | None:
        """Load the arrays of `write_outputs`; None if there are none."""
        file = f"{name}{ARRAYS}"
        return unpack_arrays(self.path, file, self.ledger.read(file)) if self.ledger.has(file) else None

    def finish(self, weights: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the model and the result, and finally `done`, which vouches for all files."""
        from safetensors.torch import save

        deque(self.iterate_metrics(), maxlen=0)  # a damaged file must not be vouched for
        self.ledger.write_all({MODEL: save(weights), RESULT: json_bytes(result)})
        self.sweep()
        self.ledger.finish(*[metrics.METRICS] * (self.path / metrics.METRICS).exists())
        (self.path / ERROR).unlink(missing_ok=True)

    def fail(self, sentence: str) -> None:
        """Record why the run stopped; where that cannot be written, the sentence on the screen must do."""
        try:
            write_whole(self.path / ERROR, json_bytes({"error": sentence}))
        except OSError:
            return

    def error(self) -> str | None:
        """Return why the run stopped; None if it did not fail."""
        if self.done or not (self.path / ERROR).exists():
            return None
        try:
            return str(json.loads(read_limited(self.path / ERROR))["error"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise damaged(self.path, ERROR, "cannot be read") from error

    def result(self) -> dict[str, Any]:
        """Return the final numbers of the run and the numbers of all measures."""
        measured = [content["numbers"].items() for content in self.measures().values()]
        return self.ledger.read_json(RESULT) | {name: value for numbers in measured for name, value in numbers}

    def measures(self) -> dict[str, dict[str, Any]]:
        """Return every measure by its name, as passed to `write_measure`."""
        present = {file.name for file in (self.path / MEASURES).glob("*.json")}
        listed = {name for name in filter(self.ledger.has, self.ledger.sums()) if name.startswith(MEASURES)}
        names = {Path(name).stem for name in present | listed if name.endswith(".json")}
        return {name: self.measure(name) for name in sorted(names)}

    def write_measure(self, name: str, content: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Save a measure, with its `numbers` in `content`. Arrays come first: a `.json` file marks it as complete."""
        (self.path / MEASURES).mkdir(exist_ok=True)
        file = f"{MEASURES}{name}"
        self.ledger.write_all({f"{file}{ARRAYS}": pack_arrays(arrays), f"{file}.json": json_bytes(content)})

    def has_measure(self, name: str) -> bool:
        """Whether a measure exists."""
        return self.ledger.has(f"{MEASURES}{name}.json")

    def measure(self, name: str) -> dict[str, Any]:
        """Return the `content` passed to `write_measure`."""
        return self.ledger.read_json(f"{MEASURES}{name}.json")

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
        self.ledger.remove(f"{MEASURES}{name}.part{ARRAYS}")

    def weights(self) -> dict[str, Any]:
        """Load the state dict of the final model."""
        return unpack_weights(self.path, MODEL, self.ledger.read(MODEL))

    def weights_sum(self) -> str:
        """The SHA-256 of the final model as the run wrote it; empty if it is not finished."""
        return (self.ledger.sums().get(MODEL) or [""])[-1]

    def faults(self) -> dict[str, str]:
        """What is wrong with each file that is missing or is not what the run wrote, by name."""
        return found if RECIPE in (found := self._faults()) else found | checkpoints.faults(self.path)

    def faults_of_numbers(self) -> dict[str, str]:
        """The same without weights, checkpoints and kept features, which are large and in no table."""
        return self._faults(MODEL, names.FEATURES)

    def _faults(self, *ignored: str) -> dict[str, str]:
        if not self.done and not (self.path / RUNNING).exists():
            return {DONE: f"is missing, and so is {RUNNING}"}
        found: dict[str, str] = {}
        try:
            found = self.ledger.faults(*ignored)
            lines = 1 if self.done else None  # the sum of a finished run vouches for all of them
            deque(islice(self.iterate_metrics(), lines), maxlen=0)
        except DamagedError as error:
            found = {error.name: error.fault} | found
        except OSError as error:
            found = {metrics.METRICS: f"cannot be read ({error.strerror})"} | found
        if RECIPE in found:
            found[RECIPE] += f", or {DONE if self.done else RUNNING} is another run's"
            found.pop(metrics.METRICS, None)  # it cannot be told without the settings
        return found

    def _unwritable(self, error: OSError) -> FolderError:
        return FolderError(f"cannot write to {self.path} ({error.strerror}): give another folder with --out.")
