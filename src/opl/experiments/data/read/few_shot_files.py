"""Readers of the few-shot data sets: one for each layout in which they are distributed, all giving a `SourceReader`.

Each reader returns a class id for every image of a part, the class names if the files contain them, and the images in
batches, so that at most one file is in memory. Classes and counts are compared with the required split before any image
is converted. The classes are then numbered consecutively: those of `train` first, then `val`, then `test`, each part in
alphabetical order.
"""

import csv
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np

from ....errors import DataError
from . import hub_files, unpickle
from .decode import Pixels
from .few_shot_parts import FilePart, Images, check_parts, wrong_files_error
from .label_values import Numbers, class_ids
from .layouts import PARTS
from .resize import channels_first, resize_pictures
from .source import HUB_SPLITS, DataSource, SourceReader, as_on_the_hub


def read(found: DataSource, rows: int = 512) -> SourceReader:
    """Open a few-shot data set, check it against the required split, and number its classes consecutively."""
    parts = PARTS if found.layout == "hub" else [part for part in (*PARTS, "extra") if part in found.files]
    sheets = {part: _READERS[found.layout](found, part, rows) for part in parts}
    check_parts(found, sheets)
    codes: dict[str, dict[int, int]] = {}
    names: list[str] = []
    for part in PARTS:
        order = sorted(set(sheets[part].ids.tolist()), key=lambda number: (sheets[part].names.get(number, ""), number))
        codes[part] = {number: len(names) + place for place, number in enumerate(order)}
        names += [sheets[part].names.get(number, f"{part} {number}") for number in order]
    codes["extra"] = codes["train"]

    def labels(part: str) -> dict[str, list[int]]:
        return {"label": [codes[part][number] for number in sheets[part].ids.tolist()], **sheets[part].others}

    first = sheets["train"]
    return SourceReader(
        ("label", *first.others),
        {"label": tuple(names), **first.other_names},
        {part: len(sheet.ids) for part, sheet in sheets.items()},
        labels,
        lambda part: sheets[part].images(),
        first.decoded,
    )


# Layouts


def _labeled(found: DataSource, part: str, rows: int) -> FilePart:
    """Read a pickle with `data` (N, H, W, 3), `labels`, and optionally `catname2label`."""
    [file] = found.files[part]
    content = _entries(file, "data", "labels")
    ids, count = _numbers(file, content["labels"]), len(_array(found, file, content["data"]))
    if len(ids) != count:
        raise wrong_files_error(found, f"{file.name} has {count} images and {len(ids)} labels")
    if found.known.made_of:
        names = dict(enumerate(sorted(name for each in found.known.lists.values() for name in each)))
    else:
        names = {int(number): str(name) for name, number in content.get("catname2label", {}).items()}
    return FilePart(ids, names, _again(found, file, "data", rows))


def _indexed(found: DataSource, part: str, rows: int) -> FilePart:
    """Read a pickle with `image_data` (N, H, W, 3) and `class_dict`, which holds the image indices of each class."""
    [file] = found.files[part]
    content = _entries(file, "image_data", "class_dict")
    ids = np.full(len(_array(found, file, content["image_data"])), -1, dtype=np.int64)
    for number, places in enumerate(content["class_dict"].values()):
        ids[_numbers(file, places)] = number
    if (ids < 0).any() or sum(len(places) for places in content["class_dict"].values()) != len(ids):
        raise wrong_files_error(found, f"{file.name} does not give each image to one class")
    names = {number: str(name) for number, name in enumerate(content["class_dict"])}
    return FilePart(ids, names, _again(found, file, "image_data", rows))


