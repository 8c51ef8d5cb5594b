"""Runs as they lie on disk, whole or not: what cannot be read is said, never raised."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...errors import OplError
from ..run_folder import RunFolder, find_runs

BROKEN = (OplError, OSError, ValueError, LookupError, TypeError, AttributeError)
SENTENCE = 600  # characters of an error that are shown
UNREADABLE = "{} cannot be read: delete the folder and run again."

T = TypeVar("T")


@dataclass(frozen=True)
class Run:
    """One run: what it was, how far it came, and its numbers."""

    folder: RunFolder
    where: str
    """Its place below the folder that is reported on."""
    state: str
    """done, failed, unfinished or damaged."""
    sentence: str
    """Why it failed, or how far it is."""
    about: dict[str, Any]
    recipe: dict[str, Any]
    records: list[dict[str, Any]]
    result: dict[str, Any]

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
    def projects(self) -> bool:
        """Whether OPL is a part of its loss."""
        beside = self.method.get("auxiliary")
        parts = [self.method, *(beside if isinstance(beside, list) else [])]
        return any(isinstance(each, dict) and "OPL" in str(each.get("kind", "")) for each in parts)

    @property
    def seconds(self) -> float:
        """What its epochs took."""
        each = [number(record.get("seconds")) for record in self.records]
        whole = number(self.result.get("seconds"))
        return whole if math.isfinite(whole) else sum(value for value in each if math.isfinite(value))


def read_runs(folder: Path) -> list[Run]:
    """Every run below a folder."""
    return [_read(each, each.path.relative_to(folder).as_posix()) for each in find_runs(folder)]


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


def class_names(run: Run, count: int) -> tuple[str, ...]:
    """The names of `count` classes; where the run has not as many, their numbers."""
    nobody: tuple[str, ...] = ()
    names = _or(run.folder.class_names, nobody)
    return names[:count] if len(names) >= count else tuple(f"class {place}" for place in range(count))


def groups(run: Run, count: int) -> tuple[int, ...]:
    """The super-class of each of `count` classes; empty where that is not known."""
    nothing: dict[str, Any] = {}
    found = _or(run.folder.splits, nothing).get("groups")
    if not isinstance(found, list) or len(found) < count or not all(isinstance(each, int) for each in found):
        return ()
    return tuple(found[:count])


def outputs(run: Run, name: str = "test") -> dict[str, Any]:
    """What the model said of the test images, as arrays; empty where nothing was kept."""
    return _or(lambda: run.folder.outputs(name), None) or {}


def _read(folder: RunFolder, where: str) -> Run:
    nothing: list[dict[str, Any]] = []
    try:
        about = folder.about()
        recipe = dict(about["recipe"])
    except BROKEN:
        return Run(folder, where, "damaged", UNREADABLE.format("recipe.json"), {}, {}, [], {})
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
