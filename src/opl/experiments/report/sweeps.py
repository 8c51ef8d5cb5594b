"""Accuracy over the settings of the loss and the batch size, wherever the runs differ in nothing else."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..figures.search import Sweep, heat, page
from ..results.runs import Run, number
from .charts import Charts
from .groups import Group, badge
from .markup import Markup, join, no_break, tag

NAMES = {"weight": "weight λ", "gamma": "γ", "batch": "batch size"}
IGNORED = {"name", "seed", "batch_size", "method", "log", "devices", "nodes"}
LEAD = "Means over the seeds with 95 % intervals. The baseline is cross-entropy alone, trained in the same way."


class Settings(NamedTuple):
    """What may be varied, and everything else; 0 where a method has no such setting."""

    label: str
    rest: str
    weight: float
    gamma: float
    batch: float


Points = dict[Settings, tuple[float, ...]]


def section(groups: Sequence[Group], charts: Charts) -> Markup | None:
    """Charts for each group whose runs vary a setting."""
    parts = [part for group in groups if (part := _article(group, charts))]
    return join(tag("p", LEAD, class_="lead"), *parts) if parts and charts.library else None


def points(group: Group, metric: str) -> Points:
    """A number for each finished run, those that differ in nothing but the seed together."""
    found: dict[Settings, list[float]] = defaultdict(list)
    for run in (run for row in group.rows for run in group.finished(row)):
        value = number(run.result.get(metric))
        if math.isfinite(value):
            found[settings(run)].append(value)
    return {key: tuple(values) for key, values in found.items()}


def settings(run: Run) -> Settings:
    """Those of a run."""
    kind = str(run.method.get("kind", ""))
    projects = "OPL" in kind  # where OPL is beside another method, the weight is not the method's
    label = "CE+OPL" if projects else "CE" if kind == "CrossEntropy" else kind
    varied = ("weight", "gamma") if projects else ()
    method = {key: value for key, value in run.method.items() if key not in varied}
    others = {key: value for key, value in run.recipe.items() if key not in IGNORED}
    plain = label in ("CE", "CE+OPL")  # so that a baseline is found by the rest of its recipe
    rest = json.dumps([None if plain else method, others], sort_keys=True, default=str)
    weight, gamma = (number(run.method.get(key)) if projects else 0.0 for key in ("weight", "gamma"))
    return Settings(label, rest, weight, gamma, number(run.recipe.get("batch_size")))


def sweeps(found: Points, name: str) -> list[Sweep]:
    """A sweep over one setting for each choice of the others that has at least two values of it."""
    alike: dict[Settings, dict[float, tuple[float, ...]]] = defaultdict(dict)
    for key, values in found.items():
        if getattr(key, name) > 0:
            alike[_without(key, name)][getattr(key, name)] = values
    several = {key: reached for key, reached in alike.items() if len(reached) > 1}
    made = []
    for key, reached in several.items():
        xs = tuple(sorted(reached))
        base = None if name == "batch" else found.get(Settings("CE", key.rest, 0.0, 0.0, key.batch))
        made.append(Sweep(_label(key, several), NAMES[name], xs, tuple(reached[x] for x in xs), base))
    return made


def _without(key: Settings, *names: str) -> Settings:
    nothing: dict[str, Any] = dict.fromkeys(names, 0.0)
    return key._replace(**nothing)


def _label(key: Settings, several: Iterable[Settings]) -> str:
    """The method, and what tells its sweep from others of that method."""
    own = [each for each in several if each.label == key.label]
    apart = [name for name in NAMES if len({getattr(each, name) for each in own}) > 1]
    return ", ".join([key.label, *(f"{NAMES[name]} {getattr(key, name):g}" for name in apart)])


def _article(group: Group, charts: Charts) -> Markup | None:
    if not group.item.metrics:
        return None
    metric, words = next(iter(group.item.metrics.items()))
    found = points(group, metric)
    drawn = _heats(found, words, charts)
    for name in ("weight", "batch") if drawn else NAMES:
        lines = sweeps(found, name)
        if lines:
            spec = page(lines, NAMES[name], words)
            del spec["layout"]["yaxis"]["title"]  # the caption says it
            drawn.append(_figure(f"{words} over {NAMES[name]}", spec, charts))
    if not drawn:
        return None
    return tag("article", tag("h3", no_break(group.title)), badge(group.scale), tag("div", *drawn, class_="grid two"))


def _heats(found: Points, words: str, charts: Charts) -> list[Markup]:
    tables: dict[Settings, dict[tuple[float, float], tuple[float, ...]]] = defaultdict(dict)
    for key, values in found.items():
        if key.weight > 0:
            tables[_without(key, "weight", "gamma")][key.weight, key.gamma] = values
    made = []
    for cells in tables.values():
        weights, gammas = (sorted({pair[place] for pair in cells}) for place in (0, 1))
        if len(weights) > 1 and len(gammas) > 1:
            means = [[float(np.mean(cells.get((w, g), (math.nan,)))) for g in gammas] for w in weights]
            spec = heat(weights, gammas, np.array(means), (NAMES["weight"], NAMES["gamma"]))
            made.append(_figure(f"{words} over weight λ and γ", spec, charts))
    return made


def _figure(title: str, spec: dict[str, Any], charts: Charts) -> Markup:
    return tag("figure", tag("figcaption", title), charts.draw(spec, title))