def _zipped(found: DataSource, part: str, rows: int) -> FilePart:
    """Read a NumPy archive with `images` (N, H, W, 3), streamed because it is large, and a pickle of labels."""
    file, labels = found.files[part]
    ids, names = _tiered_labels(labels)
    with zipfile.ZipFile(file) as archive:
        _check_unpacked(found, file, archive.getinfo("images.npy").file_size, len(ids))
        with archive.open("images.npy") as stream:
            shape = _npy_shape(found, file, stream)
    if len(ids) != shape[0]:
        raise wrong_files_error(found, f"{file.name} has {shape[0]} images and {labels.name} {len(ids)} labels")

    def images() -> Iterator[Pixels]:
        with zipfile.ZipFile(file) as archive, archive.open("images.npy") as stream:
            shape = _npy_shape(found, file, stream)
            each = int(np.prod(shape[1:]))
            while block := stream.read(rows * each):
                pixels = channels_first(np.frombuffer(block, np.uint8).reshape(-1, *shape[1:]))
                yield np.ascontiguousarray(pixels[:, ::-1]) if found.bgr else pixels

    return FilePart(ids, names, images)


def _encoded(found: DataSource, part: str, rows: int) -> FilePart:
    """Read a pickle with a list of PNG files and a pickle of labels."""
    file, labels = found.files[part]

    def images() -> Iterator[list[bytes]]:
        pictures = unpickle.load(file)
        for start in range(0, len(pictures), rows):
            yield [_picture(picture) for picture in pictures[start : start + rows]]

    return FilePart(*_tiered_labels(labels), images, decoded=False)


def _listed(found: DataSource, part: str, rows: int) -> FilePart:
    """Read a CSV table of file names and classes, and a folder of pictures."""
    [file] = found.files[part]
    with file.open(newline="") as stream:
        table = [(row["filename"], row["label"]) for row in csv.DictReader(stream)]
    there = {picture.name: picture for picture in found.files["pictures"]}
    if missing := [name for name, _ in table if name not in there]:
        raise wrong_files_error(found, f"{file.name} names the picture {missing[0]!r}, which is not in images/")
    return _pictures(found, [there[name] for name, _ in table], [label for _, label in table], rows)


def _folders(found: DataSource, part: str, rows: int) -> FilePart:
    """Read pictures from one folder per class."""
    pictures = found.files[part]
    return _pictures(found, pictures, [picture.parent.name for picture in pictures], rows)


def _pictures(found: DataSource, files: Iterable[Path], classes: list[str], rows: int) -> FilePart:
    names = sorted(set(classes))
    number = {name: place for place, name in enumerate(names)}
    batches = _some(list(files), rows)
    return FilePart(
        np.array([number[name] for name in classes], dtype=np.int64),
        dict(enumerate(names)),
        lambda: resize_pictures(batches(), found.known.size),
    )


def _hub(found: DataSource, part: str, rows: int) -> FilePart:
    """Read Parquet files or another format of `datasets`, of this data set or of the one it is built from."""
    known = as_on_the_hub(found.known)
    reading = hub_files.read(DataSource(known, found.folder, found.files, found.where), rows)
    splits = tuple(known.images) if found.known.made_of else (HUB_SPLITS[part],)
    labels = {split: reading.labels(split) for split in splits}
    column, *others = reading.label_columns
    ids, told = class_ids([value for split in splits for value in labels[split][column]], reading.names.get(column, ()))
    names = {number: known.respell.get(name, name) for number, name in enumerate(told)}
    if not found.known.made_of:
        return FilePart(ids, names, lambda: resize_pictures(_bytes(reading, splits), found.known.size))
    if not names:
        raise wrong_files_error(found, "its classes have no names")
    wanted = np.isin(ids, [number for number, name in names.items() if name in found.known.lists[part]])
    kept = [int(split == "test") for split in splits for _ in labels[split][column]]
    columns = {other: [value for split in splits for value in labels[split][other]] for other in others}
    return FilePart(
        ids[wanted],
        names,
        lambda: _chosen(_bytes(reading, splits), wanted),
        {name: list(np.asarray(values)[wanted].tolist()) for name, values in {**columns, "kept": kept}.items()},
        {other: reading.names[other] for other in others if other in reading.names},
        decoded=False,
    )


_READERS: dict[str, Callable[[DataSource, str, int], FilePart]] = {
    "labeled": _labeled,
    "indexed": _indexed,
    "zipped": _zipped,
    "encoded": _encoded,
    "listed": _listed,
    "folders": _folders,
    "hub": _hub,
}


