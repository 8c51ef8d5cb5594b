"""A run on disk: the only module that knows the layout of a run folder.

`DIR/<recipe>/seed-<n>/` holds `recipe.json` (written first), `splits.json`, `metrics.jsonl` (one line per epoch),
`checkpoint.pt` and `checkpoint-before.pt` (each with a `.sha256` file), `best.pt`, `model.safetensors`, `test.npz`
(predictions for the test images), `result.json`, `sums.json` (SHA-256 of recipe, result and weights), and the empty
file `done`, written last. With label noise also `noise.json` (transition matrix and noise rates) and `noise.npz` (the
labels). Measures taken after training are in `measures/`: a `.json` file each, with its arrays in a `.npz` file; an
unfinished measure is a `.part.npz`. A file under its final name is complete, except for `metrics.jsonl` and logs.
"""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

from ..errors import FolderError
from .differences import differences
from .files import file_sum, pack, read_json_lines, unpack, write_whole

RECIPE, RESULT, MODEL, SUMS, BEST = "recipe.json", "result.json", "model.safetensors", "sums.json", "best.pt"
DERIVED = ("changes", "scale")  # settings that follow from others
CHECKPOINT, BEFORE, NEW = "checkpoint.pt", "checkpoint-before.pt", "checkpoint-new.pt"


