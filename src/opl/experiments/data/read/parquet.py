"""Listings of Parquet files, and of folders that only the `datasets` library reads."""

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ....errors import DataError
from ...files import read_limited
from .listing import (
    ALL,
    ClassChoice,
    DataFiles,
    Listing,
    Source,
    Unreadable,
    check_names,
    class_keys,
    class_words,
    is_image,
    one_line,
    quote_names,
    read_blocks,
)

PART_WORD = re.compile(r"(?:^|[-_.])(train|test|validation)(?:$|[-_.])")
SAVED = "dataset_dict.json"  # of `save_to_disk`
ROWS = 256  # read at a time
MOST_JSON_BYTES = 1 << 24  # of a description of a data set
MOST_IMAGE_BYTES = 1 << 28
_GROWTH = 100, 1 << 28  # what a Parquet file may unpack to: times its size, and bytes that any file may


def list_tables(files: DataFiles) -> Listing:
    """List Parquet files, what `save_to_disk` wrote, or images as `<part>/<class>/<image>`."""
    return list_parquet(files) if files.parquet else _list_with_datasets(files)


def list_parquet(files: DataFiles) -> Listing:
    """List the rows of Parquet files, part by part."""
    opened = [(part, open_parquet(file)) for part in files.known.images for file in files.files[part]]
    image, columns = _columns(files, opened[0][1].schema_arrow.names)
    first = _class_names(opened[0][1], columns)
    names_of = [_class_names(file, columns) or first for _, file in opened]
    same = all(names == first for names in names_of)
    labels: dict[str, list[Any]] = {column: [] for column in columns}
    for (_, file), names in zip(opened, names_of, strict=True):
        table = file.read(columns=list(columns))
        for column in columns:
            values = table.column(column).to_pylist()
            labels[column] += values if same else _words(values, column, names.get(column, ()))
    blocks = [(file.metadata.num_rows, partial(_read_images, files, file, image)) for _, file in opened]
    parts = [part for part, file in opened for _ in range(file.metadata.num_rows)]
    starts = {part: parts.index(part) for part in {*parts}}
    return Listing(
        files.where,
        parts,
        labels,
        lambda rows: read_blocks(blocks, rows),
        first if same else {},
        lambda row: f"row {row - starts[parts[row]]} of {parts[row]!r}",
    )


def _words(values: Sequence[Any], column: str, names: Sequence[str]) -> list[Any]:
    """Replace numbers by class names: the files of different parts may number their classes differently."""
    check_names(column, names)
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else value for value in values]


