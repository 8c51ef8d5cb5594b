"""The text of `opl try`: images and settings before training, warnings, the table, and the next command. No torch."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import OplError
from ..files import write_whole
from ..item import Item, Row
from ..scales import TRY
from ..settings import from_json, read_json, to_json
from .preferences import Preferences

if TYPE_CHECKING:
    from ..data.user_images import ImageFacts
    from ..results.tables import Table

IMBALANCED = 3  # ratio of the largest class to the smallest, from which accuracy alone is misleading
FEW_IMAGES = 20  # training images of a class
FEW_TESTED = 500  # test images
LEFT_OUT = "left-out.txt"
ITEM = "item.json"
FLAG_WIDTH = 14  # columns


def is_imbalanced(facts: "ImageFacts") -> bool:
    """Whether the largest class has at least three times the images of the smallest."""
    return max(facts.per_class) >= IMBALANCED * min(facts.per_class)


def describe_images(facts: "ImageFacts") -> dict[str, str]:
    """Return the images as rows of a table: titles and texts."""
    train, val, test = facts.sizes
    counts = dict(zip(facts.class_names, facts.per_class, strict=True))
    largest, smallest = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    share = f"{100 * counts[largest] / total:.1f} %"
    classes = f"{len(counts)} classes, {counts[smallest]:,} images each; chance {share}"
    if counts[smallest] < counts[largest]:
        classes = (
            f"{len(counts)} classes, {counts[smallest]:,} ({smallest}) to {counts[largest]:,} ({largest}) images; "
            f"always predicting {largest}: {share}"
        )
    return {
        "images": f"{total:,}: {train:,} training, {val:,} validation, {test:,} test",
        "classes": classes,
        "source": facts.source,
    }


def warnings_about(facts: "ImageFacts") -> list[str]:
    """Return warnings about what may mislead: imbalance, few images of a class, a small test part."""
    from ..data.read.listing import count, name_some

    warnings = []
    if is_imbalanced(facts):
        warnings.append("The classes are imbalanced: the balanced accuracy (mean over classes) is reported too.")
    few = [
        f"{name}: {number}"
        for name, number in zip(facts.class_names, facts.counts[0], strict=True)
        if number < FEW_IMAGES
    ]
    if few:
        warnings.append(
            f"Few images: {count(len(few), 'class', 'classes')} with fewer than {FEW_IMAGES} training images "
            f"({name_some(few)}); expect large differences between seeds."
        )
    tested = facts.sizes[2]
    if tested < FEW_TESTED:
        warnings.append(
            f"The test part has only {count(tested, 'image')}: one image is {100 / tested:.2g} percentage points."
        )
    return warnings


def describe_data(facts: "ImageFacts") -> str:
    """Return all of it as one text, for the note below the table."""
    rows = describe_images(facts)
    images = rows["images"].replace(":", " images:", 1)
    return " ".join([f"{images}.", f"{rows['classes']}.", *facts.notes, *warnings_about(facts)])


def print_choice(title: str, rows: Mapping[str, tuple[str, str]], notes: Sequence[str]) -> None:
    """Print a table of the chosen settings and the flags that change them, and notes below."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    grid = Grid(title=escape(title), title_justify="left")
    grid.add_column("", no_wrap=True)
    grid.add_column("chosen", overflow="fold")
    grid.add_column("change with", max_width=FLAG_WIDTH)
    for name, texts in rows.items():
        grid.add_row(name, *map(escape, texts))
    console = Console(stderr=True)
    console.print(grid)
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False)


def command(target: str, out: Path, minutes: float, wanted: Preferences) -> str:
    """Return the command that repeats or resumes a trial."""
    default = vars(Preferences())
    flags = [
        argument
        for name, value in vars(wanted).items()
        if value != default[name]
        for argument in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(["opl", "try", target, "--out", str(out), "--minutes", f"{minutes:g}", *flags])


# The table


def build_item(name: str, arms: list[tuple[str, str]], imbalanced: bool, note: str, command: str) -> Item:
    """Return the table of a folder; arms are pairs of label and recipe, of which the first is the baseline."""
    first = arms[0][1]
    balanced = {"test/balanced": "balanced top-1 %"} if imbalanced else {}
    return Item(
        name=name,
        title=f"{' vs '.join(label for label, _ in arms)} on your images",
        dataset="your images",
        metrics={"test/top1": "top-1 %", **balanced, "test/loss": "cross-entropy", "test/s": "s", "test/d": "d"},
        rows=tuple(
            Row(label, recipe, {}, baseline="" if recipe == first else first, scales=(TRY,)) for label, recipe in arms
        ),
        compared=("test/top1", *balanced),
        note=note,
        command=command,
    )


def write_item(folder: Path, item: Item) -> None:
    """Keep the table of a folder, so that its page can be made again."""
    write_whole(folder / ITEM, (json.dumps(to_json(item), indent=1) + "\n").encode())


def read_items(folder: Path) -> dict[str, Item]:
    """Return the tables of `opl try` in a folder and below it, by name; other files are skipped."""
    items: dict[str, Item] = {}
    for file in (*folder.glob(ITEM), *folder.glob(f"*/{ITEM}"), *folder.glob(f"*/*/{ITEM}")):
        try:
            item = from_json(read_json(file), Item)
            if isinstance(item, Item):
                items[item.name] = replace(item, metrics=dict(item.metrics))
        except (OplError, OSError, ValueError, TypeError):
            continue
    return items


class Results(NamedTuple):
    """The results of a folder: its table, the effect of OPL in a sentence, its measures, and the path of its page."""

    table: "Table"
    effect: str
    measures: list[tuple[str, str, str]]
    """Title, values before and after, and verdict of every measure, in text."""
    moved: str
    """The measures that moved most, in a sentence; empty if there are none."""
    page: Path


def write_results(folder: Path, item: Item, items: Mapping[str, Item]) -> Results:
    """Write the table and the page of a folder."""
    from ..report.page import write_report
    from ..results.conformity import screen
    from ..results.measures import changes, describe_change, describe_largest
    from ..results.runs import read_runs, select_runs
    from ..results.tables import as_json, build_table
    from ..results.text import describe_effect, document

    runs = screen(read_runs(folder), [*items.values(), item])
    table = build_table(item, runs, TRY)
    write_whole(folder / "table.md", f"{document(table)}\n".encode())
    write_whole(folder / "table.json", f"{json.dumps(as_json(table), indent=1)}\n".encode())
    page = write_report(folder, {**items, item.name: item}, runs=runs)
    before, after = (select_runs(runs, row.recipe, TRY) for row in item.rows[:2])
    made = changes(before, after)
    measures = [
        (
            f"{change.info.title} {change.info.arrow}".strip(),
            change.values,
            describe_change(change.info, change.difference, change.decision),
        )
        for change in made
    ]
    return Results(table, describe_effect(item, runs, TRY), measures, describe_largest(made), page)