class RunFolder:
    """The folder of one run.

    Example:
        >>> RunFolder.of("runs", "digits-ce", 0).path.as_posix()
        'runs/digits-ce/seed-0'
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def of(cls, out: Path | str, recipe: str, seed: int) -> "RunFolder":
        """Return the folder below `out` for a recipe and a seed."""
        return cls(Path(out) / recipe / f"seed-{seed}")

    def beside(self, recipe: str) -> "RunFolder":
        """Return the folder of another recipe's run with the same seed, below the same output folder."""
        return RunFolder(self.path.parents[1] / recipe / self.path.name)

    @classmethod
    def below(cls, folder: Path | str) -> "list[RunFolder]":
        """Return all runs below a folder, sorted by path."""
        return [cls(path.parent) for path in sorted(Path(folder).rglob(RECIPE))]

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
        return (self.path / "done").exists()

    @property
    def begun(self) -> bool:
        """Whether a run exists in this folder, finished or not."""
        return (self.path / RECIPE).exists()

    def start(self, recipe: dict[str, Any], about: dict[str, Any]) -> None:
        """Write `recipe.json`, before any other file; raise if the folder holds a run with a different recipe."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.begun:
                different = differences(self.recipe(), recipe)
                different = [name for name in different if name not in DERIVED] or different
                if different:
                    raise FolderError(
                        f"{self.path} holds a run with other settings ({', '.join(different[:3])}): give another "
                        "--out, or delete that folder."
                    )
                return
            self._write_json(RECIPE, {"recipe": recipe, **about})
        except OSError as error:
            raise FolderError(
                f"cannot write to {self.path} ({error.strerror}): give another folder with --out."
            ) from error

    def recipe(self) -> dict[str, Any]:
        """The settings of the run."""
        settings: dict[str, Any] = self.about()["recipe"]
        return settings

    def about(self) -> dict[str, Any]:
        """The content of `recipe.json`: settings, versions, commit and machine."""
        return self._read_json(RECIPE)

    def write_splits(self, splits: dict[str, Any]) -> None:
        """Write `splits.json`: the validation rows, the sizes of the other parts, and the class names."""
        self._write_json("splits.json", splits)

    def write_noise(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Record the corrupted labels; raise if the run was started with a different noise matrix."""
        if (self.path / "noise.json").exists() and self._read_json("noise.json")["matrix"] != facts["matrix"]:
            raise FolderError(
                f"{self.path} holds a run with another noise matrix, so its file changed: give another --out, or "
                "delete that folder."
            )
        self.write_outputs(arrays, "noise")
        self._write_json("noise.json", facts)

    def noise(self) -> dict[str, Any]:
        """The content of `noise.json`; empty if there is none."""
        return self._read_json("noise.json") if (self.path / "noise.json").exists() else {}

    def log(self, record: dict[str, Any]) -> None:
        """Append a line to `metrics.jsonl`."""
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """Return the records of all epochs so far; an incomplete last line is ignored."""
        return list(read_json_lines(self.path / "metrics.jsonl"))

    def keep_epochs(self, epochs: int) -> None:
        """Drop the records of epoch number `epochs` and later, which a resumed run will write again."""
        kept = [record for record in self.metrics() if record["epoch"] < epochs]
        if (self.path / "metrics.jsonl").exists():
            self._write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept).encode())

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the previous one is kept as `checkpoint-before.pt`.

        A checkpoint is valid if its SHA-256 equals any of the stored checksums, so that a valid one exists at every
        moment between these renames.
        """
        data = pack(state)
        new, current, before = (self.path / name for name in (NEW, CHECKPOINT, BEFORE))
        self._write(NEW, data)
        self._write(_sum_of(new).name, hashlib.sha256(data).hexdigest().encode())
        for source, target in ((current, before), (new, current)):
            if source.exists():
                os.replace(source, target)
            if _sum_of(source).exists():
                os.replace(_sum_of(source), _sum_of(target))

    def load(self) -> dict[str, Any] | None:
        """Return the newest valid checkpoint; None if there is none."""
        paths = [self.path / name for name in (NEW, CHECKPOINT, BEFORE)]
        sums = {_sum_of(path).read_text().strip() for path in paths if _sum_of(path).exists()}
        contents = [path.read_bytes() for path in paths if path.exists()]
        states = [unpack(data) for data in contents if hashlib.sha256(data).hexdigest() in sums]
        return max(states, key=lambda state: int(state["epoch"]), default=None)

    def save_best(self, state: dict[str, Any]) -> None:
        """Save the weights with the best validation accuracy."""
        self._write(BEST, pack(state))

    def load_best(self) -> dict[str, Any]:
        """Load the weights with the best validation accuracy."""
        return unpack((self.path / BEST).read_bytes())

    def splits(self) -> dict[str, Any]:
        """The content of `splits.json`; empty if there is none."""
        return self._read_json("splits.json") if (self.path / "splits.json").exists() else {}

    def class_names(self) -> tuple[str, ...]:
        """The class names of the training data."""
        return tuple(str(name) for name in self.splits().get("class_names", ()))

    def write_outputs(self, arrays: dict[str, Any], name: str = "test") -> None:
        """Save the predictions for some images; see `training.validation` for the arrays."""
        import numpy as np

        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        self._write(f"{name}.npz", buffer.getvalue())

    def outputs(self, name: str = "test") -> dict[str, Any] | None:
        """Load the arrays of `write_outputs`; None if they are missing or unreadable."""
        import numpy as np

        try:
            with np.load(self.path / f"{name}.npz", allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError):
            return None

    def finish(self, weights: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the model, the result, and finally `done`."""
        from safetensors.torch import save

        self._write(MODEL, save(weights))
        self._write_json(RESULT, result)
        self._write_json(SUMS, {name: file_sum(self.path / name) for name in (RECIPE, RESULT, MODEL)})
        self._write("done", b"")
        (self.path / "error.json").unlink(missing_ok=True)

    def fail(self, sentence: str) -> None:
        """Record why the run stopped."""
        self._write_json("error.json", {"error": sentence})

    def error(self) -> str | None:
        """Return why the run stopped; None if it did not fail."""
        path = self.path / "error.json"
        return str(json.loads(path.read_text())["error"]) if path.exists() and not self.done else None

    def result(self) -> dict[str, Any]:
        """Return the final numbers of the run and the numbers of all measures."""
        measured = [content["numbers"].items() for content in self.measures().values()]
        return self._read_json(RESULT) | {name: value for numbers in measured for name, value in numbers}

    def measures(self) -> dict[str, dict[str, Any]]:
        """Return every measure by its name, as passed to `write_measure`."""
        return {file.stem: self.measure(file.stem) for file in sorted((self.path / "measures").glob("*.json"))}

    def write_measure(self, name: str, content: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Save a measure, with its `numbers` in `content`. Arrays come first: a `.json` file marks it as complete."""
        (self.path / "measures").mkdir(exist_ok=True)
        self.write_outputs(arrays, f"measures/{name}")
        self._write_json(f"measures/{name}.json", content)

    def has_measure(self, name: str) -> bool:
        """Whether a measure exists."""
        return (self.path / "measures" / f"{name}.json").exists()

    def measure(self, name: str) -> dict[str, Any]:
        """Return the `content` passed to `write_measure`."""
        return self._read_json(f"measures/{name}.json")

    def measure_arrays(self, name: str) -> dict[str, Any]:
        """Return the arrays of a measure; empty if there are none."""
        return self.outputs(f"measures/{name}") or {}

    def write_part(self, name: str, arrays: dict[str, Any]) -> None:
        """Save the intermediate state of an unfinished measure, so that it can be resumed."""
        (self.path / "measures").mkdir(exist_ok=True)
        self.write_outputs(arrays, f"measures/{name}.part")

    def part(self, name: str) -> dict[str, Any] | None:
        """Load the intermediate state of a measure; None if there is none."""
        return self.outputs(f"measures/{name}.part")

    def drop_part(self, name: str) -> None:
        """Delete the intermediate state of a measure, after the measure is complete."""
        (self.path / "measures" / f"{name}.part.npz").unlink(missing_ok=True)

    def weights(self) -> dict[str, Any]:
        """Load the state dict of the final model."""
        from safetensors.torch import load_file

        return load_file(self.path / MODEL)

    def sums(self) -> dict[str, str]:
        """The SHA-256 of recipe, result and weights, as the run left them; empty for a run without."""
        stored = self._read_json(SUMS) if (self.path / SUMS).exists() else {}
        return {name: str(value) for name, value in stored.items()}

    def edited_files(self) -> list[str]:
        """The names of those files that are not what the run wrote; weights are not read for this."""
        return [name for name, value in self.sums().items() if name != MODEL and file_sum(self.path / name) != value]

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads((self.path / name).read_text())
        except (OSError, ValueError) as error:
            raise FolderError(
                f"{self.path} has no readable {name}: it is not a run folder, or it was damaged."
            ) from error
        return content

    def _write_json(self, name: str, content: dict[str, Any]) -> None:
        self._write(name, (json.dumps(content, indent=1) + "\n").encode())

    def _write(self, name: str, data: bytes) -> None:
        write_whole(self.path / name, data)


def measure_name(metric: str) -> str:
    """Return the name under which `RunFolder.measure` stores a metric.

    Example:
        >>> measure_name("episodes/5-way-1-shot")
        'episodes-5-way-1-shot'
    """
    return metric.replace("/", "-", 1)


def _sum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
