"""The notes below a table: binomial intervals of accuracies, and differences paired by episode or by image.

Two seeds say little about other seeds, but 3,000 episodes show whether *these* networks differ. Each episode's
difference is averaged over the seeds that both rows have.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..item import Item, Row
from ..statistics import UNDECIDED, Interval, interval
from .conformity import describe_code
from .measures import measured_result
from .ranges import range_of
from .runs import Run, describe_seeds, select_runs
from .text import describe_difference


class Comparison(NamedTuple):
    """The difference between a row and its baseline in one metric of the table."""

    label: str
    baseline: str
    metric: str
    seeds: tuple[int, ...]
    difference: Interval
    unit: str = "episodes"


def notes(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """The lines below a table: binomial intervals, comparisons with the baseline, and code versions if several."""
    compared = [run for row in item.at(scale) for run in select_runs(runs, row.recipe, scale)]
    code = describe_code(compared)
    return [
        *wilson_lines(item, runs, scale),
        *map(describe_comparison, compare(item, runs, scale)),
        *([code] if code else []),
    ]


def wilson_lines(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """One line per row and compared metric with a Wilson interval, which accounts for the small number of images."""
    found = []
    for row in item.at(scale):
        results = {run.seed: measured_result(run, item, scale)[0] for run in select_runs(runs, row.recipe, scale)}
        for name in item.main:
            there = {seed: result for seed, result in results.items() if f"{name}/low" in result}
            if there:
                images = {int(result[f"{name}/images"]) for result in there.values()}
                each = ", ".join(_share(seed, result, name) for seed, result in there.items())
                counted = " or ".join(map(str, sorted(images)))
                found.append(f"{row.label}, {item.metrics[name]} of {counted} images (95 % by Wilson): {each}")
    return found


def compare(item: Item, runs: Sequence[Run], scale: str) -> list[Comparison]:
    """Compare every row that has a baseline, in every compared metric that has a value per episode or image."""
    by_recipe = {row.recipe: {run.seed: run for run in select_runs(runs, row.recipe, scale)} for row in item.rows}
    measured = {name: _measured(item, name, by_recipe, scale) for name in item.main}
    labels = {row.recipe: row.label for row in item.rows}
    found = []
    for row in item.at(scale):
        for name in item.main if row.baseline else ():
            there = _differences(row, name, measured[name])
            if there:
                means = np.mean(list(there.values()), axis=0).tolist()
                names = (row.label, labels[row.baseline], item.metrics[name])
                within = range_of(name, item.metrics[name]).of_differences
                found.append(Comparison(*names, tuple(there), interval(means, within=within), item.unit))
    return found


def describe_comparison(each: Comparison) -> str:
    """Format a comparison as one line."""
    difference = each.difference
    return (
        f"{each.label} against {each.baseline}, {each.metric}, over the same {difference.size} {each.unit} "
        f"({describe_seeds(each.seeds)}): {describe_difference(difference)}, {comparison_verdict(difference)} for "
        "these networks"
    )


def comparison_verdict(difference: Interval) -> str:
    """`higher`, `lower` or `undecided`."""
    return "higher" if difference.low > 0 else "lower" if difference.high < 0 else UNDECIDED


def _share(seed: int, result: Mapping[str, Any], name: str) -> str:
    return f"{result[name]:.2f} [{result[f'{name}/low']:.2f}, {result[f'{name}/high']:.2f}] (seed {seed})"


def _measured(
    item: Item, name: str, by_recipe: Mapping[str, Mapping[int, Run]], scale: str
) -> dict[str, dict[int, Run]]:
    """The runs whose metric was measured with the settings of the table."""
    return {
        recipe: {seed: run for seed, run in runs.items() if name in measured_result(run, item, scale)[0]}
        for recipe, runs in by_recipe.items()
    }


def _differences(row: Row, name: str, by_recipe: Mapping[str, Mapping[int, Run]]) -> dict[int, NDArray[np.float64]]:
    """Row minus baseline, episode by episode, for each seed at which both were evaluated on equally many episodes."""
    found = {}
    baseline = by_recipe.get(row.baseline, {})
    for seed, run in by_recipe[row.recipe].items():
        ours, theirs = (_values(each, name) for each in (run, baseline.get(seed)))
        if len(ours) == len(theirs) > 0:
            found[seed] = ours - theirs
    return found


def _values(run: Run | None, name: str) -> NDArray[np.float64]:
    return np.asarray(run.measure_arrays(name).get("each", ()) if run else (), dtype=np.float64)
