"""Listings of tables: Parquet files, what `save_to_disk` of `datasets` wrote, and images in folders of parts."""

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
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
    confine,
    is_image,
    list_blocks,
    named_labels,
    one_line,
    quote_names,
)

PART_NAME = re.compile(r"(?:^|[-_.])(train|test|validation)(?:$|[-_.])")
SAVED = "dataset_dict.json"  # of `save_to_disk`
ROWS = 256  # read at a time
MOST_JSON_BYTES = 1 << 24  # of a description of a data set
MOST_IMAGE_BYTES = 1 << 28
_GROWTH = 100, 1 << 28  # limits for unpacking: times the size of the file, plus bytes


def list_tables(files: DataFiles) -> Listing:
    """List Parquet files, what `save_to_disk` wrote, or images as `<part>/<class>/<image>`."""
    if files.parquet:
        return _list_parquet(files)
    return _list_saved(files) if (files.folder / SAVED).is_file() else _list_part_folders(files)


def _list_parquet(files: DataFiles) -> Listing:
    opened = [(part, open_parquet(file)) for part in files.known.images for file in files.files[part]]
    image, columns = _columns(files, opened[0][1].schema_arrow.names)
    first = _class_names(opened[0][1].schema_arrow, columns)
    names_of = [_class_names(file.schema_arrow, columns) or first for _, file in opened]
    same = all(names == first for names in names_of)
    labels: dict[str, list[Any]] = {column: [] for column in columns}
    for (_, file), names in zip(opened, names_of, strict=True):
        table = file.read(columns=list(columns))
        for column in columns:
            values = table.column(column).to_pylist()
            labels[column] += values if same else _to_names(values, column, names.get(column, ()))
    blocks = [(part, file.metadata.num_rows, partial(_read_images, files, file, image)) for part, file in opened]
    listing = list_blocks(files.where, blocks, labels, names=first if same else {})
    parts, starts = listing.parts, {part: listing.parts.index(part) for part in {*listing.parts}}
    return replace(listing, row_name=lambda row: f"row {row - starts[parts[row]]} of {parts[row]!r}")


def _to_names(values: Sequence[Any], column: str, names: Sequence[str]) -> list[Any]:
    """Replace numbers by class names: the files of different parts may number their classes differently."""
    check_names(column, names)
    return [names[value] if isinstance(value, int) and 0 <= value < len(names) else value for value in values]


