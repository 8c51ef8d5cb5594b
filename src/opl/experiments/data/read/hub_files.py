"""Readers of the standard layouts: Parquet files, and what `datasets` wrote or finds as pictures in folders."""

import glob
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....errors import DataError
from ...files import read_limited
from .layouts import MOST_BYTES, PICTURES
from .source import SPLIT_WORD, DataSource, SourceReader, quote_names

SAVED = "dataset_dict.json"  # of `save_to_disk`
MOST_JSON = 1 << 24  # bytes of a description of a data set
_GROWTH = 100, 1 << 28  # what a Parquet file may unpack to: times its size, and bytes that any may


def read(found: DataSource, rows: int) -> SourceReader:
    """Open the data set, to be read `rows` images at a time."""
    return _read_parquet(found, rows) if found.parquet else _read_folder(found, rows)


def _read_parquet(found: DataSource, rows: int) -> SourceReader:
    files = {split: [open_parquet(file) for file in found.files[split]] for split in found.known.images}
    schema = next(iter(files.values()))[0].schema_arrow
    image, columns = _columns(found, schema.names)
    told = json.loads((schema.metadata or {}).get(b"huggingface", b"{}")).get("info", {}).get("features", {})
    names = {label: tuple(told[label]["names"]) for label in columns if "names" in told.get(label, {})}
    counts = {split: sum(file.metadata.num_rows for file in files[split]) for split in files}

    def labels(split: str) -> dict[str, list[Any]]:
        tables = [file.read(columns=list(columns)) for file in files[split]]
        return {label: [value for table in tables for value in table.column(label).to_pylist()] for label in columns}

    def images(split: str) -> Iterator[list[bytes]]:
        for file in files[split]:
            for table in file.iter_batches(batch_size=rows, columns=[image]):
                yield _encoded(found, table.column(image).to_pylist())

    return SourceReader(columns, names, counts, labels, images)


def open_parquet(file: Path) -> Any:
    """Open a Parquet file, unless it says that it unpacks to far more than it has."""
    import pyarrow.parquet as pq

    is_text = os.fsencode(file).decode(errors="replace") == str(file)  # pyarrow knows no other paths
    opened, size = pq.ParquetFile(file if is_text else file.open("rb")), file.stat().st_size
    groups = [opened.metadata.row_group(place) for place in range(opened.metadata.num_row_groups)]
    if opened.metadata.num_rows > size or max((group.num_rows for group in groups), default=0) > size:
        raise ValueError(f"{file.name} has {size:,} bytes and says that it has {opened.metadata.num_rows:,} rows")
    unpacked = sum(group.total_byte_size for group in groups)
    if unpacked > _GROWTH[0] * size + _GROWTH[1]:
        raise ValueError(f"{file.name} has {size:,} bytes and would unpack to {unpacked:,}")
    return opened


def _read_folder(found: DataSource, rows: int) -> SourceReader:
    import datasets

    if (found.folder / SAVED).is_file():
        _check_saved(found.folder)
        whole = datasets.load_from_disk(found.folder)
    else:
        whole = datasets.load_dataset("imagefolder", data_dir=str(found.folder), data_files=_patterns(found))
    if missing := [split for split in found.known.images if split not in whole]:
        raise DataError(
            f"{str(found.folder)!r} has no split {quote_names(missing)} of {found.known.name} "
            f"(there are {quote_names(whole)}): give the folder of the complete data set."
        )
    parts = {split: whole[split] for split in found.known.images}
    features = next(iter(parts.values())).features
    image, columns = _columns(found, list(features))
    names = {
        label: tuple(features[label].names) for label in columns if isinstance(features[label], datasets.ClassLabel)
    }
    encoded = {split: part.cast_column(image, datasets.Image(decode=False)) for split, part in parts.items()}

    def labels(split: str) -> dict[str, list[Any]]:
        table = parts[split].select_columns(list(columns)).with_format("arrow")[:]
        return {label: table.column(label).to_pylist() for label in columns}

    def images(split: str) -> Iterator[list[bytes]]:
        for table in encoded[split].with_format("arrow").iter(batch_size=rows):
            yield _encoded(found, table.column(image).to_pylist())

    return SourceReader(columns, names, {split: len(part) for split, part in parts.items()}, labels, images)


def _check_saved(folder: Path) -> None:
    """Check that the files that `save_to_disk` lists are in the folder: their names are only text in another file."""
    for split in _json(folder, Path(SAVED))["splits"]:
        state = _json(folder, Path(str(split)) / "state.json")
        for listed in state["_data_files"]:
            _inside(folder, folder / str(split) / listed["filename"])


def _json(folder: Path, name: Path) -> Any:
    return json.loads(read_limited(_inside(folder, folder / name), MOST_JSON))


def _patterns(found: DataSource) -> dict[str, list[str]]:
    """The pictures of each split, as patterns: nothing else in the folder, such as an archive, is looked at."""
    patterns: dict[str, set[str]] = {}
    for file in found.files[""]:
        above = file.relative_to(found.folder).parts[:-1]
        split = next((place for place, name in enumerate(above) if SPLIT_WORD.search(name)), None)
        if split is not None and file.suffix.lower() in PICTURES:
            name = SPLIT_WORD.search(above[split])
            pattern = f"{'/'.join(map(glob.escape, above[: split + 1]))}/**/*{file.suffix}"
            patterns.setdefault(name[1] if name else "", set()).add(pattern)
    if not patterns:
        raise ValueError("no Parquet files, no data set of save_to_disk, and no pictures as <split>/<class>/<picture>")
    return {split: sorted(each) for split, each in patterns.items()}


def _encoded(found: DataSource, entries: list[Any]) -> list[bytes]:
    return [encoded_picture(found, entry) for entry in entries]


def encoded_picture(found: DataSource, entry: Any) -> bytes:
    """Return the picture of a row, which holds it or names its file.

    Raises:
        OSError: the file cannot be read.
        ValueError: the row has no picture, or names no file in the folder of the data set.
    """
    if isinstance(entry, bytes):
        return entry
    held = entry if isinstance(entry, dict) else {"path": entry}
    return held.get("bytes") or _named(found, held.get("path"))


def image_column(found: DataSource, there: list[str]) -> str:
    """Return the column of the images."""
    return _columns(found, there)[0]


def _named(found: DataSource, path: object) -> bytes:
    """Read a picture that a row names instead of holding it."""
    if not isinstance(path, str):
        raise ValueError("a row has neither a picture nor the path of one")
    return read_limited(_inside(found.folder, found.folder / path), MOST_BYTES)


def _inside(folder: Path, file: Path) -> Path:
    """Return a regular file, wherever links lead, if it is in the folder."""
    place = file.resolve()
    if not place.is_relative_to(folder.resolve()) or not place.is_file():
        raise ValueError(f"{str(file)!r:.200} is named, which is no regular file in the folder of the data set")
    return place


def _columns(found: DataSource, there: list[str]) -> tuple[str, tuple[str, ...]]:
    known = found.known
    image = next((name for name in known.image_columns if name in there), None)
    label = next((name for name in known.label_columns if name in there), None)
    if image is None or label is None:
        wanted = known.image_columns if image is None else known.label_columns
        raise DataError(
            f"{known.name} in {str(found.folder)!r} has no column {quote_names(wanted, 'or')} "
            f"(there are {quote_names(there)}): rename the column that holds it."
        )
    return image, (label, *(name for name in known.other_columns if name in there))
