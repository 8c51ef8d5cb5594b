"""Where the pictures of a data set are: in class folders, or in Parquet files in the Hub's layout.

Class folders are `<split>/<class>/...` or, without splits, `<class>/...`; classes are numbered in alphabetical order.
Splits are `train`, `validation` and `test`, or names that mean the same.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....errors import DataError
from . import hub_files
from .catalog import CatalogEntry
from .layouts import PICTURES, regular_files
from .source import DataSource, find_entry, find_local, unreadable_error

SPLITS = {"train": "train", "validation": "validation", "valid": "validation", "val": "validation", "test": "test"}
"""The names of splits in folders, and their names here."""
PARTS = ({"train": 0, "validation": 0, "test": 0}, {"train": 0, "test": 0}, {"train": 0, "validation": 0}, {"train": 0})
ROWS = 64  # read from Parquet files at a time


@dataclass(frozen=True)
class Split:
    """A split: its labels, and for each picture a file name or the encoded picture."""

    name: str
    labels: Sequence[int]
    entries: Iterable[bytes]


@dataclass(frozen=True)
class PictureSource:
    """A data set of pictures on this machine; `files` are its Parquet files by split, empty for class folders."""

    name: str
    folder: Path
    where: str
    """For messages: the folder, or the Hub id."""
    files: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    tables: DataSource | None = None
    """The Parquet files, as the other readers see them."""

    def fingerprint(self, version: int) -> str:
        """Return a hash of what changes when pictures are added or removed; no picture is read for it.

        Of class folders these are the names and modification times of the folders; of Parquet files also the sizes.
        """
        named = _class_folders(self.folder) if self.tables is None else self.files
        paths = [path for split in sorted(named) for path in named[split]]
        return fingerprint(self.folder, paths, version, self.name)


def fingerprint(folder: Path, paths: Iterable[Path], *facts: object) -> str:
    """Return a hash of some facts and of the name, size and modification time of files or folders below `folder`."""
    told: list[object] = list(facts)
    for path in paths:
        stat = path.stat()
        told.append((path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns))
    return hashlib.blake2b(json.dumps(told).encode(), digest_size=8).hexdigest()


def locate_pictures(known: CatalogEntry, root: str = "", *, hub: bool = True) -> PictureSource:
    """Find the pictures of a data set in `root`, in `$OPL_DATA/<name>` or, with `hub`, on the Hub.

    The splits of `known` must be there; if it names none, those that are there are taken.
    """
    shelf = os.environ.get("OPL_DATA", "")
    folder = Path(root or f"{shelf}/{known.name}").expanduser()
    if (root or shelf) and _class_folders(folder):
        return PictureSource(known.name, folder, str(folder))
    if not hub and not (root or shelf):
        raise DataError(f"{known.name} needs a folder of pictures: give it with --data.root FOLDER.")
    if not hub and not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r}: give that of the pictures with --data.root FOLDER.")
    found = find_entry(known if known.images else replace(known, images={"train": 0}), root)
    if not known.images:
        found = _all_splits(known, found)
    if not found.parquet:
        raise DataError(
            f"{str(found.folder)!r} has neither Parquet files nor pictures as '<class>/<picture>' or "
            "'train/<class>/<picture>': give a folder in one of these layouts."
        )
    return PictureSource(known.name, found.folder, found.where, found.files, found)


def _all_splits(known: CatalogEntry, found: DataSource) -> DataSource:
    """The same data set with all splits that its folder has."""
    for splits in PARTS:
        try:
            more = find_local(replace(known, images=splits), str(found.folder))
        except DataError:  # these splits are not there
            continue
        if more is not None and more.parquet:
            return replace(more, where=found.where)
    return found


def read_splits(source: PictureSource) -> tuple[tuple[str, ...], list[Split]]:
    """Return the class names and the splits; the entries of a split are read when they are iterated over."""
    return _read_folders(source) if source.tables is None else _read_tables(source.tables)


# Class folders


def _class_folders(folder: Path) -> Mapping[str, Sequence[Path]]:
    """Return the class folders by split; empty if there are none."""
    if not folder.is_dir():
        return {}
    inside = _folders(folder)
    splits = {SPLITS[each.name]: _folders(each) for each in inside if each.name in SPLITS}
    if "train" not in splits:
        splits = {"train": inside}
    return splits if any(next(_pictures(each), None) for each in splits["train"]) else {}


def _folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _read_folders(source: PictureSource) -> tuple[tuple[str, ...], list[Split]]:
    folders = _class_folders(source.folder)
    names = tuple(each.name for each in folders["train"])
    splits = []
    for split, classes in folders.items():
        if other := [each.name for each in classes if each.name not in names]:
            raise DataError(
                f"{source.where!r} has a class {other[0]!r} in the split {split!r} that is not in 'train': give the "
                "same classes to all splits."
            )
        found = [(names.index(each.name), path) for each in classes for path in _pictures(each)]
        entries = [os.fsencode(path.relative_to(source.folder)) for _, path in found]
        splits.append(Split(split, [label for label, _ in found], entries))
    _check(source.where, names, splits)
    return names, splits


def _pictures(folder: Path) -> Iterator[Path]:
    """Yield the pictures below a folder; links are not followed."""
    return (file for file in regular_files(folder, links=False) if file.suffix.lower() in PICTURES)


def _check(where: str, names: Sequence[str], splits: Sequence[Split]) -> None:
    train = next(split for split in splits if split.name == "train")
    if len(names) < 2:
        raise DataError(f"{where!r} has {len(names)} classes: give a folder with at least two classes.")
    if empty := set(range(len(names))) - set(train.labels):
        raise DataError(
            f"{where!r} has no picture of the class {names[min(empty)]!r} to train on: add some, or remove the class."
        )


# Parquet files


def _read_tables(found: DataSource) -> tuple[tuple[str, ...], list[Split]]:
    try:
        reader = hub_files.read(found, ROWS)
        column = reader.label_columns[0]
        told = {split: reader.labels(split)[column] for split in found.known.images}
    except (OSError, ValueError, KeyError) as error:
        raise unreadable_error(found, error) from error
    names = reader.names.get(column) or _names(told["train"])
    splits = [
        Split(split, _numbers(values, names), (picture for some in reader.images(split) for picture in some))
        for split, values in told.items()
        if all(isinstance(value, str) or value >= 0 for value in values)  # a test set without labels has -1
    ]
    _check(found.where, names, splits)
    return tuple(names), splits


def _names(values: list[Any]) -> tuple[str, ...]:
    """The names of classes that the files do not name: numbers in order, words in alphabetical order."""
    if all(isinstance(value, int) for value in values):
        return tuple(str(number) for number in range(max(values) + 1))
    return tuple(sorted({str(value) for value in values}))


def _numbers(values: list[Any], names: Sequence[str]) -> list[int]:
    places = {name: place for place, name in enumerate(names)}
    return [value if isinstance(value, int) else places[value] for value in values]