# Shared helpers


def _entries(file: Path, *wanted: str) -> dict[str, Any]:
    content = unpickle.load(file)
    if not isinstance(content, dict) or any(name not in content for name in wanted):
        there = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        needed = " and ".join(map(repr, wanted))
        raise DataError(f"{str(file)!r} holds {there} instead of {needed}: check that it is the right file.")
    return content


def _tiered_labels(file: Path) -> tuple[Numbers, dict[int, str]]:
    content = _entries(file)
    if "labels" in content:
        return _numbers(file, content["labels"]), {}
    content = _entries(file, "label_specific")
    names = (_text(name) for name in content.get("label_specific_str", ()))
    return _numbers(file, content["label_specific"]), dict(enumerate(names))


def _picture(content: Any) -> bytes:
    """Return the bytes of an encoded picture, given as an array, as bytes, or as a Python 2 string."""
    if isinstance(content, str):
        return content.encode("latin1")
    if not isinstance(content, np.ndarray | bytes | bytearray):
        raise ValueError(f"a {type(content).__name__} instead of a picture")
    return content.tobytes() if isinstance(content, np.ndarray) else bytes(content)


def _text(word: object) -> str:
    if not isinstance(word, str | bytes):
        raise ValueError(f"a {type(word).__name__} instead of the name of a class")
    return word.decode("latin1") if isinstance(word, bytes) else word


def _numbers(file: Path, values: Any) -> Numbers:
    flat = isinstance(values, np.ndarray) or all(isinstance(value, int) for value in values)
    numbers = np.asarray(values if flat else ())
    if not flat or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(
            f"{str(file)!r} has labels that are not a list of whole numbers: check that it is the right file."
        )
    return numbers.astype(np.int64)


def _array(found: DataSource, file: Path, array: Any) -> Pixels:
    size = found.known.size
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.shape[1:] != (size, size, 3):
        shape = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise wrong_files_error(found, f"{file.name} has {shape} instead of bytes of (N, {size}, {size}, 3)")
    return array


def _check_unpacked(found: DataSource, file: Path, size: int, images: int) -> None:
    """Refuse an archive that would unpack to more than its images and a header."""
    most = images * found.known.size**2 * 3 + 4096
    if size > most:
        raise wrong_files_error(found, f"{file.name} unpacks to {size:,} bytes, and {images} images have {most:,}")


def _npy_shape(found: DataSource, file: Path, stream: Any) -> tuple[int, ...]:
    """Read the shape from the header of an array in an archive; the stream is then at the first element."""
    version = np.lib.format.read_magic(stream)
    read_head = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_head(stream)
    size = found.known.size
    if fortran or dtype != np.uint8 or shape[1:] != (size, size, 3):
        raise wrong_files_error(found, f"{file.name} has {dtype} {shape} instead of bytes of (N, {size}, {size}, 3)")
    return shape


def _again(found: DataSource, file: Path, name: str, rows: int) -> Images:
    """Return a function that loads the images of a pickle on demand, so that they are not kept in memory until then."""

    def images() -> Iterator[Pixels]:
        array = _array(found, file, _entries(file, name)[name])
        for start in range(0, len(array), rows):
            yield channels_first(array[start : start + rows])

    return images


def _some(files: list[Path], rows: int) -> Callable[[], Iterator[list[Path]]]:
    return lambda: (files[start : start + rows] for start in range(0, len(files), rows))


def _bytes(reading: SourceReader, splits: tuple[str, ...]) -> Iterator[list[bytes]]:
    for split in splits:
        yield from cast(Iterator[list[bytes]], reading.images(split))


def _chosen(batches: Iterable[list[bytes]], wanted: np.ndarray[Any, Any]) -> Iterator[list[bytes]]:
    place = 0
    for batch in batches:
        chosen = [picture for picture, take in zip(batch, wanted[place:], strict=False) if take]
        place += len(batch)
        if chosen:
            yield chosen
