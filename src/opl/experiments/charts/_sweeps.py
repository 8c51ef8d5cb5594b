"""Sweeps and grids: runs that differ only in OPL's weight, its gamma or the batch size."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...errors import OptionError
from ..results.runs import Run, inner, number
from .style import Array

SETTINGS = {
    "weight": "weight λ",
    "gamma": "γ",
    "batch size": "batch size, constant learning rate",
    "scaled batch size": "batch size, learning rate in proportion",
}
"""The settings that may be varied, and their names on axes; the batch size by two rules for the learning rate."""
WORDS = ("weight λ", "γ", "batch size")
WEIGHT, GAMMA, BATCH = range(len(WORDS))
IGNORED = {"name", "seed", "batch_size", "method", "log", "devices", "nodes"}  # recipe fields left out of `rest`
LABELS = {"CrossEntropy": "CE"}


@dataclass(frozen=True)
class Sweep:
    """The results of one method for each value of one setting.

    Args:
        label: name of the method, for example "CE+OPL".
        setting: name of the varied setting, for example "lambda" or "batch size".
        xs: its values, all above zero because the axis is logarithmic.
        values: for each of `xs`, one result per seed.
        baseline: one result per seed of a method without that setting, or None.
    """

    label: str
    setting: str
    xs: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    baseline: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not self.xs or len(self.xs) != len(self.values):
            raise OptionError(
                f"the sweep of {self.label!r} has {len(self.xs)} values of {self.setting} and results for "
                f"{len(self.values)}: give results for each value, and at least one."
            )
        wrong = [x for x in self.xs if not (x > 0 and math.isfinite(x))]
        if wrong:
            raise OptionError(
                f"{self.setting} {wrong[0]} has no place on a logarithmic axis: give values above 0, and a method "
                "without the setting as the baseline."
            )


class Grid(NamedTuple):
    """The mean results of one method, (weights, gammas); NaN for a pair that was not run."""

    weights: tuple[float, ...]
    gammas: tuple[float, ...]
    means: Array


class Settings(NamedTuple):
    """The settings of a run except its seed: those that may be varied, and all others."""

    method: str
    """Class name of the method without OPL."""
    rest: str
    """The method without OPL and the rest of the recipe, as JSON."""
    projection: str | None
    """OPL's settings other than weight and gamma; None for a run without OPL."""
    varied: tuple[float, ...]
    """One value for each of `WORDS`; weight and gamma are 0 in a run without OPL."""
    lr: float
    """The base learning rate; 0 if it is not known."""

    @property
    def label(self) -> str:
        """Name of the method in labels."""
        return LABELS.get(self.method, self.method) + ("" if self.projection is None else "+OPL")

    def without(self, *places: int) -> "Settings":
        """The same settings with those at `places` set to 0, so that runs that differ only in them are equal."""
        return self._replace(varied=tuple(0.0 if i in places else value for i, value in enumerate(self.varied)))

    def per_image(self) -> "Settings":
        """The same settings with the learning rate divided by the batch size."""
        return self._replace(lr=self.lr / self.varied[BATCH])

    def baseline(self) -> "Settings":
        """The same settings without OPL."""
        return self._replace(projection=None).without(WEIGHT, GAMMA)


Values = dict[float, tuple[float, ...]]


def settings(run: Run) -> Settings:
    """The settings of a run."""
    opl = run.opl or {}
    others = {key: value for key, value in run.recipe.items() if key not in IGNORED}
    optimizer = inner(run.recipe, "optimizer")
    others["optimizer"] = {key: value for key, value in optimizer.items() if key != "lr"}
    lr = number(optimizer.get("lr", 0.0))
    rest = json.dumps([run.baseline_method, others], sort_keys=True, default=str)
    more = [f"{key} {value}" for key, value in sorted(opl.items()) if key not in ("kind", "weight", "gamma")]
    weight, gamma = (number(opl.get(key)) if run.projects else 0.0 for key in ("weight", "gamma"))
    varied = (weight, gamma, number(run.recipe.get("batch_size")))
    form = ", ".join(more) if run.projects else None
    return Settings(str(run.baseline_method.get("kind", "")), rest, form, varied, lr)


def sweeps(runs: Iterable[Run], metric: str = "test/top1") -> dict[str, list[Sweep]]:
    """The sweeps over each setting that is varied: one per choice of the other settings, with at least two values.

    The baseline of a sweep is the method without OPL in the same recipe. In a sweep over the batch size, which the
    baseline also has, the baseline is a separate sweep, even if it has only one value; runs of one sweep have equal
    learning rates, or ones in proportion to the batch size.
    """
    found = _results(runs, metric)
    scaled = {key.per_image(): values for key, values in found.items() if key.varied[BATCH] > 0 and key.lr > 0}
    places = zip(SETTINGS, (WEIGHT, GAMMA, BATCH, BATCH), (found, found, found, scaled), strict=True)
    made = {name: _sweeps(values, place, SETTINGS[name]) for name, place, values in places}
    return {name: some for name, some in made.items() if some}


def grids(runs: Iterable[Run], metric: str = "test/top1") -> list[Grid]:
    """The mean results over weight and gamma, where both have at least two values."""
    tables: dict[Settings, dict[tuple[float, float], tuple[float, ...]]] = defaultdict(dict)
    for key, values in _results(runs, metric).items():
        if key.varied[WEIGHT] > 0:
            tables[key.without(WEIGHT, GAMMA)][key.varied[WEIGHT], key.varied[GAMMA]] = values
    made = []
    for cells in tables.values():
        weights, gammas = (tuple(sorted({pair[place] for pair in cells})) for place in (WEIGHT, GAMMA))
        if len(weights) > 1 and len(gammas) > 1:
            means = [[float(np.mean(cells.get((w, g), (math.nan,)))) for g in gammas] for w in weights]
            made.append(Grid(weights, gammas, np.array(means)))
    return made


def _results(runs: Iterable[Run], metric: str) -> dict[Settings, tuple[float, ...]]:
    """The metric of each run, grouped over runs that differ only in the seed."""
    found: dict[Settings, list[float]] = defaultdict(list)
    for run in runs:
        value = number(run.result.get(metric))
        if math.isfinite(value):
            found[settings(run)].append(value)
    return {key: tuple(values) for key, values in found.items()}


def _sweeps(found: dict[Settings, tuple[float, ...]], place: int, name: str) -> list[Sweep]:
    alike: dict[Settings, Values] = defaultdict(dict)
    for key, values in found.items():
        if key.varied[place] > 0:
            alike[key.without(place)][key.varied[place]] = values
    several = {key: reached for key, reached in alike.items() if len(reached) > 1}
    if place == BATCH:
        beside = {key.baseline() for key in several}
        several |= {key: reached for key, reached in alike.items() if key in beside}
    made = []
    for key, reached in sorted(several.items(), key=lambda each: each[0].projection is not None):
        xs = tuple(sorted(reached))
        base = None if place == BATCH else found.get(key.baseline())
        made.append(Sweep(_label(key, tuple(several)), name, xs, tuple(reached[x] for x in xs), base))
    return made


def _label(key: Settings, several: Sequence[Settings]) -> str:
    """The method, and the settings that distinguish this sweep from others of the same method."""
    alike = [each for each in several if each.label == key.label]
    apart = [
        f"{word} {key.varied[place]:g}"
        for place, word in enumerate(WORDS)
        if len({each.varied[place] for each in alike}) > 1
    ]
    forms = [key.projection] if key.projection and len({each.projection for each in alike}) > 1 else []
    return ", ".join([key.label, *apart, *forms])
