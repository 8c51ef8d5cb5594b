"""A run on disk: the only file that knows the layout of a run folder.

`DIR/<recipe>/seed-<n>/` holds `recipe.json` (first), `splits.json`, `metrics.jsonl` (a line an epoch), `checkpoint.pt`
and `checkpoint-before.pt` (each with a SHA-256 beside it), `best.pt`, `model.safetensors`, `test.npz` (what the model
says of the test images), `result.json`, and `done`, empty, last. Where labels were made wrong on purpose, `noise.json`
has the matrix and what came of it, and `noise.npz` the labels. Further measures of a finished run are in `measures/`,
each a `.json` and the arrays behind it in a `.npz`; one that is under way is a `.part.npz`. A file appears under its
name only when it is complete: it is written under another name, then renamed.
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
from .files import pack, read_json_lines, unpack, write_whole

RECIPE, BEST = "recipe.json", "best.pt"
CHECKPOINT, BEFORE, NEW = "checkpoint.pt", "checkpoint-before.pt", "checkpoint-new.pt"


class RunFolder:
    """One run's folder.

    Example:
        >>> RunFolder.of("runs", "digits-ce", 0).path.as_posix()
        'runs/digits-ce/seed-0'
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @classmethod
    def of(cls, out: Path | str, recipe: str, seed: int) -> "RunFolder":
        """The folder of a recipe's run with a seed, below `out`."""
        return cls(Path(out) / recipe / f"seed-{seed}")

    def beside(self, recipe: str) -> "RunFolder":
        """The run of another recipe with the same seed, below the same folder."""
        return RunFolder(self.path.parents[1] / recipe / self.path.name)

    @classmethod
    def below(cls, folder: Path | str) -> "list[RunFolder]":
        """Every run below a folder, in the order of their names."""
        return [cls(path.parent) for path in sorted(Path(folder).rglob(RECIPE))]

    @property
    def log_file(self) -> Path:
        """Where a process that trains this run in the background writes what it says."""
        return self.path / "log.txt"

    @property
    def tensorboard(self) -> Path:
        """Where TensorBoard's events are."""
        return self.path / "tensorboard"

    def last_log_line(self) -> str:
        """The last line of the log that says something; empty where there is none."""
        text = self.log_file.read_text(errors="replace") if self.log_file.exists() else ""
        return next((line for line in reversed(text.splitlines()) if line.strip()), "")

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return (self.path / "done").exists()

    @property
    def begun(self) -> bool:
        """Whether there is a run here, finished or not."""
        return (self.path / RECIPE).exists()

    def start(self, recipe: dict[str, Any], about: dict[str, Any]) -> None:
        """Write `recipe.json`, first of all; a folder with another recipe is left alone."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.begun:
                different = differences(self.recipe(), recipe)
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
        """`recipe.json`: the settings, versions, commit and machine."""
        return self._read_json(RECIPE)

    def write_splits(self, splits: dict[str, Any]) -> None:
        """Which images were trained, validated and tested on."""
        self._write_json("splits.json", splits)

    def write_noise(self, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """How labels were made wrong; a run that goes on with other noise is refused."""
        if (self.path / "noise.json").exists() and self._read_json("noise.json")["matrix"] != facts["matrix"]:
            raise FolderError(
                f"{self.path} holds a run with another noise matrix, so its file changed: give another --out, or "
                "delete that folder."
            )
        self.write_outputs(arrays, "noise")
        self._write_json("noise.json", facts)

    def noise(self) -> dict[str, Any]:
        """`noise.json`; empty where there is none."""
        return self._read_json("noise.json") if (self.path / "noise.json").exists() else {}

    def log(self, record: dict[str, Any]) -> None:
        """Add a line to `metrics.jsonl`."""
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """The epochs so far; a last line that was cut short is not one."""
        return list(read_json_lines(self.path / "metrics.jsonl"))

    def keep_epochs(self, epochs: int) -> None:
        """Forget records of epochs from this one on, which a resumed run will write again."""
        kept = [record for record in self.metrics() if record["epoch"] < epochs]
        if (self.path / "metrics.jsonl").exists():
            self._write("metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept).encode())

    def save(self, state: dict[str, Any]) -> None:
        """Write a checkpoint; the one before it stays as `checkpoint-before.pt`.

        Bytes count as a checkpoint when any of the sums beside them is theirs, so at every moment of these renames
        there is one to go on from.
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
        """The newest checkpoint whose bytes are what was written; None where there is none."""
        paths = [self.path / name for name in (NEW, CHECKPOINT, BEFORE)]
        sums = {_sum_of(path).read_text().strip() for path in paths if _sum_of(path).exists()}
        contents = [path.read_bytes() for path in paths if path.exists()]
        states = [unpack(data) for data in contents if hashlib.sha256(data).hexdigest() in sums]
        return max(states, key=lambda state: int(state["epoch"]), default=None)

    def save_best(self, state: dict[str, Any]) -> None:
        """Keep the weights that were best on validation."""
        data = pack(state)
        self._write(BEST, data)

    def load_best(self) -> dict[str, Any]:
        """Those weights."""
        return unpack((self.path / BEST).read_bytes())

    def splits(self) -> dict[str, Any]:
        """`splits.json`; empty where there is none."""
        return self._read_json("splits.json") if (self.path / "splits.json").exists() else {}

    def class_names(self) -> tuple[str, ...]:
        """Of the data that the run was trained on."""
        return tuple(str(name) for name in self.splits().get("class_names", ()))

    def write_outputs(self, arrays: dict[str, Any], name: str = "test") -> None:
        """Keep what the model says of some images: see `training.validation`."""
        import numpy as np

        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        self._write(f"{name}.npz", buffer.getvalue())

    def outputs(self, name: str = "test") -> dict[str, Any] | None:
        """Those arrays; None where there are none, or where they cannot be read."""
        import numpy as np

        try:
            with np.load(self.path / f"{name}.npz", allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError):
            return None

    def finish(self, weights: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the model, the result, and last `done`."""
        from safetensors.torch import save

        self._write("model.safetensors", save(weights))
        self._write_json("result.json", result)
        self._write("done", b"")
        (self.path / "error.json").unlink(missing_ok=True)

    def fail(self, sentence: str) -> None:
        """Say on disk why the run stopped."""
        self._write_json("error.json", {"error": sentence})

    def error(self) -> str | None:
        """Why the run stopped, if it did."""
        path = self.path / "error.json"
        return str(json.loads(path.read_text())["error"]) if path.exists() and not self.done else None

    def result(self) -> dict[str, Any]:
        """The final numbers, and those of all further measures."""
        numbers = self._read_json("result.json")
        for file in sorted((self.path / "measures").glob("*.json")):
            numbers |= self._read_json(f"measures/{file.name}")["numbers"]
        return numbers

    def write_measure(self, name: str, content: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Keep a further measure: `content` has its `numbers`, by name. The arrays come first: a `.json` is whole."""
        (self.path / "measures").mkdir(exist_ok=True)
        self.write_outputs(arrays, f"measures/{name}")
        self._write_json(f"measures/{name}.json", content)

    def has_measure(self, name: str) -> bool:
        """Whether it was taken."""
        return (self.path / "measures" / f"{name}.json").exists()

    def measure(self, name: str) -> dict[str, Any]:
        """What `write_measure` was given as content."""
        return self._read_json(f"measures/{name}.json")

    def measure_arrays(self, name: str) -> dict[str, Any]:
        """The arrays behind a measure; empty where there are none."""
        return self.outputs(f"measures/{name}") or {}

    def write_part(self, name: str, arrays: dict[str, Any]) -> None:
        """Keep what there is of a measure that is under way, to go on from."""
        (self.path / "measures").mkdir(exist_ok=True)
        self.write_outputs(arrays, f"measures/{name}.part")

    def part(self, name: str) -> dict[str, Any] | None:
        """That; None where there is none."""
        return self.outputs(f"measures/{name}.part")

    def drop_part(self, name: str) -> None:
        """Forget it: the measure is whole."""
        (self.path / "measures" / f"{name}.part.npz").unlink(missing_ok=True)

    def weights(self) -> dict[str, Any]:
        """The final model's state dict."""
        from safetensors.torch import load_file

        return load_file(self.path / "model.safetensors")

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
    """The measure that a number of a run belongs to, as `RunFolder.measure` takes it.

    Example:
        >>> measure_name("episodes/5-way-1-shot")
        'episodes-5-way-1-shot'
    """
    return metric.replace("/", "-", 1)


def _sum_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
