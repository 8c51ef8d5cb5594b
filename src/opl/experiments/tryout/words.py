"""What `opl try` says: the images and what was chosen before training, the table, and what to do next. No torch."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..data.read.listing import count, name_some
from ..data.read.pack import PackFacts
from ..item import Item
from ..results.conformity import screen
from ..results.runs import read_runs
from ..results.tables import Table, as_json, build_table
from ..scales import TRY
from .preferences import Preferences

STRONG = 3  # how much larger the largest class is than the smallest, where accuracy alone misleads
FEW_IMAGES = 20  # of a class for training
FEW_TESTED = 500  # images, below which one image is a large step
LEFT_OUT = "left-out.txt"
FLAG_WIDTH = 14  # columns


def is_imbalanced(facts: PackFacts) -> bool:
    """Whether the largest class has at least three times the pictures of the smallest."""
    return max(facts.per_class) >= STRONG * min(facts.per_class)


def describe_images(facts: PackFacts) -> dict[str, str]:
    """The images as lines of a table: a title and a text each."""
    train, val, test = facts.sizes
    counts = dict(zip(facts.class_names, facts.per_class, strict=True))
    largest, smallest = max(counts, key=lambda name: counts[name]), min(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    share = f"{counts[largest] / total:.1%}"
    spread = (
        f"{len(counts)}, {counts[smallest]:,} ({smallest}) to {counts[largest]:,} ({largest}) images; always saying "
        f"{largest} would be right in {share}"
    )
    return {
        "images": f"{total:,}: {train:,} training, {val:,} validation, {test:,} test",
        "classes": spread,
        "source": facts.source,
    }


def warnings_about(facts: PackFacts) -> list[str]:
    """What may mislead: strong imbalance, few images of a class, a small test part."""
    said = []
    if is_imbalanced(facts):
        said.append(
            "The classes are imbalanced: the balanced accuracy, in which every class counts the same, is reported too."
        )
    few = [
        f"{name}: {number}"
        for name, number in zip(facts.class_names, facts.counts[0], strict=True)
        if number < FEW_IMAGES
    ]
    if few:
        said.append(
            f"Few images: {count(len(few), 'class', 'classes')} with fewer than {FEW_IMAGES} for training "
            f"({name_some(few)}); expect numbers that vary much from seed to seed."
        )
    tested = facts.sizes[2]
    if tested < FEW_TESTED:
        said.append(f"The test part has {count(tested, 'image')}: one of them is {100 / tested:.2g} percentage points.")
    return said


def describe_data(facts: PackFacts) -> str:
    """All of it as one text, for the note below the table."""
    told = describe_images(facts)
    return " ".join(
        [f"Images: {told['images']}.", f"Classes: {told['classes']}.", *facts.notes, *warnings_about(facts)]
    )


def print_choice(title: str, rows: Mapping[str, tuple[str, str]], notes: Sequence[str]) -> None:
    """Print a small table of what was chosen, with the flags that change it, and notes below."""
    from rich.console import Console
    from rich.table import Table as Grid

    grid = Grid(title=title, title_justify="left")
    grid.add_column("", no_wrap=True)
    grid.add_column("chosen", overflow="fold")
    grid.add_column("changed by", max_width=FLAG_WIDTH)
    for name, texts in rows.items():
        grid.add_row(name, *texts)
    console = Console(stderr=True)
    console.print(grid)
    for note in notes:
        console.print(f"- {note}", highlight=False, markup=False)


def command(target: str, out: Path, minutes: float, wanted: Preferences) -> str:
    """The command that does the same again, or resumes it."""
    default = Preferences()
    flags = [
        word
        for name, value in vars(wanted).items()
        if value != vars(default)[name]
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(["opl", "try", target, "--out", str(out), "--minutes", f"{minutes:g}", *flags])


class Results(NamedTuple):
    """What a folder shows: its table, the effect of OPL in a sentence, and the path of its page."""

    table: Table
    effect: str
    page: Path


def write_results(folder: Path, item: Item, items: Mapping[str, Item]) -> Results:
    """Write the table and the page of a folder."""
    from ..report.page import write_report
    from ..results.text import describe_effect, document

    runs = screen(read_runs(folder), [*items.values(), item])
    table = build_table(item, runs, TRY)
    (folder / "table.md").write_text(document(table) + "\n")
    (folder / "table.json").write_text(json.dumps(as_json(table), indent=1) + "\n")
    page = write_report(folder, {**items, item.name: item}, runs=runs)
    return Results(table, describe_effect(item, runs, TRY), page)
