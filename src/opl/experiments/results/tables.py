"""A table as a value: the paper's numbers and ours side by side, what was run, and the notes below."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..item import Item
from ..statistics import Decision, Interval
from ..terminal import count
from .comparisons import Line, describe_decision, describe_paper, format_interval, lines, notes
from .runs import Run, inner, select_runs

SELECTIONS = {
    "last": "the last epoch is tested",
    "best-val": "the weights that are best on validation are tested",
    "both": "the last epoch is tested, and beside it the weights that are best on validation",
}
PARTS = {"train": "training", "val": "validation", "test": "test"}
PAPER = "paper"
QUOTED = "quoted by the paper, not run here"
NAMED = 4  # labels that are listed; of more, only the first and the number


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper at one scale, with what was run for it."""

    item: Item
    scale: str
    lines: list[Line]
    protocols: list[str]
    """What was run, one sentence per setting."""
    notes: list[str]
    """Further lines below the table."""
    networks: dict[str, str] = field(default_factory=dict)
    """The network of each recipe with runs."""

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
        return f"{PAPER}: {setting}" if setting else PAPER


def build_table(item: Item, runs: Sequence[Run], scale: str) -> Table:
    """Build a table from the runs of a folder or from records."""
    item, protocols = item.for_scale(scale), describe_protocols(item, runs, scale)
    networks = {
        row.recipe: describe_network(inner(run.recipe, "model"))
        for row in item.at(scale)
        for run in select_runs(runs, row.recipe, scale)
    }
    return Table(item, scale, lines(item, runs, scale), protocols, notes(item, runs, scale), networks)


def headings_of(table: Table) -> list[str]:
    """The group of each line, followed by its network if the groups have different networks."""
    rows = {row.recipe: row for row in (*table.item.rows, *(average.row for average in table.item.averages))}
    headings = [QUOTED if line.quoted else rows[line.recipe].group for line in table.lines]
    return [_with_network(table, heading, headings) for heading in headings]


def _with_network(table: Table, heading: str, headings: list[str]) -> str:
    """A heading, with the network of its runs if other groups have another one."""
    by_heading: dict[str, set[str]] = {}
    for line, group in zip(table.lines, headings, strict=True):
        if line.recipe in table.networks:
            by_heading.setdefault(group, set()).add(table.networks[line.recipe])
    ours = by_heading.get(heading, set())
    alike = len({frozenset(networks) for networks in by_heading.values()}) < 2
    if alike or len(ours) != 1:
        return heading
    network = min(ours).replace(" (", ", ").removesuffix(")")
    return f"{heading} (here {network})".lstrip()


def short_label(label: str, heading: str) -> str:
    """A label without the words of the heading above it.

    Example:
        >>> short_label("CIFAR-10, uniform, CE", "CIFAR-10, uniform"), short_label("CE", "ResNet-56")
        ('CE', 'CE')
    """
    start = heading.partition(" (here ")[0]
    return label.removeprefix(start).lstrip(", ") if start and label != start else label


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    """Header and cells of a table as text; the differences are the last columns."""
    item, paper_metrics = table.item, table.with_paper
    papers = [
        table.paper_title if len(paper_metrics) == 1 else f"{table.paper_title}, {item.metrics[name]}"
        for name in paper_metrics
    ]
    differences = [f"difference in {item.metrics[name]}" for name in item.main]
    heading = [item.what, "seeds", *item.metrics.values(), *papers, *differences]
    body = [
        [
            line.label,
            describe_seeds_of(line),
            *(format_interval(line.numbers[name]) if name in line.numbers else "-" for name in item.metrics),
            *(describe_paper(line, name) or "-" for name in paper_metrics),
            *(describe_line_difference(line, name) for name in item.main),
        ]
        for line in table.lines
    ]
    return heading, body


def describe_seeds_of(line: Line) -> str:
    """The number of seeds of a line, or that its numbers are not from runs."""
    return "quoted" if line.quoted else str(len(line.seeds))


def describe_line_difference(line: Line, name: str) -> str:
    """The difference of a line in one metric, what it shows, and which runs it lacks."""
    if name not in line.decisions or not line.difference[name].size:
        return line.missing or "-"
    text = describe_decision(line.difference[name], line.decisions[name])
    return f"{text} ({line.missing})" if line.missing else text


def as_json(table: Table) -> dict[str, Any]:
    """The table as data."""
    rows = [
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
        "rows": rows,
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


def describe_protocols(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """One sentence per setting in which rows of a table were run.

    A sentence names its rows if there are several settings; sizes that vary with the seed are given as a range.
    """
    by_protocol: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for row in item.at(scale):
        for run in select_runs(runs, row.recipe, scale):
            by_protocol.setdefault(_protocol(run), {}).setdefault(row.label, []).append(run)
    return [
        f"{list_rows(list(rows)) if len(by_protocol) > 1 else 'Ours'}: {data}, "
        f"{_images([run for same_row in rows.values() for run in same_row])}; {training}."
        for (data, training), rows in by_protocol.items()
    ]


def describe_network(model: dict[str, Any]) -> str:
    """A network by its kind, its depth and its other settings.

    Example:
        >>> describe_network({"kind": "CifarResNet", "depth": 8, "width": 16})
        'CifarResNet-8 (width 16)'
        >>> describe_network({"kind": "MnistNet", "widths": [16, 32], "embed": 0})
        'MnistNet (widths 16, 32)'
        >>> describe_network({"kind": "FastNet", "half": True, "width": 64})
        'FastNet (half; width 64)'
    """
    name = "-".join(str(part) for part in (model.get("kind", "?"), model.get("depth")) if part)
    others = {key: value for key, value in model.items() if key not in ("kind", "depth") and value}
    settings = [
        key if value is True else f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for key, value in others.items()
    ]
    return f"{name} ({'; '.join(settings)})" if settings else name


def _protocol(run: Run) -> tuple[str, str]:
    """The network and data of a run, and its training, as text."""
    recipe, data, selection = run.recipe, inner(run.recipe, "data"), str(run.recipe.get("selection", "?"))
    synthetic = f" like {data['like']}" if data.get("like") else ""
    target = f", target {data['target']}" if data.get("target") else ""
    classes = count_of(run.splits().get("class_names"))
    return (
        f"{describe_network(inner(recipe, 'model'))}; {data.get('kind', '?')}{synthetic}{target}"
        + (f", {classes} classes" if classes else ""),
        f"{count(recipe.get('epochs', '?'), 'epoch')}, batch size {recipe.get('batch_size', '?')}, "
        f"{SELECTIONS.get(selection, selection)}",
    )


def _images(runs: Iterable[Run]) -> str:
    """The sizes of the parts."""
    sizes: dict[str, set[int]] = {part: set() for part in PARTS}
    for run in runs:
        for part, counts in sizes.items():
            counts.add(count_of(run.splits().get(part)))
    known = {part: sorted(counts - {0}) for part, counts in sizes.items() if counts - {0}}
    ends = {part: dict.fromkeys((counts[0], counts[-1])) for part, counts in known.items()}
    texts = [f"{' to '.join(f'{end:,}' for end in both)} {PARTS[part]}" for part, both in ends.items()]
    return f"{', '.join(texts)} images" if texts else "number of images unknown"


def count_of(value: object) -> int:
    """A number of images or classes, which `splits.json` has as a list or as a number."""
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) else 0


def list_rows(labels: Sequence[str]) -> str:
    """The labels of some rows; of many, the first and the number of the others."""
    return ", ".join(labels) if len(labels) <= NAMED else f"{labels[0]} and {len(labels) - 1} more rows"
