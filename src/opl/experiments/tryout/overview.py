"""The text that `opl try` prints before training: images, warnings, settings; and its command. Needs no torch."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..terminal import count, make_console
from .preferences import Preferences

if TYPE_CHECKING:
    from ..data.user_images import ImageFacts

IMBALANCED = 3  # ratio of the largest class to the smallest, from which accuracy alone is misleading
FEW_IMAGES = 20  # training images of a class
FEW_TESTED = 500  # test images
LEFT_OUT = "left-out.txt"
FLAG_WIDTH = 14  # columns


def is_imbalanced(facts: "ImageFacts") -> bool:
    """Return whether the largest class has at least three times the images of the smallest."""
    return max(facts.per_class) >= IMBALANCED * min(facts.per_class)


def describe_images(facts: "ImageFacts") -> dict[str, str]:
    """Describe the images as rows of a table: titles and texts."""
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
    """Return warnings about misleading results: imbalance, few images in a class, a small test part."""
    from ..data.read.listing import name_some

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
    """Describe images, classes, notes and warnings in one text, for the note below the table."""
    rows = describe_images(facts)
    images = rows["images"].replace(":", " images:", 1)
    return " ".join([f"{images}.", f"{rows['classes']}.", *facts.notes, *warnings_about(facts)])


def print_choice(title: str, rows: Mapping[str, tuple[str, str]], notes: Sequence[str]) -> None:
    """Print a table of the chosen settings and the flags that change them, and notes below."""
    from rich.table import Table as Grid

    grid = Grid(title=title, title_justify="left")
    grid.add_column("", no_wrap=True)
    grid.add_column("chosen", overflow="fold")
    grid.add_column("change with", max_width=FLAG_WIDTH)
    for name, texts in rows.items():
        grid.add_row(name, *texts)
    console = make_console(stderr=True)
    console.print(grid)
    for note in notes:
        console.print(f"- {note}")


def command(target: str, out: Path, minutes: float, wanted: Preferences) -> str:
    """Return the command that repeats or resumes a trial."""
    default = vars(Preferences())
    flags = [
        argument
        for name, value in vars(wanted).items()
        if value != default[name]
        for argument in (f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value))
    ]
    return shlex.join(["opl", "try", target, "--out", str(out), "--minutes", f"{minutes:g}", *flags])
