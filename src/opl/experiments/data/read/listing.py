"""The one listing: which images a data set has, as rows of (source, label, part), whatever the layout of its files.

This module has the types that all layouts share, and the layouts in which each image is a file: class folders,
CSV files and folders of domains. Parquet files are listed by `parquet`, arrays by `array_files`, and few-shot data
sets by `few_shot_files`. Nothing is decoded here.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from ....errors import DataError
from ...files import read_limited
from ...terminal import count
from .catalog import CatalogEntry

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
T = TypeVar("T")

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"))
"""The suffixes of image files, in lower case."""
IMAGE_COLUMNS = ("image", "img", "path", "image_path", "file", "filename", "file_name", "filepath")
LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "fine_label", "class_name", "y")
PART_COLUMNS = ("split", "part", "subset", "set")
"""Usual names of columns in tables; the first that exists is used."""
PARTS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
"""Names of folders, files and values that stand for a part, and the name of the part."""
CSV_SUFFIXES = (".csv", ".tsv")
DELIMITERS = ",;\t"
MOST_CSV_BYTES = 1 << 30
ALL = "all"  # the only part of a data set whose classes are chosen
NAMED = 3  # files that a note names
DEEPEST = 4  # folders with nothing but another folder in them


class Unreadable(NamedTuple):
    """Stands for an image that cannot be read."""

    reason: str


Source = bytes | Path | Pixels | Unreadable
"""An encoded image, an image file, the pixels themselves, or the reason why there is no image."""


@dataclass(frozen=True)
class ClassChoice:
    """The classes of a data set to list; see `meta_dataset`."""

    classes: tuple[str, ...]
    """The classes, in the order of their labels."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of classes, which the files may use."""
    columns: tuple[str, ...] = ()
    """Columns of Parquet files that form the class name, joined by '/'; empty for only the label."""
    invert: bool = False
    """Whether black and white are exchanged."""
    most: int = 0
    """The most images per class, evenly spread; 0 lists all."""

    def spread(self, images: Sequence[T]) -> list[T]:
        """Return the images of a class that are listed."""
        count = min(self.most or len(images), len(images))
        return [images[index * len(images) // count] for index in range(count)]


@dataclass(frozen=True)
class DataFiles:
    """The files of a data set on this machine: by part if they are Parquet, otherwise all of them under ''."""

    known: CatalogEntry
    folder: Path
    files: Mapping[str, tuple[Path, ...]]
    where: str
    """For messages: the folder, or the Hub id."""
    layout: str = ""
    """How to list them: see `serve.LISTINGS`."""
    bgr: bool = False
    """Whether the arrays in the files are BGR."""
    choice: ClassChoice | None = None

    @property
    def parquet(self) -> bool:
        """Whether the files are Parquet."""
        return "" not in self.files

    @property
    def all_files(self) -> list[Path]:
        """All files, part by part."""
        return [file for part in sorted(self.files) for file in self.files[part]]

    @property
    def called(self) -> str:
        """For messages: the name of the data set, and its folder."""
        return f"{self.known.name} in {str(self.folder)!r}"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Convert any error while the files are listed or decoded to a `DataError`."""
        try:
            yield
        except DataError:
            raise
        except Exception as error:  # pyarrow, h5py and Pillow raise errors of any kind for damaged files
            layout = "one of its layouts" if self.layout else "the Hugging Face layout"
            raise DataError(
                f"{self.called} cannot be read ({type(error).__name__}: {one_line(error)}): check that its files are "
                f"complete and in {layout}."
            ) from error


@dataclass(frozen=True)
class Listing:
    """The images of a data set: for each row its part, its labels, and a way to read it."""

    where: str
    """For messages: the folder, the file, or the Hub id."""
    parts: Sequence[str]
    """The part of each row; empty if the data has no parts."""
    labels: Mapping[str, Sequence[Any]]
    """The labels of all rows, by column; the class column comes first."""
    read: Callable[[Sequence[int]], Iterator[Source]]
    """Yields the images of some rows, in ascending order."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Value names by column, where the files contain them."""
    row_name: Callable[[int], str] = "row {}".format
    """The name of a row, for messages."""
    resize: Literal["", "bilinear", "bicubic"] = ""
    """How images are resized to the size of the data set; empty if they already have it."""
    notes: tuple[str, ...] = ()
    """What was left out, in sentences."""
    folder: Path = Path()
    files: Sequence[Path] = ()
    """For images that a user names: the files that hold them, and a folder that holds these."""

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def label(self) -> str:
        """The class column."""
        return next(iter(self.labels))

    def rows_of(self, part: str) -> list[int]:
        """Return the rows of a part."""
        return [row for row, name in enumerate(self.parts) if name == part]

    def take(self, rows: Sequence[int]) -> Self:
        """Return a listing of some rows, in ascending order."""
        return replace(
            self,
            parts=[self.parts[row] for row in rows],
            labels={column: [values[row] for row in rows] for column, values in self.labels.items()},
            read=lambda chosen: self.read([rows[row] for row in chosen]),
            row_name=lambda row: self.row_name(rows[row]),
        )


def list_files(where: str, rows: Sequence[tuple[str, Any, Source]], **more: Any) -> Listing:
    """Return the listing of images, each a file, from rows of (part, label, file)."""
    files = [file for _, _, file in rows]
    labels = {"label": [label for _, label, _ in rows]}
    return Listing(where, [part for part, _, _ in rows], labels, lambda chosen: (files[row] for row in chosen), **more)


Block = tuple[str, int, Callable[[], Iterator[Source]]]
"""Consecutive images of one part: the part, their number, and a function that opens them."""


def list_blocks(where: str, blocks: Sequence[Block], labels: Mapping[str, Sequence[Any]], **more: Any) -> Listing:
    """Return the listing of images that are read block by block."""
    parts = [part for part, count, _ in blocks for _ in range(count)]
    return Listing(where, parts, labels, lambda rows: read_blocks(blocks, rows), **more)


def read_blocks(blocks: Iterable[Block], rows: Sequence[int]) -> Iterator[Source]:
    """Yield the images of ascending rows; blocks that are not needed stay closed.

    Example:
        >>> list(read_blocks([("train", 2, lambda: iter([b"a", b"b"])), ("test", 1, lambda: iter([b"c"]))], [1, 2]))
        [b'b', b'c']
    """
    remaining, start = iter(rows), 0
    row = next(remaining, None)
    for _, length, open_block in blocks:
        end = start + length
        if row is not None and row < end:
            for index, source in enumerate(open_block(), start):
                if index == row:
                    yield source
                    row = next(remaining, None)
                if row is None or row >= end:
                    break
        start = end


def named_columns(name: str, hub: str, image_column: str, label_column: str) -> CatalogEntry:
    """Return the entry of a data set outside of the catalog; an empty column name stands for the usual names.

    Example:
        >>> named_columns("pets", "", "picture", "").image_columns
        ('picture',)
    """
    images = (image_column,) if image_column else IMAGE_COLUMNS
    labels = (label_column,) if label_column else LABEL_COLUMNS
    return CatalogEntry(name, hub, image_columns=images, label_columns=labels)


# Labels and messages


def class_ids(values: Sequence[Any], names: Sequence[str] = ()) -> tuple[Numbers, tuple[str, ...]]:
    """Convert labels to integers; text is numbered as in `names`, or alphabetically if there are none.

    Raises:
        ValueError: a label is neither an integer nor text, or is not among the names.

    Example:
        >>> class_ids(["cat", "ant", "cat"])
        (array([1, 0, 1]), ('ant', 'cat'))
    """
    kinds = {type(value) for value in values}
    if invalid := [kind for kind in kinds if not issubclass(kind, str | int)]:
        example = next(value for value in values if type(value) is invalid[0])
        raise ValueError(f"the label {example!r:.40} of type {type(example).__name__} is neither an integer nor text")
    if str in kinds and len(kinds) > 1:
        raise ValueError("some labels are numbers and others are text")
    if str in kinds:
        names = tuple(names) or tuple(sorted(set(values)))
        number = {name: index for index, name in enumerate(names)}
        if unknown := set(values) - set(number):
            raise ValueError(f"the label {min(unknown)!r:.60} is not among its {len(names)} class names")
        values = [number[value] for value in values]
    try:
        return np.asarray(values, dtype=np.int64), tuple(names)
    except OverflowError as error:
        raise ValueError("a label has more than 64 bits") from error


def check_names(column: str, names: Sequence[str]) -> None:
    """Raise a ValueError if two classes have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"two classes of {column!r} with the name {twice!r:.60}")


def named_labels(values: Sequence[Any], names: Sequence[str], respell: Mapping[str, str]) -> list[str]:
    """Convert labels to class names; integers without names become their digits."""
    ids, classes = class_ids(values, () if any(isinstance(value, str) for value in values) else names)
    classes = tuple(respell.get(name, name) for name in classes)
    return [classes[number] if classes else str(number) for number in ids.tolist()]


def numbers_first(name: str) -> tuple[bool, int, str]:
    """Return a key that sorts numbers by value, before words in alphabetical order."""
    return not name.isdecimal(), int(name) if name.isdecimal() else 0, name


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def quote_names(names: Iterable[object], joint: str = "and") -> str:
    """Return quoted names, joined for a message."""
    return f" {joint} ".join(repr(str(name)) for name in names) or "none"


def name_some(names: Sequence[str]) -> str:
    """Return the first names of a list, and how many more there are.

    Example:
        >>> name_some(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


# Folders


def is_image(file: Path) -> bool:
    """Return whether a file has the suffix of an image."""
    return file.suffix.lower() in SUFFIXES


def walk(folder: Path, *, deep: bool = True, links: bool = True, irregular: list[Path] | None = None) -> Iterator[Path]:
    """Yield the visible files of a folder, and of its subfolders if `deep`, in order of their names.

    Args:
        folder: the folder; nothing is yielded if it does not exist.
        deep: whether to enter subfolders.
        links: whether links to files count as files.
        irregular: collects linked folders, and images that are not files; without it, the first one raises an
            error, because its images would be left out silently.
    """
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
        if entry.name.startswith("."):
            continue
        if entry.is_file(follow_symlinks=links):
            yield path
        elif deep and is_folder and not (is_image(path) and not os.listdir(path)):
            yield from walk(path, links=links, irregular=irregular)
        elif is_image(path) or (deep and entry.is_dir()):
            if irregular is None:
                kind = "a link" if entry.is_symlink() else "an empty folder" if is_folder else "not a file"
                raise DataError(f"{str(path)!r} is {kind}: replace it with an image or a folder, or remove it.")
            irregular.append(path)


def walk_images(folder: Path, *, deep: bool = True, links: bool = True) -> Iterator[Path]:
    """Yield the image files of a folder; see `walk`."""
    return filter(is_image, walk(folder, deep=deep, links=links))


def confine(folder: Path, path: str | Path) -> Path:
    """Return the file that a row names, with links resolved.

    Raises:
        OSError, ValueError or RuntimeError: it is not a regular file in the folder.
    """
    target = (folder / path).resolve()
    if not target.is_relative_to(folder.resolve()) or not target.is_file():
        raise ValueError(f"{str(path)!r:.200} is not a regular file in the folder of the data set")
    return target


def table_files(folder: Path, suffix: str) -> list[Path]:
    """Return the visible tables of a folder, up to two subfolders deep."""
    patterns = (f"*{suffix}", f"*/*{suffix}", f"*/*/*{suffix}")
    files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
    return [file for file in files if file.is_file() and not file.name.startswith(".")]


def subfolders(folder: Path) -> list[Path]:
    """Return the visible folders inside a folder, in order of their names."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__MACOSX")))


def class_folders(folder: Path) -> tuple[Path, Mapping[str, Sequence[Path]]]:
    """Return the folder that holds the classes, and the class folders by part; the part is '' if there are no parts.

    Folders with nothing but one folder of folders in them, as archives often have, are skipped.
    """
    for _ in range(DEEPEST):
        inside = subfolders(folder)
        if len(inside) != 1 or not subfolders(inside[0]) or any(walk(folder, deep=False, irregular=[])):
            break
        folder = inside[0]
    parts: dict[str, list[Path]] = {}
    for path in subfolders(folder):
        if part := PARTS.get(path.name.lower()):
            parts.setdefault(part, []).extend(subfolders(path))
    return folder, parts if parts.get("train") else {"": subfolders(folder)}


def list_class_folders(folder: Path) -> Listing | None:
    """List images in `<class>/<image>` or `<part>/<class>/<image>`; None if there are no folders with images.

    Notes list what was left out: other files, linked folders, images outside of class folders, empty classes.
    """
    base, parts = class_folders(folder)
    rows: list[tuple[str, str, Path]] = []
    others: list[Path] = []
    links: list[Path] = []
    empty: list[Path] = []
    for part, classes in parts.items():
        for path in classes:
            files = sorted(walk(path, irregular=links), key=lambda file: (file.parent.parts, file.name))
            images = list(filter(is_image, files))
            rows += [(part, path.name, image) for image in images]
            others += [file for file in files if not is_image(file)]
            empty += [] if images else [path]
    if not rows:
        return None
    tops = {base, *(path.parent for classes in parts.values() for path in classes)}
    loose = [file for top in tops for file in walk(top, deep=False, irregular=[])]
    notes = [] if base == folder else [f"The classes are the folders in {_inside(base, folder)}."]
    others += [file for file in loose if not is_image(file)]
    for paths, noun, plural in (
        (others, "file that is not an image", "files that are not images"),
        (list(filter(is_image, loose)), "image outside of the class folders", "images outside of the class folders"),
        (links, "linked folder or special file", "linked folders or special files"),
        (empty, "class folder without images", "class folders without images"),
    ):
        if paths:
            names = sorted(_inside(path, folder) for path in paths)
            notes.append(f"Left out: {count(len(names), noun, plural)} ({name_some(names)}).")
    files = [file for _, _, file in rows]
    more = {"row_name": lambda row: _inside(files[row], folder), "notes": tuple(notes)}
    return list_files(str(folder), rows, folder=folder, files=files, **more)


def _inside(file: Path, folder: Path) -> str:
    return file.relative_to(folder).as_posix()


def list_domain_folders(files: DataFiles) -> Listing:
    """List images in `<domain>/<class>/<image>`, with the columns `label`, `domain` and `file`."""
    images = list(filter(is_image, files.files[""]))
    inside = [image.relative_to(files.folder) for image in images]
    if len({path.parts[:-3] for path in inside}) > 1 or any(len(path.parts) < 3 for path in inside):
        raise DataError(
            f"{files.called} has images at different depths, for instance "
            f"{str(min(inside, key=lambda path: len(path.parts)))!r}: choose a folder in which all of them are "
            "'<domain>/<class>/<image>'."
        )
    labels = {
        "label": [path.parts[-2] for path in inside],
        "domain": [path.parts[-3] for path in inside],
        "file": ["/".join(path.parts[-3:]) for path in inside],
    }
    names = {column: tuple(sorted(set(values))) for column, values in labels.items()}
    listing = list_files(files.where, [("train", "", image) for image in images], names=names, resize="bilinear")
    return replace(listing, labels=labels)


def list_chosen_folders(files: DataFiles, choice: ClassChoice) -> Listing:
    """List images of some classes; the path of a class folder inside the data set is the name of its class."""
    folders: dict[str, list[Path]] = {}
    for file in filter(is_image, files.files[""]):
        folders.setdefault(file.parent.relative_to(files.folder).as_posix(), []).append(file)
    keys = class_keys(files, choice, folders)
    rows = [(ALL, label, file) for label, key in enumerate(keys) for file in choice.spread(sorted(folders[key]))]
    return list_files(files.where, rows, names={"label": choice.classes}, resize="bilinear")


def class_keys(files: DataFiles, choice: ClassChoice, available: Iterable[str]) -> list[str]:
    """Return the name of each chosen class in the files: its name or its alias."""
    available = set(available)
    keys = [name if name in available else choice.aliases.get(name, name) for name in choice.classes]
    if missing := [name for name, key in zip(choice.classes, keys, strict=True) if key not in available]:
        raise DataError(
            f"{files.called} has no images of the class {missing[0]!r} of its specification ({len(missing)} of "
            f"{len(keys)} are missing): use the complete data set."
        )
    return keys


# CSV


def list_csv(files: Sequence[Path], where: Path, images: Sequence[str], labels: Sequence[str]) -> Listing:
    """List the images that CSV files name, relative to their folder.

    The part of an image is in a column such as `split`, or else in the name of its file, as in `train.csv`.

    Raises:
        DataError: no file can be read and has both a column of `images` and a column of `labels`.
    """
    rows: list[tuple[str, str, Source]] = []
    paths: list[str] = []
    notes, errors = [], []
    for file in files:
        try:
            heading, lines = _read_csv(file)
            image, label = _column(file, heading, images, "image"), _column(file, heading, labels, "label")
        except DataError as error:
            errors.append(error)
            continue
        part = next((heading.index(name) for name in PART_COLUMNS if name in heading), None)
        incomplete = []
        for number, line in enumerate(lines, 2):
            path, class_name = line[image].strip(), line[label].strip()
            if not path or not class_name:
                incomplete.append(f"line {number}")
                continue
            part_name = PARTS.get(line[part].strip().lower(), "") if part is not None else _part_of(file, files)
            rows.append((part_name, class_name, _image_of(file.parent, path)))
            paths.append(path)
        if incomplete:
            notes.append(
                f"Left out: {count(len(incomplete), 'row')} of {file.name} without a path or a label "
                f"({name_some(incomplete)})."
            )
    if not rows:
        raise errors[0] if errors else DataError(f"{str(where)!r} names no images: use a CSV file with rows.")
    notes += [f"Left out: {error}" for error in errors]
    folder = (where if where.is_dir() else where.parent).resolve()
    sources = [*(file.resolve() for file in files), *(source for _, _, source in rows if isinstance(source, Path))]
    more = {"row_name": paths.__getitem__, "notes": tuple(notes)}
    return list_files(str(where), rows, folder=folder, files=sources, **more)


def _read_csv(file: Path) -> tuple[list[str], Iterable[list[str]]]:
    """Return the heading in lower case, and the rows, padded to its length."""
    try:
        text = read_limited(file, MOST_CSV_BYTES).decode("utf-8-sig", "replace")
        first = text.partition("\n")[0]
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=max(DELIMITERS, key=first.count)))
    except (OSError, csv.Error) as error:
        raise DataError(f"{str(file)!r} cannot be read as CSV ({error}): check the file.") from error
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    width = len(heading)
    return heading, [(row + [""] * width)[:width] for row in rows[1:] if row]


def _column(file: Path, heading: Sequence[str], names: Sequence[str], what: str) -> int:
    name = next((name.lower() for name in names if name.lower() in heading), None)
    if name is None:
        raise DataError(
            f"{file.name} has no column {' or '.join(map(repr, names))} (its columns: {quote_names(heading)}): name "
            f"the column of {what}s with --{what}-column."
        )
    if heading.count(name) > 1:
        raise DataError(f"{file.name} has {heading.count(name)} columns {name!r}: rename or remove all but one.")
    return heading.index(name)


def _part_of(file: Path, files: Sequence[Path]) -> str:
    """Return the part in the name of a file, if there are several files."""
    stem = file.stem.lower().replace("-", "_").split("_")
    return next((PARTS[term] for term in stem if term in PARTS), "") if len(files) > 1 else ""


def _image_of(folder: Path, path: str) -> Source:
    """Return the file that a row names, or the reason why it is not read."""
    try:
        return confine(folder, path)
    except (OSError, ValueError, RuntimeError) as error:
        return Unreadable(one_line(error))
