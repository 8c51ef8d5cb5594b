"""A table as a value: the paper's numbers and ours side by side, what was run, and the notes below."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..item import Item
from ..statistics import Decision, Interval
from .comparisons import notes
from .lines import Line, lines
from .protocols import describe_protocols
from .runs import Run
from .text import describe_decision, number


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper at one scale, with what was run for it."""

    item: Item
    scale: str
    lines: list[Line]
    protocols: list[str]
    """What was run, a sentence for each setting."""
    notes: list[str]
    """Further lines below the table."""

    @property
    def below(self) -> list[str]:
        """All text below the table: what was run, the item's note, and the other notes."""
        return [*self.protocols, *([self.item.note] if self.item.note else []), *self.notes]

    @property
    def with_paper(self) -> list[str]:
        """The metrics of which the paper has a number."""
        return [name for name in self.item.metrics if any(name in line.paper for line in self.lines)]

    @property
    def paper_title(self) -> str:
        """Heading of the paper's numbers; at scales other than the paper's with the setting that they belong to."""
        setting = self.item.setting if self.scale != "paper" else ""
        return f"paper: {setting}" if setting else "paper"


def build_table(item: Item, runs: Sequence[Run], scale: str) -> Table:
    """Build a table from the runs of a folder or from records."""
    item, protocols = item.for_scale(scale), describe_protocols(item, runs, scale)
    return Table(item, scale, lines(item, runs, scale), protocols, notes(item, runs, scale))


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a table as text; the differences are the last columns."""
    item, told = table.item, table.with_paper
    papers = [table.paper_title if len(told) == 1 else f"{table.paper_title}, {item.metrics[name]}" for name in told]
    differences = [f"difference in {item.metrics[name]}" for name in item.main]
    heading = [item.what, "seeds", *item.metrics.values(), *papers, *differences]
    body = [
        [
            line.label,
            describe_seeds_of(line),
            *(number(line.numbers[name]) if name in line.numbers else "-" for name in item.metrics),
            *(f"{line.paper[name]:.2f}" if name in line.paper else "-" for name in told),
            *(describe_line_difference(line, name) for name in item.main),
        ]
        for line in table.lines
    ]
    return heading, body


def describe_seeds_of(line: Line) -> str:
    """The number of seeds of a line, or that its numbers are not from runs."""
    if line.quoted:
        return "quoted"
    return f"{len(line.seeds)}, transcribed" if line.transcribed else str(len(line.seeds))


def describe_line_difference(line: Line, name: str) -> str:
    """The difference of a line in one metric, what it shows, and which runs it lacks."""
    if name not in line.decisions or (line.missing and not line.difference[name].size):
        return line.missing or "-"
    text = describe_decision(line.difference[name], line.decisions[name])
    return f"{text} ({line.missing})" if line.missing else text


def as_json(table: Table) -> dict[str, Any]:
    """The table as data."""
    shown = [
        {
            **asdict(line),
            "numbers": _plain(line.numbers),
            "difference": _plain(line.difference),
            "decisions": _plain(line.decisions),
        }
        for line in table.lines
    ]
    item = table.item
    return {
        "item": item.name,
        "title": item.title,
        "scale": table.scale,
        "paper": item.setting,
        "note": item.note,
        "protocols": table.protocols,
        "rows": shown,
    }


def _plain(numbers: dict[str, Interval] | dict[str, Decision]) -> dict[str, dict[str, Any]]:
    """Intervals and decisions as JSON, which has no NaN: undefined values become null."""
    return {
        name: {
            key: None if isinstance(part, float) and math.isnan(part) else part
            for key, part in value._asdict().items()
            if key != "within"  # the same for every number of a metric
        }
        for name, value in numbers.items()
    }
