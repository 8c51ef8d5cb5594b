"""Reader of data sets whose classes a specification names: one HDF5 file per class, folders of pictures, or Parquet.

All give a `SourceReader` with one split, `SPLIT`, of RGB pictures resized to squares, labeled by the place of their
class in the specification. Classes that it does not name are not read.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from ....errors import DataError
from ...files import read_limited
from . import hub_files
from .class_source import ClassSource
from .decode import MOST_PIXELS, Pixels, open_picture, to_mode
from .label_values import class_ids
from .layouts import MOST_BYTES, PICTURES
from .resize import channels_first
from .source import DataSource, SourceReader

SPLIT = "all"
HDF5 = {".h5", ".hdf5"}
Picture = bytes | Path | Pixels


def read(found: DataSource, rows: int = 512) -> SourceReader:
    """Open the data set."""
    if not isinstance(found, ClassSource):
        raise DataError(f"{found.known.name} has no specification of its classes: give one.")
    if found.parquet:
        return _table(found, rows)
    inside = {file.relative_to(found.folder): file for file in found.files[""]}
    archives = {path.stem: file for path, file in inside.items() if path.suffix.lower() in HDF5}
    if archives:
        return _archives(found, archives, rows)
    pictures: dict[str, list[Path]] = {}
    for path, file in inside.items():
        if path.suffix.lower() in PICTURES:
            pictures.setdefault(path.parent.as_posix(), []).append(file)
    return _folders(found, pictures, rows)


def _folders(found: ClassSource, pictures: dict[str, list[Path]], rows: int) -> SourceReader:
    """Read pictures from one folder per class; its path inside the data set is the name of the class."""
    chosen = [found.spread(sorted(pictures[key])) for key in _keys(found, pictures)]

    def images() -> Iterator[Sequence[Picture]]:
        for files in chosen:
            for start in range(0, len(files), rows):
                yield files[start : start + rows]

    return _reader(found, [len(files) for files in chosen], images)


def _archives(found: ClassSource, archives: dict[str, Path], rows: int) -> SourceReader:
    """Read one HDF5 file per class, with a group per picture that has the data set `image`."""
    files = [archives[key] for key in _keys(found, archives)]
    kept = [found.spread(_groups(file)) for file in files]

    def images() -> Iterator[Sequence[Picture]]:
        for file, keys in zip(files, kept, strict=True):
            with _open(file) as archive:
                for start in range(0, len(keys), rows):
                    yield [_picture(file, archive, key) for key in keys[start : start + rows]]

    return _reader(found, [len(keys) for keys in kept], images)


def _table(found: ClassSource, rows: int) -> SourceReader:
    """Read Parquet files with a column of labels, or with several columns that make the name of a class."""
    plain = hub_files.read(replace(found, layout=""), rows)
    columns = found.columns or plain.label_columns[:1]
    if missing := [name for name in columns if name not in plain.label_columns]:
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has no column {missing[0]!r} (there are "
            f"{', '.join(map(repr, plain.label_columns))} and the images): name columns that it has."
        )
    names: list[str] = []
    for split in found.known.images:
        told = plain.labels(split)
        words = [_words(found, told[name], plain.names.get(name, ())) for name in columns]
        names += ["/".join(parts) for parts in zip(*words, strict=True)]
    place = {name: number for number, name in enumerate(found.classes)}
    labels = np.array([place.get(name, -1) for name in names])
    _keys(found, set(names))
    for number in range(len(found.classes)):
        here = np.flatnonzero(labels == number)
        labels[sorted(set(here.tolist()) - set(found.spread(here.tolist())))] = -1

    def images() -> Iterator[Sequence[Picture]]:
        start = 0
        for split in found.known.images:
            for batch in cast("Iterator[list[bytes]]", plain.images(split)):
                wanted = labels[start : start + len(batch)] >= 0
                start += len(batch)
                if wanted.any():
                    yield [picture for picture, take in zip(batch, wanted, strict=True) if take]

    return _reader(found, labels[labels >= 0].tolist(), images, labeled=True)


def _reader(found: ClassSource, numbers: list[int], images: Any, labeled: bool = False) -> SourceReader:
    """The reader of pictures with these labels, or of these numbers of pictures of each class."""
    labels = numbers if labeled else [place for place, count in enumerate(numbers) for _ in range(count)]
    return SourceReader(
        ("label",),
        {"label": found.classes},
        {SPLIT: len(labels)},
        lambda _: {"label": labels},
        lambda _: _resized(found, images()),
        decoded=True,
    )


def _resized(found: ClassSource, batches: Iterator[Sequence[Picture]]) -> Iterator[Pixels]:
    """Resize pictures to squares, bilinear, in threads."""
    size = found.known.size

    def pixels(picture: Picture) -> Pixels:
        opened = _opened(picture)
        square = opened if opened.size == (size, size) else opened.resize((size, size), Image.Resampling.BILINEAR)
        values = np.asarray(square)
        return 255 - values if found.invert else values

    with ThreadPoolExecutor(4) as threads:
        for batch in batches:
            yield channels_first(np.stack(list(threads.map(pixels, batch))))


def _opened(picture: Picture) -> Image.Image:
    if isinstance(picture, np.ndarray):
        return Image.fromarray(picture).convert("RGB")
    try:
        data = picture if isinstance(picture, bytes) else read_limited(picture, MOST_BYTES)
        return to_mode(open_picture(data), "RGB")
    except (OSError, SyntaxError, ValueError) as error:
        name = "" if isinstance(picture, bytes) else f"{picture.name}: "
        raise ValueError(f"{name}{error}") from error


def _keys(found: ClassSource, there: Any) -> list[str]:
    """How the files call each class of the specification: by its name, or by its other name."""
    keys = [name if name in there else found.aliases.get(name, name) for name in found.classes]
    if missing := [name for name, key in zip(found.classes, keys, strict=True) if key not in there]:
        raise DataError(
            f"{found.known.name} in {str(found.folder)!r} has no pictures of the class {missing[0]!r} of its "
            f"specification ({len(missing)} of {len(keys)} are missing): give the folder of the complete data set."
        )
    return keys


def _words(found: ClassSource, values: list[Any], names: tuple[str, ...]) -> list[str]:
    ids, told = class_ids(values, () if any(isinstance(value, str) for value in values) else names)
    told = tuple(found.known.respell.get(name, name) for name in told or found.known.names)
    return [told[number] if told else str(number) for number in ids.tolist()]


# HDF5


def _open(file: Path) -> Any:
    try:
        import h5py
    except ImportError as error:
        raise DataError(
            f"{str(file)!r} is an HDF5 file, which h5py reads: pip install 'orthogonal-projection-loss[hdf5]'."
        ) from error
    return h5py.File(file, "r")


def _groups(file: Path) -> list[str]:
    """The groups of a file, by number where they are numbers."""
    with _open(file) as archive:
        return sorted(archive, key=lambda key: (not key.isdecimal(), int(key) if key.isdecimal() else 0, key))


def _picture(file: Path, archive: Any, key: str) -> Picture:
    """Read a picture, as an array or encoded; what a file only links to is not read, wherever it may be."""
    import h5py

    group = archive.get(key, getlink=True)
    inside = archive[key] if isinstance(group, h5py.HardLink) else None
    data = inside["image"] if isinstance(inside, h5py.Group) and _is_own(inside) else None
    if not isinstance(data, h5py.Dataset) or data.is_virtual or data.external:
        raise ValueError(f"{file.name} has no picture of its own in {key!r}")
    if data.dtype != np.uint8 or data.ndim not in (1, 2, 3) or data.size > 3 * MOST_PIXELS:
        raise ValueError(f"{file.name} has {data.dtype} {data.shape} in {key!r} instead of a picture")
    return data[()].tobytes() if data.ndim == 1 else np.ascontiguousarray(data[()])


def _is_own(group: Any) -> bool:
    import h5py

    return isinstance(group.get("image", getlink=True), h5py.HardLink)
