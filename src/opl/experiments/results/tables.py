"""Paper and ours side by side: what is on disk for a table, as values, as Markdown, as JSON and for the terminal."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ...errors import FolderError
from ..run_folder import find_runs
from ..statistics import Interval, interval, paired_difference, verdict
from ..tables import Average, Item, Row

Results = dict[str, dict[int, dict[str, Any]]]  # by recipe and seed


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


def lines(item: Item, folder: Path | str, scale: str) -> list[Line]:
    """The rows of a table from the finished runs below a folder."""
    results: Results = {}
    problems: dict[str, list[str]] = {}
    for run in find_runs(folder):
        try:
            recipe = run.recipe()
        except FolderError:
            continue  # a damaged run is no reason to lose the others
        if recipe["scale"] != scale:
            continue
        if run.done:
            results.setdefault(recipe["name"], {})[recipe["seed"]] = run.result()
        else:
            state = "failed" if run.error() else "unfinished"
            problems.setdefault(recipe["name"], []).append(f"seed {recipe['seed']} {state}")
    averages = item.averages_at(scale)
    for each in averages:
        results[each.row.recipe], problems[each.row.recipe] = _average(item, each, results)
    return [_line(item, row, results, problems) for row in (*item.at(scale), *(each.row for each in averages))]


def _average(item: Item, average: Average, results: Results) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """The mean of each number over some recipes, for the seeds that all of them have; and what is said of the others.

    They start from scratch together or not at all.
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
    missing = ", ".join([*problems.get(row.recipe, []), *(f"seed {seed} not measured" for seed in unmeasured)])
    scratch = item.pretrained and any(result.get("start") == "scratch" for result in own.values())
    label = f"{row.label}, from scratch" if scratch else row.label
    return Line(label, row.recipe, seeds, numbers, each, row.paper, differences, missing)


def _measured(item: Item, results: dict[int, dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """The results that have every number of the table, and the seeds of the others."""
    whole = {seed: result for seed, result in results.items() if item.metrics.keys() <= result.keys()}
    return whole, sorted(results.keys() - whole.keys())


def cells(item: Item, rows: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Heading and cells of the table as text."""
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
    """`mean ± half`, as many digits as make sense."""
    if value.size == 0:
        return "-"
    digits = 2 if abs(value.mean) >= 2 else 3
    return f"{value.mean:.{digits}f}" + ("" if math.isnan(value.half) else f" ± {value.half:.{digits}f}")


def _difference(line: Line, name: str) -> str:
    if name not in line.difference:
        return line.missing or "-"
    difference = line.difference[name]
    text = f"{difference.mean:+.2f}" if difference.size else "-"
    if not math.isnan(difference.half):
        text += f" [{difference.low:+.2f}, {difference.high:+.2f}]"
    return f"{text}, {verdict(difference)}" + (f" ({line.missing})" if line.missing else "")


def markdown(item: Item, rows: list[Line]) -> str:
    """The table as Markdown."""
    heading, body = cells(item, rows)
    ruled = [heading, ["---"] * len(heading), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in ruled)


def as_json(item: Item, rows: list[Line], scale: str) -> dict[str, Any]:
    """The table as data."""
    shown = [{**asdict(line), "numbers": _plain(line.numbers), "difference": _plain(line.difference)} for line in rows]
    return {"item": item.name, "title": item.title, "scale": scale, "rows": shown}


def _plain(numbers: dict[str, Interval]) -> dict[str, dict[str, float | None]]:
    """Intervals as JSON, which has no NaN: an interval that does not exist is null."""
    return {
        name: {key: None if math.isnan(part) else part for key, part in value._asdict().items()}
        for name, value in numbers.items()
    }


def show(item: Item, rows: list[Line], scale: str) -> None:
    """The table on the terminal; the differences, which are long, below it."""
    from rich.console import Console
    from rich.table import Table

    heading, body = cells(item, rows)
    marked = " (synthetic data: the numbers mean nothing)" if scale == "tiny" else ""
    table = Table(title=f"{item.name}: {item.title}, scale {scale}{marked}")
    apart = len(heading) - len(item.main)
    for column, name in enumerate(heading[:apart]):
        parts = [part for row in body for part in ([row[column]] if column else row[column].split())]
        table.add_column(name, min_width=max(map(len, parts), default=0))  # a label may be folded, a number not
    for row in body:
        table.add_row(*row[:apart])
    console = Console()
    console.print(table)
    for row in body:
        for name, text in zip(heading[apart:], row[apart:], strict=True):
            if text != "-":
                console.print(f"{row[0]}, {name}: {text}", highlight=False, markup=False)
