"""Differences between runs that answered the same episodes (or images), one by one: over those, not over seeds.

Two seeds tell little of other seeds, but three thousand episodes tell whether *these* networks differ. Each episode's
difference is averaged over the seeds that both rows have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import FolderError
from ..run_folder import RunFolder, find_runs
from ..statistics import Interval, interval
from ..tables import Item, Row


class Comparison(NamedTuple):
    """The difference of a row to its baseline in one number of the table."""

    label: str
    baseline: str
    metric: str
    seeds: tuple[int, ...]
    difference: Interval
    unit: str = "episodes"


Runs = Mapping[tuple[str, int], RunFolder]
"""Finished runs, by recipe and seed."""


def runs_below(folder: Path, scale: str) -> dict[tuple[str, int], RunFolder]:
    """The finished runs of a scale, damaged ones left out."""
    found = {}
    for run in find_runs(folder):
        try:
            recipe = run.recipe()
        except FolderError:
            continue
        if run.done and recipe["scale"] == scale:
            found[str(recipe["name"]), int(recipe["seed"])] = run
    return found


def compare(item: Item, scale: str, runs: Runs) -> list[Comparison]:
    """Every row with a baseline, in every compared number that has a value for each episode."""
    labels = {row.recipe: row.label for row in item.rows}
    found = []
    for row in item.at(scale):
        seeds = sorted({seed for recipe, seed in runs if recipe == row.recipe})
        for name in item.main if row.baseline else ():
            differences = {seed: _difference(row, name, runs, seed) for seed in seeds}
            there = {seed: each for seed, each in differences.items() if each is not None}
            if there:
                means = np.mean(list(there.values()), axis=0).tolist()
                names = (row.label, labels[row.baseline], item.metrics[name])
                found.append(Comparison(*names, tuple(there), interval(means), item.unit))
    return found


def describe_comparison(each: Comparison) -> str:
    """One line."""
    difference = each.difference
    return (
        f"{each.label} against {each.baseline}, {each.metric}, over the same {difference.size} {each.unit} "
        f"({_seeds(each.seeds)}): {difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}], "
        f"{comparison_verdict(difference)} for these networks"
    )


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"mean of {len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"


def comparison_verdict(difference: Interval) -> str:
    """In a word."""
    return "higher" if difference.low > 0 else "lower" if difference.high < 0 else "no difference"


def _difference(row: Row, name: str, runs: Runs, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    """Ours minus theirs, episode by episode; None where one of them was not measured."""
    both = [runs[recipe, seed] for recipe in (row.recipe, row.baseline) if (recipe, seed) in runs]
    arrays = [run.outputs("measures/" + name.replace("/", "-", 1)) or {} for run in both]
    ours, theirs = (np.asarray(each.get("each", ()), dtype=np.float64) for each in [*arrays, {}, {}][:2])
    return ours - theirs if len(ours) == len(theirs) > 0 else None