def _class_names(file: Any, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the value names of label columns that the schema of a file contains."""
    metadata = json.loads((file.schema_arrow.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    return {column: tuple(features[column]["names"]) for column in columns if "names" in features.get(column, {})}


def _read_images(files: DataFiles, file: Any, column: str) -> Iterator[Source]:
    for table in file.iter_batches(batch_size=ROWS, columns=[column]):
        for entry in table.column(column).to_pylist():
            yield _encoded(files, entry)


def open_parquet(file: Path) -> Any:
    """Open a Parquet file.

    Raises:
        ValueError: the file claims to unpack to far more than its size.
    """
    import pyarrow.parquet as pq

    is_text = os.fsencode(file).decode(errors="replace") == str(file)  # pyarrow knows no other paths
    opened, size = pq.ParquetFile(file if is_text else file.open("rb")), file.stat().st_size
    groups = [opened.metadata.row_group(index) for index in range(opened.metadata.num_row_groups)]
    if opened.metadata.num_rows > size or max((group.num_rows for group in groups), default=0) > size:
        raise ValueError(f"{file.name} has {size:,} bytes but claims {opened.metadata.num_rows:,} rows")
    unpacked = sum(group.total_byte_size for group in groups)
    if unpacked > _GROWTH[0] * size + _GROWTH[1]:
        raise ValueError(f"{file.name} has {size:,} bytes and would unpack to {unpacked:,}")
    return opened


def count_rows(files: DataFiles) -> int | None:
    """Return the number of images from the metadata of Parquet files; None if the files would have to be read."""
    if not files.parquet or files.layout:
        return None
    import pyarrow.parquet as pq

    try:
        return sum(int(pq.read_metadata(file).num_rows) for part in files.known.images for file in files.files[part])
    except Exception:  # pyarrow raises many kinds of errors for damaged files
        return None


def _columns(files: DataFiles, there: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the image column, and the label columns with the class column first."""
    known = files.known
    image = next((name for name in known.image_columns if name in there), None)
    label = next((name for name in known.label_columns if name in there), None)
    if image is None or label is None:
        wanted = known.image_columns if image is None else known.label_columns
        raise DataError(
            f"{known.name} in {str(files.folder)!r} has no column {quote_names(wanted, 'or')} "
            f"(its columns: {quote_names(there)}): rename the column."
        )
    return image, tuple(dict.fromkeys((label, *(name for name in known.other_columns if name in there))))


def _encoded(files: DataFiles, entry: Any) -> Source:
    """Return the image of a row, which holds it or names its file."""
    if isinstance(entry, bytes):
        return entry
    held = entry if isinstance(entry, dict) else {"path": entry}
    if held.get("bytes"):
        return bytes(held["bytes"])
    try:
        if not isinstance(held.get("path"), str):
            raise ValueError("a row has neither an image nor the path of one")
        return read_limited(_confined(files.folder, files.folder / held["path"]), MOST_IMAGE_BYTES)
    except (OSError, ValueError) as error:
        return Unreadable(one_line(error))


def _confined(folder: Path, file: Path) -> Path:
    """Return a regular file, wherever links lead, if it is in the folder."""
    target = file.resolve()
    if not target.is_relative_to(folder.resolve()) or not target.is_file():
        raise ValueError(f"{str(file)!r:.200} is not a regular file in the folder of the data set")
    return target


# Tables with domains or chosen classes


def list_domain_table(files: DataFiles) -> Listing:
    """List a table with a domain column; if it contains the names of its files, also with the column `file`."""
    listing = list_tables(files)
    column = files.known.other_columns[0]
    if column not in listing.labels:
        raise DataError(
            f"{files.known.name} in {str(files.folder)!r} has no column {column!r} (its label columns: "
            f"{quote_names(listing.labels)}): name the column of the domains."
        )
    values, names = listing.labels[listing.label], listing.names.get(listing.label, ())
    domains = class_words(listing.labels[column], listing.names.get(column, ()), {})
    labels: dict[str, Sequence[Any]] = {"label": values, "domain": domains}
    if paths := _paths(files):
        classes = class_words(values, names, {})
        labels["file"] = ["/".join(parts) for parts in zip(domains, classes, paths, strict=True)]
    return replace(
        listing, labels=labels, names={"label": names, "domain": tuple(sorted(set(domains)))}, resize="bilinear"
    )


def _paths(files: DataFiles) -> list[str]:
    """Return the file name of every image if the Parquet files contain all of them; otherwise an empty list."""
    paths: list[Any] = []
    for file in files.files["train"] if files.parquet else ():
        opened = open_parquet(file)
        image = next(name for name in files.known.image_columns if name in opened.schema_arrow.names)
        if f"{image}.path" not in [opened.schema.column(index).path for index in range(len(opened.schema))]:
            return []
        paths += [entry["path"] for entry in opened.read(columns=[f"{image}.path"]).column(image).to_pylist()]
    return [Path(path).name for path in paths] if all(paths) else []


def list_chosen_table(files: DataFiles, choice: ClassChoice) -> Listing:
    """List the rows of some classes; one column or several columns form the name of a class."""
    listing = list_tables(files)
    columns = choice.columns or (listing.label,)
    if missing := [name for name in columns if name not in listing.labels]:
        raise DataError(
            f"{files.known.name} in {str(files.folder)!r} has no column {missing[0]!r} (its label columns: "
            f"{quote_names(listing.labels)}): name columns that exist."
        )
    known = files.known
    columns_of_names = [
        class_words(listing.labels[name], listing.names.get(name, ()) or known.names, known.respell) for name in columns
    ]
    names = ["/".join(parts) for parts in zip(*columns_of_names, strict=True)]
    class_keys(files, choice, names)
    number = {name: index for index, name in enumerate(choice.classes)}
    rows_of: dict[int, list[int]] = {}
    for row, name in enumerate(names):
        if name in number:
            rows_of.setdefault(number[name], []).append(row)
    label_of = {row: label for label, rows in rows_of.items() for row in choice.spread(rows)}
    rows = sorted(label_of)
    return replace(
        listing.take(rows),
        parts=[ALL] * len(rows),
        labels={"label": [label_of[row] for row in rows]},
        names={"label": choice.classes},
        resize="bilinear",
    )


# The library `datasets`


def _list_with_datasets(files: DataFiles) -> Listing:
    import datasets

    if (files.folder / SAVED).is_file():
        _check_saved(files.folder)
        whole = datasets.load_from_disk(files.folder)
    else:
        whole = datasets.load_dataset("imagefolder", data_dir=str(files.folder), data_files=_patterns(files))
    if missing := [part for part in files.known.images if part not in whole]:
        raise DataError(
            f"{str(files.folder)!r} has no split {quote_names(missing)} of {files.known.name} "
            f"(its splits: {quote_names(whole)}): give the folder of the complete data set."
        )
    tables = {part: whole[part] for part in files.known.images}
    features = next(iter(tables.values())).features
    image, columns = _columns(files, list(features))
    names = {
        column: tuple(features[column].names) for column in columns if isinstance(features[column], datasets.ClassLabel)
    }
    labels = {
        column: [
            value
            for table in tables.values()
            for value in table.select_columns([column]).with_format("arrow")[:].column(column).to_pylist()
        ]
        for column in columns
    }

    def read(table: Any) -> Iterator[Source]:
        encoded = table.cast_column(image, datasets.Image(decode=False)).with_format("arrow")
        for batch in encoded.iter(batch_size=ROWS):
            yield from (_encoded(files, entry) for entry in batch.column(image).to_pylist())

    blocks = [(len(table), partial(read, table)) for table in tables.values()]
    parts = [part for part, table in tables.items() for _ in range(len(table))]
    return Listing(files.where, parts, labels, lambda rows: read_blocks(blocks, rows), names)


def _check_saved(folder: Path) -> None:
    """Check that the files that `save_to_disk` lists are in the folder: their names are only text in another file."""
    for part in _json(folder, Path(SAVED))["splits"]:
        for listed in _json(folder, Path(str(part)) / "state.json")["_data_files"]:
            _confined(folder, folder / str(part) / listed["filename"])


def _json(folder: Path, name: Path) -> Any:
    return json.loads(read_limited(_confined(folder, folder / name), MOST_JSON_BYTES))


def _patterns(files: DataFiles) -> dict[str, list[str]]:
    """Return the images of each part as patterns: nothing else in the folder, such as an archive, is opened."""
    patterns: dict[str, set[str]] = {}
    for file in filter(is_image, files.files[""]):
        above = file.relative_to(files.folder).parts[:-1]
        for depth, name in enumerate(above):
            if word := PART_WORD.search(name):
                pattern = f"{'/'.join(map(glob.escape, above[: depth + 1]))}/**/*{file.suffix}"
                patterns.setdefault(word[1], set()).add(pattern)
                break
    if not patterns:
        raise ValueError("no Parquet files, no data set of save_to_disk, and no images as <part>/<class>/<image>")
    return {part: sorted(patterns[part]) for part in patterns}
