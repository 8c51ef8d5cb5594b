"""The only scan of the disk: every run below a folder as a value. Unreadable files are reported, never raised."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import OplError
from ..item import Row
from ..run_folder import RECIPE, RunFolder, measure_name
from .portable import portable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BROKEN = (OplError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError)
REFUSED = "refused"  # the state of a run that must not be compared, see `conformity`
DAMAGED = "damaged"  # the state of a run with files that changed after the run wrote them
LONGEST = 1e9  # seconds of a training
SENTENCE = 600  # characters of an error message that are shown

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One run: its recipe, its state and its numbers."""

    folder: RunFolder
    where: str
    """Path relative to the scanned folder."""
    state: str
    """`done`, `failed`, `unfinished`, `damaged` or, for incomparable runs, `refused` (see `conformity`)."""
    sentence: str
    """Why the run failed or cannot be read, or how many epochs it has completed; empty if it is done."""
    about: dict[str, Any]
    recipe: dict[str, Any]
    records: list[dict[str, float]]
    """The numbers of each epoch, from `metrics.jsonl`."""
    result: dict[str, Any]
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return str(self.recipe.get("name", ""))

    @property
    def seed(self) -> int:
        """Random seed of the recipe."""
        seed = self.recipe.get("seed", 0)
        return seed if isinstance(seed, int) else 0

    @property
    def scale(self) -> str:
        """Scale of the recipe."""
        return str(self.recipe.get("scale", ""))

    @property
    def method(self) -> dict[str, Any]:
        """Settings of the method."""
        return inner(self.recipe, "method")

    @property
    def opl(self) -> dict[str, Any] | None:
        """Settings of OPL in the loss; None for a loss without OPL."""
        return inner(self.about, "opl") or None

    @property
    def projects(self) -> bool:
        """Whether OPL is part of the loss."""
        return self.opl is not None

    @property
    def baseline_method(self) -> dict[str, Any]:
        """Settings of the method without OPL; the method itself if the run does not record them."""
        return inner(self.about, "baseline") or self.method

    @property
    def seconds(self) -> float:
        """Training time in seconds: from the result if it has one, otherwise summed over the epochs."""
        whole = number(self.result.get("seconds"))
        if 0 <= whole <= LONGEST:
            return whole
        epochs = (record.get("seconds", math.nan) for record in self.records)
        return math.fsum(seconds for seconds in epochs if 0 <= seconds <= LONGEST)

    def column(self, name: str) -> "NDArray[np.float64]":
        """A number of every epoch; NaN for epochs without it."""
        import numpy as np

        return np.array([record.get(name, math.nan) for record in self.records], dtype=np.float64)

    def arrays(self, name: str = "test") -> dict[str, Any]:
        """Model outputs on the test images, or on another set of images by name; empty if none can be read."""
        return self._once("arrays", name, lambda: self.folder.outputs(name) or {}, {})

    def measure(self, name: str) -> dict[str, Any]:
        """A measure of `opl evaluate`: its numbers and settings; empty if it was not taken."""
        return self._once(
            "content", name, lambda: self.folder.measure(name) if self.folder.has_measure(name) else {}, {}
        )

    def measure_arrays(self, metric: str) -> dict[str, Any]:
        """The arrays behind a metric of `opl evaluate`; empty if it was not evaluated."""
        return self._once("measure", metric, lambda: self.folder.measure_arrays(measure_name(metric)), {})

    def splits(self) -> dict[str, Any]:
        """Which images were in which part; empty if unknown."""
        return self._once("splits", "splits", self.folder.splits, {})

    def noise(self) -> dict[str, Any]:
        """How labels were corrupted; empty for a run without label noise."""
        return self._once("noise", "noise", self.folder.noise, {})

    def weights_sum(self) -> str:
        """The SHA-256 of the weights, which identifies copied runs; empty if the run is not finished."""
        return self._once("sums", "weights", self.folder.weights_sum, "")

    def class_names(self, count: int) -> tuple[str, ...]:
        """Names of the first `count` classes; `class 0`, `class 1`, ... if the run has fewer names."""
        unnamed: tuple[str, ...] = ()
        names = self._once("splits", "class names", self.folder.class_names, unnamed)
        return names[:count] if len(names) >= count else tuple(f"class {index}" for index in range(count))

    def superclasses(self, count: int) -> tuple[int, ...]:
        """Superclass of each of the first `count` classes; empty if unknown."""
        groups = self.splits().get("groups")
        if not isinstance(groups, list) or len(groups) < count or not all(isinstance(group, int) for group in groups):
            return ()
        return tuple(groups[:count])

    def _once(self, kind: str, name: str, read: Callable[[], T], otherwise: T) -> T:
        """The result of `read`, or `otherwise` if it fails; called at most once and cached."""
        if (kind, name) not in self._cache:
            self._cache[kind, name] = _or(read, otherwise)
        content: T = self._cache[kind, name]
        return content


