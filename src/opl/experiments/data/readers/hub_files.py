"""Readers of the standard layouts: Parquet files, and other formats that `datasets` supports."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....errors import DataError
from .source import DataSource, SourceReader, quote_names


def read(found: DataSource, rows: int) -> SourceReader:
    """Open the data set, to be read `rows` images at a time."""
    return _read_parquet(found, rows) if found.parquet else _read_folder(found, rows)


def _read_parquet(found: DataSource, rows: int) -> SourceReader:
    import pyarrow.parquet as pq

    files = {split: [pq.ParquetFile(file) for file in found.files[split]] for split in found.known.images}
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
                yield _encoded(table.column(image).to_pylist())

    return SourceReader(columns, names, counts, labels, images)


def _read_folder(found: DataSource, rows: int) -> SourceReader:
    import datasets

    saved = (found.folder / "dataset_dict.json").is_file()
    whole = datasets.load_from_disk(found.folder) if saved else datasets.load_dataset(str(found.folder))
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
            yield _encoded(table.column(image).to_pylist())

    return SourceReader(columns, names, {split: len(part) for split, part in parts.items()}, labels, images)


def _encoded(entries: list[Any]) -> list[bytes]:
    return [e if isinstance(e, bytes) else e["bytes"] or Path(e["path"]).read_bytes() for e in entries]


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
