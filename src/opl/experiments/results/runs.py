"""The only scan of the disk: every run below a folder as a value. What cannot be read is said, never raised."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...errors import OplError
from ..item import Row
from ..run_folder import RECIPE, RunFolder, measure_name

BROKEN = (OplError, OSError, ValueError, LookupError, TypeError, AttributeError)
SENTENCE = 600  # characters of an error that are shown
UNREADABLE = "{} cannot be read: delete the folder and run again."

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One run: what it was, how far it came, and its numbers."""

    folder: RunFolder
    where: str
    """Its place below the folder that was scanned."""
    state: str
    """done, failed, unfinished or damaged."""
    sentence: str
    """Why it failed, or how far it is."""
    about: dict[str, Any]
    recipe: dict[str, Any]
    records: list[dict[str, Any]]
    result: dict[str, Any]
    _cache: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Of its recipe."""
        return str(self.recipe.get("name", ""))

    @property
    def seed(self) -> int:
        """Of its recipe."""
        seed = self.recipe.get("seed", 0)
        return seed if isinstance(seed, int) else 0

    @property
    def scale(self) -> str:
        """Of its recipe."""
        return str(self.recipe.get("scale", ""))

    @property
    def method(self) -> dict[str, Any]:
        """The settings of its method."""
        return inner(self.recipe, "method")

    @property
    def opl(self) -> dict[str, Any] | None:
        """The settings of OPL in its loss; None where it has none."""
        return inner(self.about, "opl") or None

    @property
    def projects(self) -> bool:
        """Whether OPL is a part of its loss."""
        return self.opl is not None

    @property
    def baseline_method(self) -> dict[str, Any]:
        """The settings of its method without OPL; the method itself where the run does not say."""
        return inner(self.about, "baseline") or self.method

    @property
    def seconds(self) -> float:
        """What its epochs took."""
        each = [number(record.get("seconds")) for record in self.records]
        whole = number(self.result.get("seconds"))
        return whole if math.isfinite(whole) else sum(value for value in each if math.isfinite(value))

    def arrays(self, name: str = "test") -> dict[str, Any]:
        """What the model said of the test images, or of others by name; empty where nothing readable was kept."""
        return self._once("arrays", name, lambda: self.folder.outputs(name) or {}, {})

    def measure_arrays(self, metric: str) -> dict[str, Any]:
        """The arrays behind a number of a further measure; empty where it was not measured."""
        return self._once("measure", metric, lambda: self.folder.measure_arrays(measure_name(metric)), {})

    def class_names(self, count: int) -> tuple[str, ...]:
        """The names of `count` classes; where the run has not as many, their numbers."""
        nobody: tuple[str, ...] = ()
        names = self._once("splits", "class names", self.folder.class_names, nobody)
        return names[:count] if len(names) >= count else tuple(f"class {place}" for place in range(count))

    def superclasses(self, count: int) -> tuple[int, ...]:
        """The super-class of each of `count` classes; empty where that is not known."""
        nothing: dict[str, Any] = {}
        found = self._once("splits", "groups", self.folder.splits, nothing).get("groups")
        if not isinstance(found, list) or len(found) < count or not all(isinstance(each, int) for each in found):
            return ()
        return tuple(found[:count])

    def _once(self, kind: str, name: str, read: Callable[[], T], otherwise: T) -> T:
        """What `read` returns, which is read at most once."""
        if (kind, name) not in self._cache:
            self._cache[kind, name] = _or(read, otherwise)
        content: T = self._cache[kind, name]
        return content


Rows = Sequence[tuple[Row, Sequence[Run]]]
"""Rows of a table or figure, each with finished runs of it, by seed, at least one."""


def read_runs(folder: Path | str) -> list[Run]:
    """Every run below a folder, in the order of their places."""
    return [_read(each, each.path.relative_to(folder).as_posix()) for each in RunFolder.below(folder)]


def select_runs(runs: Iterable[Run], recipe: str, scale: str) -> list[Run]:
    """The finished runs of a recipe at a scale, by seed."""
    here = [run for run in runs if run.state == "done" and run.name == recipe and run.scale == scale]
    return sorted(here, key=lambda run: run.seed)


def describe_seeds(seeds: Sequence[int]) -> str:
    """What a number over some seeds is.

    Example:
        >>> describe_seeds([0, 1]), describe_seeds([4])
        ('mean of 2 seeds', 'seed 4')
    """
    return f"mean of {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"


def number(value: object) -> float:
    """A number from a file, or NaN.

    Example:
        >>> number("12"), number(True), number(3)
        (nan, nan, 3.0)
    """
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def inner(outer: dict[str, Any], name: str) -> dict[str, Any]:
    """A dict inside another; empty where there is none."""
    found = outer.get(name)
    return found if isinstance(found, dict) else {}


def _read(folder: RunFolder, where: str) -> Run:
    nothing: list[dict[str, Any]] = []
    try:
        about = folder.about()
        recipe = dict(about["recipe"])
    except BROKEN:
        return Run(folder, where, "damaged", UNREADABLE.format(RECIPE), {}, {}, [], {})
    records = [record for record in _or(folder.metrics, nothing) if isinstance(record, dict)]
    state, sentence, result = _state(folder, f"{len(records)} of {recipe.get('epochs', '?')} epochs are done.")
    return Run(folder, where, state, sentence[:SENTENCE], about, recipe, records, result)


def _state(folder: RunFolder, so_far: str) -> tuple[str, str, dict[str, Any]]:
    """How a run ended, what is to be said of it, and its result."""
    if folder.done:
        result = _or(folder.result, None)
        return ("done", "", result) if isinstance(result, dict) else ("damaged", UNREADABLE.format("result.json"), {})
    error: str | None = "it failed, and error.json cannot be read."
    error = _or(folder.error, error)
    return ("failed", error, {}) if error else ("unfinished", so_far, {})


def _or(call: Callable[[], T], otherwise: T) -> T:
    try:
        return call()
    except BROKEN:
        return otherwise