Rows = Sequence[tuple[Row, Sequence[Run]]]
"""Rows of a table or figure, each with at least one finished run, sorted by seed."""


def read_runs(folder: Path | str) -> list[Run]:
    """Read every run below a folder, sorted by path."""
    return [_read(run, run.path.relative_to(folder).as_posix()) for run in RunFolder.below(folder)]


def select_runs(runs: Iterable[Run], recipe: str, scale: str) -> list[Run]:
    """The finished runs of a recipe at a scale, sorted by seed."""
    here = [run for run in runs if run.state == "done" and run.name == recipe and run.scale == scale]
    return sorted(here, key=lambda run: run.seed)


def describe_seeds(seeds: Sequence[int]) -> str:
    """Describe which seeds a number is computed from.

    Example:
        >>> describe_seeds([0, 1]), describe_seeds([4])
        ('mean of 2 seeds', 'seed 4')
    """
    return f"mean of {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"


def list_seeds(seeds: Iterable[int]) -> str:
    """Name seeds, with ranges.

    Example:
        >>> list_seeds([2, 0, 1, 7]), list_seeds([4])
        ('seeds 0 to 2, 7', 'seed 4')
    """
    known = set(seeds)
    starts = sorted(seed for seed in known if seed - 1 not in known)
    ends = sorted(seed for seed in known if seed + 1 not in known)
    parts = [str(low) if low == high else f"{low} to {high}" for low, high in zip(starts, ends, strict=True)]
    return f"{'seed' if len(known) == 1 else 'seeds'} {', '.join(parts)}"


def number(value: object) -> float:
    """A value read from a file as a float; NaN if it is not a number.

    Example:
        >>> number("12"), number(True), number(3)
        (nan, nan, 3.0)
    """
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def inner(outer: dict[str, Any], name: str) -> dict[str, Any]:
    """A nested dict; empty if there is none."""
    value = outer.get(name)
    return value if isinstance(value, dict) else {}


def _numbers(record: dict[str, Any]) -> dict[str, float]:
    """The entries of a record that are numbers a float can hold."""
    floats = {}
    for name, value in record.items():
        try:
            floats[name] = number(value)
        except OverflowError:  # an integer above the largest float
            continue
    return {name: value for name, value in floats.items() if not math.isnan(value)}


def _read(folder: RunFolder, where: str) -> Run:
    """Read a run after verifying all its files except the weights; a damaged run has no numbers."""
    about: dict[str, Any] = {}
    about = portable(_or(folder.about, about))
    recipe = inner(about, "recipe")
    faults = _or(folder.faults_of_numbers, {"the folder": "cannot be read"})
    if faults or not recipe:
        files = "; ".join(f"{name} {fault}" for name, fault in faults.items()) or f"{RECIPE} has no settings"
        return Run(folder, where, DAMAGED, portable(files)[:SENTENCE], about, recipe or _by_path(folder), [], {})
    try:
        records = [_numbers(record) for record in folder.iterate_metrics()]
        state, sentence, result = _state(folder, f"{len(records)} of {recipe.get('epochs', '?')} epochs are done.")
    except BROKEN as error:
        sentence = str(error).replace(str(folder.path), where)
        return Run(folder, where, DAMAGED, portable(sentence)[:SENTENCE], about, recipe, [], {})
    return Run(folder, where, state, portable(sentence)[:SENTENCE], about, recipe, records, portable(result))


def _state(folder: RunFolder, so_far: str) -> tuple[str, str, dict[str, Any]]:
    """State, sentence and result of a run."""
    if folder.done:
        return "done", "", folder.result()
    error: str | None = "the run failed, and error.json cannot be read."
    error = _or(folder.error, error)
    return ("failed", error, {}) if error else ("unfinished", so_far, {})


def _by_path(folder: RunFolder) -> dict[str, Any]:
    """The name and the seed of a run whose settings are lost, so that its row reports it as missing."""
    seed = folder.path.name.removeprefix("seed-")
    return {"name": folder.path.parent.name, "seed": int(seed) if seed.isdecimal() else 0}


def _or(call: Callable[[], T], otherwise: T) -> T:
    try:
        return call()
    except BROKEN:
        return otherwise
