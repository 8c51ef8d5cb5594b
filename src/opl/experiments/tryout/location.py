"""From the words of a user to a list of their pictures: a folder, a CSV or Parquet file, or a Hub id."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import DataError
from ..data.read import hub
from ..data.read.catalog import CatalogEntry
from ..data.read.csv_listing import SUFFIXES, list_csv
from ..data.read.folder_listing import list_class_folders
from ..data.read.listing import IMAGE_COLUMNS, LABEL_COLUMNS, Listing
from ..data.read.parquet_listing import list_parquet, table_entry
from ..data.read.source import find_entry, find_local, one_line

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
LAYOUTS = (
    "a folder of class folders ('<class>/<picture>' or 'train/<class>/<picture>'), a CSV or Parquet file with a column "
    "of images and one of labels, or a Hub id such as 'owner/name'"
)


def list_pictures(target: str, image_column: str = "", label_column: str = "") -> Listing:
    """List the pictures that a user names.

    Args:
        target: a folder, a file, or a Hub id.
        image_column: of a table; if empty, the usual names are tried.
        label_column: of a table; if empty, the usual names are tried.

    Raises:
        DataError: there are none, and what could be given instead.
    """
    images = (image_column,) if image_column else IMAGE_COLUMNS
    labels = (label_column,) if label_column else LABEL_COLUMNS
    path = Path(target).expanduser()
    known = table_entry(short_name(target), "" if path.exists() else target, images, labels)
    if path.is_dir():
        return _in_folder(path, images, labels)
    if path.suffix.lower() == ".parquet" and path.is_file():
        return list_parquet(path, known)
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return list_csv([path], path, images, labels)
    if path.exists():
        raise DataError(f"{target!r} is neither a folder nor a CSV or Parquet file: give {LAYOUTS}.")
    if not HUB_ID.fullmatch(target):
        raise DataError(f"there is no folder or file {target!r}: give {LAYOUTS}.")
    _reach(known)
    return list_parquet(None, known)


def _reach(known: CatalogEntry) -> None:
    """Download a data set of the Hub, unless it is here already."""
    if find_local(known) is not None:
        return
    if hub.is_offline() or not hub.is_reachable():
        raise DataError(
            f"there is no folder {known.hub!r} here, and as a data set of the Hub it needs the network, which cannot "
            "be reached (or HF_HUB_OFFLINE is set): give a folder, or run this where there is a network."
        )
    try:
        find_entry(known)
    except DataError as error:
        why = one_line(error.__cause__) if isinstance(error.__cause__, Exception) else "it has no Parquet files"
        raise DataError(
            f"the Hub's data set {known.hub!r} cannot be used ({why}): check the id, give a data set with Parquet "
            "files, or give a folder."
        ) from error


def short_name(target: str) -> str:
    """A name for folders and tables, from the last parts of a path or a Hub id.

    Example:
        >>> short_name("~/My Photos/pets/"), short_name("owner/name")
        ('pets', 'owner-name')
    """
    path = Path(target).expanduser()
    path = path.with_suffix("") if path.suffix.lower() in (*SUFFIXES, ".parquet") else path
    parts = [part for part in path.parts if part not in ("/", ".", "..")]
    words = parts if HUB_ID.fullmatch(target) and not Path(target).exists() else parts[-1:]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", "-".join(words)).strip("-_")[:60] or "images"


def _in_folder(folder: Path, images: tuple[str, ...], labels: tuple[str, ...]) -> Listing:
    found = list_class_folders(folder)
    if found is not None and len({entry.label for entry in found.entries}) > 1:
        return found
    if next(_tables(folder, ".parquet"), None):
        return list_parquet(folder, table_entry(short_name(str(folder)), "", images, labels))
    if tables := [file for suffix in SUFFIXES for file in _tables(folder, suffix)]:
        return list_csv(tables, folder, images, labels)
    if found is not None:
        return found
    there = sorted(each.name for each in folder.iterdir())
    inside = f"there are {', '.join(map(repr, there[:5]))}" if there else "it is empty"
    raise DataError(f"{str(folder)!r} has no class folders with pictures, and no tables ({inside}): give {LAYOUTS}.")


def _tables(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield the tables of a folder and of those in it."""
    for pattern in (f"*{suffix}", f"*/*{suffix}", f"*/*/*{suffix}"):
        yield from sorted(file for file in folder.glob(pattern) if file.is_file() and not file.name.startswith("."))
