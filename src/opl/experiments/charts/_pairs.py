"""Rows of a table against their baselines: paired differences seed by seed, decided together."""

from typing import NamedTuple

from ..item import Row
from ..results.comparisons import PERCENT
from ..results.runs import Rows, Run, number
from ..statistics import Decision, Interval, decide, interval


class Pairs(NamedTuple):
    """What a row differs by from its baseline."""

    row: Row
    runs: list[Run]
    pairs: tuple[float, ...]
    """The difference of each seed that both have."""
    difference: Interval
    decision: Decision


def paired(rows: Rows, metric: str) -> list[Pairs]:
    """The rows that have a baseline, with their differences in a metric, in percentage points."""
    by_recipe = {row.recipe: {run.seed: number(run.result.get(metric)) for run in runs} for row, runs in rows}
    found = []
    for row, runs in rows:
        own, base = by_recipe[row.recipe], by_recipe.get(row.baseline, {})
        if row.baseline:
            found.append((row, list(runs), tuple(own[seed] - base[seed] for seed in own if seed in base)))
    differences = [interval(pairs, within=PERCENT.of_differences) for _, _, pairs in found]
    decisions = decide(differences, [pairs for _, _, pairs in found])
    return [
        Pairs(*each, difference, decision)
        for each, difference, decision in zip(found, differences, decisions, strict=True)
    ]
