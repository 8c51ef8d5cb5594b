"""Differences between runs that answered the same episodes (or images), one by one: over those, not over seeds.

Two seeds tell little of other seeds, but three thousand episodes tell whether *these* networks differ. Each episode's
difference is averaged over the seeds that both rows have.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from .items import Item, Row
from .results import RunFolder
from .statistics import Interval, interval


class Matched(NamedTuple):
    """The difference of a row to its baseline in one number of the table."""

    label: str
    baseline: str
    metric: str
    seeds: tuple[int, ...]
    difference: Interval


def matched(item: Item, folder: Path, scale: str, seeds: int) -> list[Matched]:
    """Every row with a baseline, in every compared number that has a value for each episode."""
    labels = {row.recipe: row.label for row in item.rows}
    found = []
    for row in item.at(scale):
        for name in item.main if row.baseline else ():
            differences = {seed: _difference(row, name, folder, seed) for seed in range(seeds)}
            there = {seed: each for seed, each in differences.items() if each is not None}
            if there:
                means = np.mean(list(there.values()), axis=0).tolist()
                found.append(
                    Matched(row.label, labels[row.baseline], item.metrics[name], tuple(there), interval(means))
                )
    return found


def said(each: Matched) -> str:
    """One line."""
    difference = each.difference
    return (
        f"{each.label} against {each.baseline}, {each.metric}, over the same {difference.size} episodes "
        f"(mean of {len(each.seeds)} seeds): {difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}], "
        f"{_verdict(difference)} for these networks"
    )


def _verdict(difference: Interval) -> str:
    return "higher" if difference.low > 0 else "lower" if difference.high < 0 else "no difference"


def _difference(row: Row, name: str, folder: Path, seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    """Ours minus theirs, episode by episode; None where one of them was not measured."""
    measure = "measures/" + name.replace("/", "-", 1)
    ours, theirs = (RunFolder.of(folder, recipe, seed).outputs(measure) for recipe in (row.recipe, row.baseline))
    if ours is None or theirs is None or len(ours["each"]) != len(theirs["each"]):
        return None
    return np.asarray(ours["each"], dtype=np.float64) - np.asarray(theirs["each"], dtype=np.float64)
