"""Pictures in Parquet files in the Hub's layout, in a folder, in one file, or downloaded."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....errors import DataError
from . import hub_files
from .catalog import CatalogEntry
from .listing import IMAGE_COLUMNS, LABEL_COLUMNS, Entry, Listing, count, fingerprint_files, name_some
from .picture_source import ROWS, locate_pictures
from .source import DataSource, one_line, unreadable_error


def table_entry(
    name: str, hub: str = "", images: Sequence[str] = IMAGE_COLUMNS, labels: Sequence[str] = LABEL_COLUMNS
) -> CatalogEntry:
    """The catalog entry of Parquet files of which only the possible columns are known."""
    return CatalogEntry(name, hub, {}, 0, "RGB", "", image_columns=tuple(images), label_columns=tuple(labels))


def list_parquet(path: Path | None, known: CatalogEntry) -> Listing:
    """List the pictures of a Parquet file, of a folder of them or, without a path, of a data set of the Hub.

    Raises:
        DataError: there are none, or they cannot be read.
    """
    found = _locate(path, known)
    try:
        reader = hub_files.read(found, ROWS)
        column = reader.label_columns[0]
        told = {split: reader.labels(split)[column] for split in found.known.images}
    except DataError as error:
        raise DataError(f"{error} Or name it with --image-column or --label-column.") from error
    except Exception as error:  # pyarrow raises many kinds for damaged files
        raise unreadable_error(found, error) from error
    names = reader.names.get(column, ())
    entries: list[Entry] = []
    places: list[tuple[str, int]] = []
    unlabeled: list[str] = []
    for split, values in told.items():
        for row, value in enumerate(values):
            word = _word(value, names)
            if word is None:
                unlabeled.append(f"row {row} of {split!r}")
            else:
                entries.append(Entry(split if len(told) > 1 else "", word, f"row {row} of {split!r}"))
                places.append((split, row))
    notes = [f"Left out: {count(len(unlabeled), 'row')} without a label ({name_some(unlabeled)})."] if unlabeled else []
    files = [file for split in found.known.images for file in found.files[split]]
    return Listing(
        found.where,
        "Parquet",
        tuple(entries),
        lambda rows: _read(found, [places[row] for row in rows]),
        fingerprint_files(files, column),
        names,
        tuple(notes),
    )


def _locate(path: Path | None, known: CatalogEntry) -> DataSource:
    if path is not None and path.is_file():
        single = replace(known, hub="", images={"train": 0})
        return DataSource(single, path.parent, {"train": (path,)}, str(path))
    source = locate_pictures(known, str(path or ""))
    if source.tables is None:
        raise DataError(f"{source.where!r} has pictures in class folders and no Parquet files: give that folder.")
    return source.tables


def _word(value: Any, names: Sequence[str]) -> str | None:
    """The name of a class; None if the row has none: the Hub's test sets without labels have -1."""
    if value is None or value == "" or (isinstance(value, int | float) and value < 0):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if names and isinstance(value, int):
        return names[value] if value < len(names) else None
    return str(value)


def _read(found: DataSource, places: Sequence[tuple[str, int]]) -> Iterator[bytes | str]:
    """Yield the pictures of some rows, in order; all rows before the last of them are read."""
    for split in found.known.images:
        wanted = [row for each, row in places if each == split]
        yield from _read_split(found, split, wanted)


def _read_split(found: DataSource, split: str, wanted: Sequence[int]) -> Iterator[bytes | str]:
    left, start = iter(wanted), 0
    row = next(left, None)
    for file in found.files[split]:
        if row is None:
            return
        opened = hub_files.open_parquet(file)
        column = hub_files.image_column(found, opened.schema_arrow.names)
        for table in opened.iter_batches(batch_size=ROWS, columns=[column]):
            while row is not None and row < start + table.num_rows:
                yield _picture(found, table.column(column)[row - start].as_py())
                row = next(left, None)
            start += table.num_rows
            if row is None:
                return


def _picture(found: DataSource, entry: Any) -> bytes | str:
    try:
        return hub_files.encoded_picture(found, entry)
    except (OSError, ValueError) as error:
        return one_line(error)