def _class_names(schema: Any, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the value names of label columns that the schema of a file contains."""
    metadata = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = metadata.get("info", {}).get("features", {})
    return {column: tuple(features[column]["names"]) for column in columns if "names" in features.get(column, {})}


def _read_images(files: DataFiles, file: Any, column: str) -> Iterator[Source]:
    for table in file.iter_batches(batch_size=ROWS, columns=[column]):
        for entry in table.column(column).to_pylist():
            yield _source_of(files, entry)


def open_parquet(file: Path) -> Any:
    """Open a Parquet file.

    Raises:
        ValueError: the file claims to unpack to far more than its size.
    """
    import pyarrow.parquet as pq

    is_text = os.fsencode(file).decode(errors="replace") == str(file)  # pyarrow supports no other paths
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


def _columns(files: DataFiles, available: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the image column, and the label columns with the class column first."""
    known = files.known
    image = next((name for name in known.image_columns if name in available), None)
    label = next((name for name in known.label_columns if name in available), None)
    if image is None or label is None:
        names = known.image_columns if image is None else known.label_columns
        raise DataError(
            f"{files.called} has no column {quote_names(names, 'or')} (its columns: {quote_names(available)}): rename "
            "the column."
        )
    return image, tuple(dict.fromkeys((label, *(name for name in known.other_columns if name in available))))


def _source_of(files: DataFiles, entry: Any) -> Source:
    """Return the image of a row, which holds it or names its file."""
    if isinstance(entry, bytes):
        return entry
    row = entry if isinstance(entry, dict) else {"path": entry}
    if row.get("bytes"):
        return bytes(row["bytes"])
    try:
        if not isinstance(row.get("path"), str | Path):
            raise ValueError("a row has neither an image nor the path of one")
        return read_limited(confine(files.folder, row["path"]), MOST_IMAGE_BYTES)
    except (OSError, ValueError) as error:
        return Unreadable(one_line(error))


# Tables with domains or chosen classes


def list_domain_table(files: DataFiles) -> Listing:
    """List a table with a domain column; if it contains the names of its files, also with the column `file`."""
    listing = list_tables(files)
    column = files.known.other_columns[0]
    _check_columns(files, listing, (column,))
    values, names = listing.labels[listing.label], listing.names.get(listing.label, ())
    domains = named_labels(listing.labels[column], listing.names.get(column, ()), {})
    labels: dict[str, Sequence[Any]] = {"label": values, "domain": domains}
    if paths := _paths(files):
        classes = named_labels(values, names, {})
        labels["file"] = ["/".join(parts) for parts in zip(domains, classes, paths, strict=True)]
    return replace(
        listing, labels=labels, names={"label": names, "domain": tuple(sorted(set(domains)))}, resize="bilinear"
    )


def _check_columns(files: DataFiles, listing: Listing, columns: Sequence[str]) -> None:
    if missing := [name for name in columns if name not in listing.labels]:
        raise DataError(
            f"{files.called} has no column {missing[0]!r} (its label columns: {quote_names(listing.labels)}): name "
            "columns that exist."
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
    _check_columns(files, listing, columns)
    known = files.known
    columns_of_names = [
        named_labels(listing.labels[name], listing.names.get(name, ()) or known.names, known.respell)
        for name in columns
    ]
    rows_of: dict[str, list[int]] = {}
    for row, names in enumerate(zip(*columns_of_names, strict=True)):
        rows_of.setdefault("/".join(names), []).append(row)
    class_keys(files, choice, rows_of)
    label_of = {row: label for label, name in enumerate(choice.classes) for row in choice.spread(rows_of.get(name, []))}
    rows = sorted(label_of)
    return replace(
        listing.take(rows),
        parts=[ALL] * len(rows),
        labels={"label": [label_of[row] for row in rows]},
        names={"label": choice.classes},
        resize="bilinear",
    )


# Other layouts of the Hub


def _list_saved(files: DataFiles) -> Listing:
    """List what `save_to_disk` wrote; its files, which another file names, must be inside the folder."""
    import pyarrow as pa

    _check_splits(files, _json(files, SAVED)["splits"])
    tables = []
    for part in files.known.images:
        for entry in _json(files, f"{part}/state.json")["_data_files"]:
            file = confine(files.folder, Path(part, entry["filename"]))
            table = pa.ipc.open_stream(pa.memory_map(str(file))).read_all()
            if len(table) > file.stat().st_size:
                raise ValueError(f"{file.name} has {file.stat().st_size:,} bytes but claims {len(table):,} rows")
            table.validate(full=True)
            tables.append((part, table))
    image, columns = _columns(files, tables[0][1].column_names)
    labels = {name: [value for _, table in tables for value in table.column(name).to_pylist()] for name in columns}
    blocks = [(part, len(table), partial(_entries, files, table.column(image))) for part, table in tables]
    return list_blocks(files.where, blocks, labels, names=_class_names(tables[0][1].schema, columns))


def _entries(files: DataFiles, column: Any) -> Iterator[Source]:
    return (_source_of(files, entry.as_py()) for entry in column)


def _json(files: DataFiles, name: str) -> Any:
    return json.loads(read_limited(confine(files.folder, name), MOST_JSON_BYTES))


def _check_splits(files: DataFiles, available: Collection[str]) -> None:
    if missing := [part for part in files.known.images if part not in available]:
        raise DataError(
            f"{str(files.folder)!r} has no split {quote_names(missing)} of {files.known.name} (its splits: "
            f"{quote_names(available)}): use the complete data set."
        )


def _list_part_folders(files: DataFiles) -> Listing:
    """List images as `<part>/<class>/<image>`; a part is the first folder with such a name, as in 'my-train'."""
    images: dict[str, list[Path]] = {}
    paths = (file.relative_to(files.folder) for file in files.files[""] if is_image(file))
    for inside in sorted(paths, key=lambda inside: (inside.suffix, str(inside))):  # the order of `datasets`
        if part := next(filter(None, map(PART_NAME.search, inside.parts[:-1])), None):
            images.setdefault(part[1], []).append(inside)
    if not images:
        raise ValueError("no Parquet files, no data set of save_to_disk, and no images as <part>/<class>/<image>")
    _check_splits(files, images)
    if len({len(inside.parts) for part in images.values() for inside in part}) > 1:
        raise ValueError("images at different depths")
    labels = [inside.parent.name for part in files.known.images for inside in images[part]]
    read = partial(map, partial(_source_of, files))
    blocks = [(part, len(images[part]), partial(read, images[part])) for part in files.known.images]
    names = tuple(sorted({inside.parent.name for part in images.values() for inside in part}))
    return list_blocks(files.where, blocks, {"label": labels}, names={"label": names})
