"""Paper and ours side by side: what is on disk for a table, as values, as Markdown, as JSON and for the terminal."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import FolderError
from .items import Item
from .results import find_runs
from .statistics import Interval, interval, paired, verdict


@dataclass(frozen=True)
class Line:
    """One row of a finished table."""

    label: str
    recipe: str
    seeds: tuple[int, ...]
    numbers: dict[str, Interval]
    each: dict[str, tuple[float, ...]]
    paper: dict[str, float]
    difference: dict[str, Interval]
    missing: str


def lines(item: Item, folder: Path | str, scale: str) -> list[Line]:
    """The rows of a table from the finished runs below a folder."""
    results: dict[str, dict[int, dict[str, Any]]] = {}
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
    return [_line(item, row, results, problems) for row in item.at(scale)]


def _line(item: Item, row: Any, results: dict[str, dict[int, dict[str, Any]]], problems: dict[str, list[str]]) -> Line:
    own, base = results.get(row.recipe, {}), results.get(row.baseline, {})
    seeds = tuple(sorted(own))
    each = {name: tuple(own[seed][name] for seed in seeds) for name in item.metrics}
    differences = {}
    if row.baseline:
        for name in item.metrics:
            ours = {seed: result[name] for seed, result in own.items()}
            theirs = {seed: result[name] for seed, result in base.items()}
            differences[name] = paired(ours, theirs)
    numbers = {name: interval(values) for name, values in each.items()}
    return Line(
        row.label, row.recipe, seeds, numbers, each, row.paper, differences, ", ".join(problems.get(row.recipe, []))
    )


def cells(item: Item, rows: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Heading and cells of the table as text."""
    main = next(iter(item.metrics))
    heading = ["loss", "seeds", *item.metrics.values(), "paper", f"difference in {item.metrics[main]}"]
    body = []
    for line in rows:
        numbers = [number(line.numbers[name]) for name in item.metrics]
        paper = f"{line.paper[main]:.2f}" if main in line.paper else "-"
        body.append([line.label, str(len(line.seeds)), *numbers, paper, _difference(line, main)])
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
    marked = " (made-up data: the numbers mean nothing)" if scale == "tiny" else ""
    table = Table(title=f"{item.name}: {item.title}, scale {scale}{marked}")
    for name in heading[:-1]:
        table.add_column(name, no_wrap=True)
    for row in body:
        table.add_row(*row[:-1])
    console = Console()
    console.print(table)
    for row in body:
        if row[-1] != "-":
            console.print(f"{row[0]}, {heading[-1]}: {row[-1]}", highlight=False, markup=False)
