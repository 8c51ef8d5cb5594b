"""The paper's numbers and ours side by side: the runs of a table as values, Markdown, JSON and terminal output."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from ..item import Average, Item, Row
from ..statistics import Interval, interval, paired_difference, verdict
from .measures import measured_result
from .runs import REFUSED, Run

Results = dict[str, dict[int, dict[str, Any]]]  # recipe -> seed -> result


@dataclass(frozen=True)
class Line:
    """One row of a finished table."""

    label: str
    recipe: str
    seeds: tuple[int, ...]
    numbers: dict[str, Interval]
    values: dict[str, tuple[float, ...]]
    paper: dict[str, float]
    difference: dict[str, Interval]
    missing: str


def lines(item: Item, runs: Sequence[Run], scale: str) -> list[Line]:
    """Build the rows of a table from the finished runs at a scale; `missing` describes the other runs."""
    results: Results = {}
    problems: dict[str, list[str]] = {}
    for run in (run for run in runs if run.scale == scale):
        if run.state == "done":
            results.setdefault(run.name, {})[run.seed], faults = measured_result(run, item, scale)
            problems.setdefault(run.name, []).extend(f"seed {run.seed}: {fault}" for fault in faults)
        else:
            reason = f" ({run.sentence})" if run.state == REFUSED else ""
            problems.setdefault(run.name, []).append(f"seed {run.seed} {run.state}{reason}")
    averages = item.averages_at(scale)
    for each in averages:
        results[each.row.recipe], problems[each.row.recipe] = _average(item, each, results)
    return [_line(item, row, results, problems) for row in (*item.at(scale), *(each.row for each in averages))]


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
    seeds = tuple(sorted(own))
    each = {name: tuple(own[seed][name] for seed in seeds) for name in item.metrics}
    differences = {}
    if row.baseline:
        for name in item.metrics:
            ours = {seed: result[name] for seed, result in own.items()}
            theirs = {seed: result[name] for seed, result in base.items()}
            differences[name] = paired_difference(ours, theirs)
    numbers = {name: interval(values) for name, values in each.items()}
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
    return Line(label, row.recipe, seeds, numbers, each, row.paper, differences, missing)


def _measured(item: Item, results: dict[int, dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """The results that have every metric of the table, and the seeds of those that do not."""
    whole = {seed: result for seed, result in results.items() if item.metrics.keys() <= result.keys()}
    return whole, sorted(results.keys() - whole.keys())


def cells(item: Item, rows: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the table as text."""
    titles = [item.metrics[name] for name in item.main]
    told = [name for name in item.main if any(name in line.paper for line in rows)] or item.main[:1]
    papers = ["paper"] if len(titles) == 1 else [f"paper, {item.metrics[name]}" for name in told]
    heading = [item.what, "seeds", *item.metrics.values(), *papers, *(f"difference in {title}" for title in titles)]
    body = []
    for line in rows:
        numbers = [number(line.numbers[name]) for name in item.metrics]
        paper = [f"{line.paper[name]:.2f}" if name in line.paper else "-" for name in told]
        differences = [_difference(line, name) for name in item.main]
        body.append([line.label, str(len(line.seeds)), *numbers, *paper, *differences])
    return heading, body


def number(value: Interval) -> str:
    """`mean ± half` with 2 decimals, or 3 if |mean| < 2; `-` if there are no values."""
    if value.size == 0:
        return "-"
    digits = 2 if abs(value.mean) >= 2 else 3
    return f"{value.mean:.{digits}f}" + ("" if math.isnan(value.half) else f" ± {value.half:.{digits}f}")


def describe_difference(difference: Interval) -> str:
    """A difference with its sign, and its interval if it has one.

    Example:
        >>> describe_difference(Interval(1.5, 0.25, 3)), describe_difference(interval([-2.0]))
        ('+1.50 [+1.25, +1.75]', '-2.00')
    """
    if difference.size == 0:
        return "-"
    ends = "" if math.isnan(difference.half) else f" [{difference.low:+.2f}, {difference.high:+.2f}]"
    return f"{difference.mean:+.2f}{ends}"


def _difference(line: Line, name: str) -> str:
    if name not in line.difference:
        return line.missing or "-"
    difference = line.difference[name]
    return f"{describe_difference(difference)}, {verdict(difference)}" + (f" ({line.missing})" if line.missing else "")


def markdown(item: Item, rows: list[Line]) -> str:
    """The table as Markdown."""
    heading, body = cells(item, rows)
    ruled = [heading, ["---"] * len(heading), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in ruled)


def document(item: Item, rows: list[Line], notes: Sequence[str]) -> str:
    """The table as Markdown with its notes as paragraphs below it: the text of its file and of the page's copy."""
    return "\n\n".join([markdown(item, rows), *notes])


def as_json(item: Item, rows: list[Line], scale: str) -> dict[str, Any]:
    """The table as data."""
    shown = [{**asdict(line), "numbers": _plain(line.numbers), "difference": _plain(line.difference)} for line in rows]
    return {"item": item.name, "title": item.title, "scale": scale, "rows": shown}


def _plain(numbers: dict[str, Interval]) -> dict[str, dict[str, float | None]]:
    """Intervals as JSON, which has no NaN: undefined values become null."""
    return {
        name: {key: None if math.isnan(part) else part for key, part in value._asdict().items()}
        for name, value in numbers.items()
    }


def show(item: Item, rows: list[Line], scale: str) -> None:
    """Print the table to the terminal, with the differences, which are long, below it."""
    from rich.console import Console
    from rich.table import Table

    heading, body = cells(item, rows)
    marked = " (synthetic data: the numbers mean nothing)" if scale == "tiny" else ""
    table = Table(title=f"{item.name}: {item.title}, scale {scale}{marked}")
    apart = len(heading) - len(item.main)
    for column, name in enumerate(heading[:apart]):
        parts = [part for row in body for part in ([row[column]] if column else row[column].split())]
        table.add_column(name, min_width=max(map(len, parts), default=0))  # labels may wrap, numbers may not
    for row in body:
        table.add_row(*row[:apart])
    console = Console()
    console.print(table)
    for row in body:
        for name, text in zip(heading[apart:], row[apart:], strict=True):
            if text != "-":
                console.print(f"{row[0]}, {name}: {text}", highlight=False, markup=False)
