"""Reader of data sets with domains: Parquet files with a domain column, or `<domain>/<class>/<picture>`.

Both give a `SourceReader` with the labels `label`, `domain` and, if the files contain it, `file`: the picture's name as
`<domain>/<class>/<file>`, which the official training and validation lists refer to.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from PIL import Image

from ....errors import DataError
from . import hub_files
from .decode import Pixels
from .label_values import class_ids
from .layouts import PICTURES
from .resize import resize_pictures
from .source import DataSource, SourceReader

SPLIT = "train"  # we split the domains ourselves, so the files have a single split


def read(found: DataSource, rows: int = 512) -> SourceReader:
    """Open the data set; pictures are resized to squares of `found.known.size`, bilinear, as in the released code."""
    pictures = [] if found.parquet else [file for file in found.files[""] if file.suffix.lower() in PICTURES]
    return _pictures(found, pictures, rows) if pictures else _table(found, rows)


def _pictures(found: DataSource, pictures: list[Path], rows: int) -> SourceReader:
    """Read pictures from one folder per class in one folder per domain."""
    inside = [picture.relative_to(found.folder) for picture in pictures]
    above = {path.parts[:-3] for path in inside}
    if len(above) > 1 or any(len(path.parts) < 3 for path in inside):
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has pictures at different depths, for instance "
            f"{str(min(inside, key=lambda path: len(path.parts)))!r}: give a folder that has all of them as "
            "'<domain>/<class>/<picture>'."
        )
    words = {"label": [path.parts[-2] for path in inside], "domain": [path.parts[-3] for path in inside]}
    words["file"] = ["/".join(path.parts[-3:]) for path in inside]

    def images() -> Iterator[list[Path]]:
        for start in range(0, len(pictures), rows):
            yield pictures[start : start + rows]

    return SourceReader(
        tuple(words),
        {name: tuple(sorted(set(values))) for name, values in words.items()},
        {SPLIT: len(pictures)},
        lambda _: words,
        lambda _: resize_pictures(images(), found.known.size, Image.Resampling.BILINEAR),
        decoded=True,
    )


def _table(found: DataSource, rows: int) -> SourceReader:
    """Read Parquet files, or another format that `datasets` supports, with a domain column."""
    plain = hub_files.read(replace(found, layout=""), rows)
    column = found.known.other_columns[0]
    if column not in plain.label_columns:
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has no column {column!r} (there are "
            f"{', '.join(map(repr, plain.label_columns))} and the images): name the column that holds the domains."
        )
    told = plain.labels(SPLIT)
    classes, domains = (_words(told[name], plain.names.get(name, ())) for name in plain.label_columns[:2])
    labels: dict[str, list[Any]] = {"label": told[plain.label_columns[0]], "domain": domains}
    if files := _files(found):
        labels["file"] = [f"{d}/{c}/{f}" for d, c, f in zip(domains, classes, files, strict=True)]

    def images(part: str) -> Iterator[Pixels]:
        return resize_pictures(
            cast(Iterator[list[bytes]], plain.images(part)), found.known.size, Image.Resampling.BILINEAR
        )

    names = {"label": plain.names.get(plain.label_columns[0], ()), "domain": tuple(sorted(set(domains)))}
    return SourceReader(tuple(labels), names, plain.counts, lambda _: labels, images, decoded=True)


def _words(values: list[Any], names: tuple[str, ...]) -> list[str]:
    ids, told = class_ids(values, () if any(isinstance(value, str) for value in values) else names)
    return [told[number] if told else str(number) for number in ids.tolist()]


def _files(found: DataSource) -> list[str]:
    """Return the file name of each picture, if the Parquet files contain all of them; otherwise an empty list."""
    if not found.parquet:
        return []
    paths: list[Any] = []
    for file in found.files[SPLIT]:
        opened = hub_files.open_parquet(file)
        image = next(name for name in found.known.image_columns if name in opened.schema_arrow.names)
        if f"{image}.path" not in [opened.schema.column(place).path for place in range(len(opened.schema))]:
            return []
        paths += [entry["path"] for entry in opened.read(columns=[f"{image}.path"]).column(image).to_pylist()]
    return [Path(path).name for path in paths] if all(paths) else []
