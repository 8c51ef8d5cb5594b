"""The rows of a table as values: means over seeds, paired differences, and what these show together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from ..item import Average, Item, Quoted, Row
from ..statistics import Decision, Interval, decide, interval
from .measures import measured_result
from .ranges import range_of
from .runs import DAMAGED, REFUSED, Run

Results = dict[str, dict[int, dict[str, Any]]]  # recipe -> seed -> result


@dataclass(frozen=True)
class Line:
    """One row of a finished table."""

    label: str
    recipe: str
    """Name of the recipe; empty for a quoted line."""
    seeds: tuple[int, ...]
    numbers: dict[str, Interval]
    values: dict[str, tuple[float, ...]]
    """The numbers of each metric, seed by seed."""
    paper: dict[str, float]
    difference: dict[str, Interval]
    missing: str
    """Which runs the row lacks, and why."""
    pairs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The differences of each metric, seed by seed."""
    paired: tuple[int, ...] = ()
    """The seeds that the row and its baseline have."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    """What the differences in the compared metrics show, given all comparisons of the table."""
    quoted: bool = False
    """Whether only the paper's numbers are there, of a method that is not run."""
    transcribed: bool = False
    """Whether the numbers were copied from a text, because the runs behind them are gone."""


def lines(item: Item, runs: Sequence[Run], scale: str) -> list[Line]:
    """Build the rows of a table from the finished runs at a scale; `missing` describes the other runs."""
    results: Results = {}
    problems: dict[str, list[str]] = {}
    for run in (run for run in runs if run.scale == scale):
        if run.state == "done":
            results.setdefault(run.name, {})[run.seed], faults = measured_result(run, item, scale)
            problems.setdefault(run.name, []).extend(f"seed {run.seed}: {fault}" for fault in faults)
        else:
            reason = f" ({run.sentence})" if run.state in (REFUSED, DAMAGED) else ""
            problems.setdefault(run.name, []).append(f"seed {run.seed} {run.state}{reason}")
    for row in item.at("small") if scale == "small" else ():
        if row.needs and row.recipe not in results | problems:
            problems[row.recipe] = [row.left_out]
    averages = item.averages_at(scale)
    for each in averages:
        results[each.row.recipe], problems[each.row.recipe] = _average(item, each, results)
    rows = (*item.at(scale), *(each.row for each in averages))
    quoted = () if scale == "tiny" else item.quoted
    return decide_lines(item, [*(_line(item, row, results, problems) for row in rows), *map(_quote, quoted)])


def decide_lines(item: Item, found: Sequence[Line]) -> list[Line]:
    """Add what the differences show, adjusted for all comparisons that the table makes."""
    places = [(place, name) for place, line in enumerate(found) for name in item.main if name in line.difference]
    decisions = decide(
        [found[place].difference[name] for place, name in places],
        [found[place].pairs.get(name, ()) for place, name in places],
    )
    by_line: dict[int, dict[str, Decision]] = {}
    for (place, name), decision in zip(places, decisions, strict=True):
        by_line.setdefault(place, {})[name] = decision
    return [replace(line, decisions=by_line.get(place, {})) for place, line in enumerate(found)]


def _quote(quoted: Quoted) -> Line:
    return Line(quoted.label, "", (), {}, {}, quoted.paper, {}, "", quoted=True)


def _average(item: Item, average: Average, results: Results) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Average each metric over some recipes, for the seeds that all of them have; also describe the other seeds.

    The recipes of an average start either all from scratch or all from pretrained weights.
    """
    parts = [_measured(item, results.get(recipe, {}))[0] for recipe in average.of]
    means = {}
    for seed in sorted(set.intersection(*(set(part) for part in parts))):
        numbers: dict[str, Any] = {name: fmean(part[seed][name] for part in parts) for name in item.metrics}
        means[seed] = {**numbers, "start": parts[0][seed].get("start", "")}
    some = sorted(set.union(*(set(part) for part in parts)) - set(means))
    return means, [f"seed {seed} incomplete" for seed in some]


def _line(item: Item, row: Row, results: Results, problems: dict[str, list[str]]) -> Line:
    own, unmeasured = _measured(item, results.get(row.recipe, {}))
    base, _ = _measured(item, results.get(row.baseline, {}))
    seeds, shared = tuple(sorted(own)), sorted(own.keys() & base.keys())
    values = {name: tuple(own[seed][name] for seed in seeds) for name in item.metrics}
    compared, paired = (item.metrics, tuple(shared)) if row.baseline else ((), ())
    pairs = {name: tuple(own[seed][name] - base[seed][name] for seed in shared) for name in compared}
    alone = sorted(own.keys() - base.keys()) if row.baseline and base else []
    missing = ", ".join(
        [
            *problems.get(row.recipe, []),
            *(f"seed {seed} not measured" for seed in unmeasured),
            *(f"seed {seed} without its baseline" for seed in alone),
        ]
    )
    scratch = item.pretrained and any(result.get("start") == "scratch" for result in own.values())
    label = f"{row.label}, from scratch" if scratch else row.label
    ranges = {name: range_of(name, title) for name, title in item.metrics.items()}
    numbers = {name: interval(values[name], within=ranges[name]) for name in values}
    differences = {name: interval(pairs[name], within=ranges[name].of_differences) for name in pairs}
    return Line(label, row.recipe, seeds, numbers, values, row.paper, differences, missing, pairs, paired)


def _measured(item: Item, results: dict[int, dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """The results that have every metric of the table, and the seeds of those that do not."""
    whole = {seed: result for seed, result in results.items() if item.metrics.keys() <= result.keys()}
    return whole, sorted(results.keys() - whole.keys())
