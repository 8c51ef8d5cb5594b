"""Pictures named by CSV files, which have a column of paths and a column of labels; paths are relative to the file."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from ....errors import DataError
from ...files import read_limited
from .listing import (
    IMAGE_COLUMNS,
    LABEL_COLUMNS,
    PART_COLUMNS,
    PART_NAMES,
    Entry,
    Listing,
    count,
    fingerprint_files,
    name_some,
    read_files,
)

MOST_BYTES = 1 << 30  # of one CSV file
DELIMITERS = ",;\t"
SUFFIXES = (".csv", ".tsv")


def list_csv(
    files: Sequence[Path], where: Path, images: Sequence[str] = IMAGE_COLUMNS, labels: Sequence[str] = LABEL_COLUMNS
) -> Listing:
    """List the pictures that CSV files name.

    The part of a picture is in a column such as `split`, or else in the name of its file, as in `train.csv`.

    Args:
        files: the CSV files.
        where: what was given, for messages.
        images: the possible names of the column of paths.
        labels: the possible names of the column of labels.

    Raises:
        DataError: a file cannot be read, or none has both columns.
    """
    entries: list[Entry] = []
    pictures: list[Path | str] = []
    notes, errors = [], []
    for file in files:
        try:
            heading, rows = _table(file)
            image, label = _column(file, heading, images, "image"), _column(file, heading, labels, "label")
        except DataError as error:
            errors.append(error)
            continue
        part = next((heading.index(name) for name in PART_COLUMNS if name in heading), None)
        unlabeled = []
        for number, row in enumerate(rows, 2):
            path, word = row[image].strip(), row[label].strip()
            if not path or not word:
                unlabeled.append(f"line {number}")
                continue
            of = PART_NAMES.get(row[part].strip().lower(), "") if part is not None else _part_of(file, files)
            entries.append(Entry(of, word, path))
            pictures.append(_confined(file.parent, path))
        if unlabeled:
            notes.append(
                f"Left out: {count(len(unlabeled), 'row')} of {file.name} without a path or a label "
                f"({name_some(unlabeled)})."
            )
    if not entries:
        raise errors[0] if errors else DataError(f"{str(where)!r} names no pictures: give a CSV file with rows.")
    notes += [f"Left out: {error}" for error in errors]
    found = fingerprint_files([*files, *(each for each in pictures if isinstance(each, Path))])
    return Listing(str(where), "CSV", tuple(entries), read_files(pictures), found, notes=tuple(notes))


def _table(file: Path) -> tuple[list[str], Iterable[list[str]]]:
    """Return the heading in lower case, and the rows, each as long as the heading."""
    try:
        text = read_limited(file, MOST_BYTES).decode("utf-8-sig", "replace")
        first = text.partition("\n")[0]
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count)))
    except (OSError, csv.Error) as error:
        raise DataError(f"{str(file)!r} cannot be read as CSV ({error}): check the file.") from error
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    width = len(heading)
    return heading, [(row + [""] * width)[:width] for row in rows[1:] if row]


def _column(file: Path, heading: Sequence[str], names: Sequence[str], what: str) -> int:
    for name in names:
        if name.lower() in heading:
            return heading.index(name.lower())
    there = ", ".join(map(repr, heading)) or "none"
    raise DataError(
        f"{file.name} has no column {' or '.join(map(repr, names))} (there are {there}): name the one with the "
        f"{what}s with --{what}-column."
    )


def _part_of(file: Path, files: Sequence[Path]) -> str:
    """The part that the name of a file tells, where there are several files."""
    words = file.stem.lower().replace("-", "_").split("_")
    return next((PART_NAMES[word] for word in words if word in PART_NAMES), "") if len(files) > 1 else ""


def _confined(folder: Path, path: str) -> Path | str:
    """Return the file that a row names, or why it is not read."""
    try:
        file = (folder / path).resolve()
        return file if file.is_relative_to(folder.resolve()) else "it is outside of the folder of the CSV file"
    except (OSError, ValueError, RuntimeError):
        return "it is no path"
