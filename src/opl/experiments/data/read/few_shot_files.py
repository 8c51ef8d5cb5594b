"""The layouts in which few-shot data sets are distributed, and the checks that the files hold the required split.

Each layout has the parts `train` (base classes), `val` and `test` (novel classes), and some have `extra`: further
images of the base classes, which are not used for training. Classes and counts are compared with the required split
before any image is converted. The classes are numbered consecutively: first `train`, then `val`, then `test`,
each part in alphabetical order.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....errors import DataError
from .array_files import incomplete_error, load_pickle, npz_images, npz_shape
from .catalog import CATALOG, CatalogEntry
from .listing import DataFiles, Listing, Numbers, Pixels, Source, class_ids, list_blocks, walk_images
from .parquet import list_tables

PARTS = ("train", "val", "test")
HUB_PARTS = {"train": "train", "val": "validation", "test": "test"}  # names of the parts on the Hub
_SYNSET = re.compile(r"n\d{8}")
_CURE = {
    "cifar-fs": "use the split of Bertinetto et al., with the numbers and names of CIFAR-100",
    "mini-imagenet": "use the split of Ravi and Larochelle (timm/mini-imagenet, for example, is another data set)",
    "tiered-imagenet": "use the complete split of Ren et al.",
}


class Layout(NamedTuple):
    """The name of a layout (a key of `_LISTINGS`), and its files, whose names have `{}` in place of the part."""

    name: str
    files: tuple[str, ...]
    train: str = "train"
    """What the files of the base classes have in place of the part."""
    extra: str = ""
    """The same for further images of the base classes; empty if the layout has none."""

    def paths(self, base: Path, part: str) -> tuple[Path, ...]:
        """Return the files of a part."""
        name = {"train": self.train, "extra": self.extra}.get(part, part)
        return tuple(base / file.format(name) for file in self.files)


LAYOUTS: dict[str, tuple[Layout, ...]] = {
    "cifar-fs": (Layout("labeled", ("CIFAR_FS_{}.pickle",)), Layout("labeled", ("{}.pickle",))),
    "mini-imagenet": (
        Layout("labeled", ("miniImageNet_category_split_{}.pickle",), "train_phase_train", "train_phase_val"),
        Layout("indexed", ("mini-imagenet-cache-{}.pkl",)),
        Layout("csv", ("{}.csv",)),
    ),
    "tiered-imagenet": (
        Layout("npz", ("{}_images.npz", "{}_labels.pkl"), extra="train_phase_val"),
        Layout("encoded", ("{}_images_png.pkl", "{}_labels.pkl")),
    ),
}


# Finding the files


def locate(known: CatalogEntry, folder: Path) -> tuple[str, Mapping[str, tuple[Path, ...]]] | None:
    """Return the layout of a folder and the files of each part; None if the folder has none of the layouts.

    Raises:
        DataError: a layout is present, but some of its files are missing.
    """
    for base in (folder, folder / known.name):
        for layout in LAYOUTS[known.name]:
            if files := _named_files(known, base, layout):
                return layout.name, files
        if not known.made_of and (files := _class_folders(known, base)):
            return "folders", files
    return None


def _named_files(known: CatalogEntry, base: Path, layout: Layout) -> dict[str, tuple[Path, ...]] | None:
    """Return the files of a layout if the first file of any part exists; the others may occur in other layouts too."""
    files = {part: layout.paths(base, part) for part in PARTS}
    if not any(first.is_file() for first, *_ in files.values()):
        return None
    if missing := [file.name for part in files.values() for file in part if not file.is_file()]:
        raise incomplete_error(known, base, missing[0])
    if layout.extra and all(file.is_file() for file in layout.paths(base, "extra")):
        files["extra"] = layout.paths(base, "extra")
    if layout.name == "csv":
        files["images"] = tuple(walk_images(base / "images", deep=False))
        if not files["images"]:
            raise incomplete_error(known, base, "images/")
    return files


def _class_folders(known: CatalogEntry, base: Path) -> dict[str, tuple[Path, ...]] | None:
    """Return images as `<part>/<class>/<image>`; None if there are none."""
    files = {}
    for part in PARTS:
        tops = [base / name for name in (part, HUB_PARTS[part]) if (base / name).is_dir()]
        classes = sorted(path for path in tops[0].iterdir() if path.is_dir()) if tops else []
        files[part] = tuple(image for path in classes for image in walk_images(path, deep=False))
    if not any(files.values()):
        return None
    if missing := [part for part in PARTS if not files[part]]:
        raise incomplete_error(known, base, f"{missing[0]}/")
    return files


def as_on_the_hub(known: CatalogEntry) -> CatalogEntry:
    """Return what the Hub has for a few-shot data set: the data set it is made of, or its own parts."""
    if known.made_of:
        return CATALOG[known.made_of]
    return replace(known, images={HUB_PARTS[part]: count for part, count in known.images.items()}, lists={})


# Listing


class FilePart(NamedTuple):
    """One part of a data set, as its files describe it."""

    ids: Numbers
    """(N,): the class id of each image, in the files' numbering."""
    names: Mapping[int, str]
    """The names of these class ids; empty if the files contain none."""
    images: Callable[[], Iterator[Source]]
    others: Mapping[str, list[int]] = {}
    """Further labels, by column."""
    other_names: Mapping[str, tuple[str, ...]] = {}


def list_few_shot(files: DataFiles) -> Listing:
    """List a few-shot data set, compare it with the required split, and number its classes consecutively."""
    names = PARTS if files.layout == "hub" else tuple(part for part in (*PARTS, "extra") if part in files.files)
    parts = {part: _LISTINGS[files.layout](files, part) for part in names}
    _check_parts(files, parts)
    codes: dict[str, dict[int, int]] = {}
    class_names: list[str] = []
    for part in PARTS:
        known = parts[part].names
        order = sorted(set(parts[part].ids.tolist()), key=lambda number: (known.get(number, ""), number))
        codes[part] = {number: len(class_names) + index for index, number in enumerate(order)}
        class_names += [known.get(number, f"{part} {number}") for number in order]
    codes["extra"] = codes["train"]
    first = parts["train"]
    labels = {"label": [codes[part][number] for part in parts for number in parts[part].ids.tolist()]}
    labels |= {column: [value for part in parts.values() for value in part.others[column]] for column in first.others}
    blocks = [(name, len(part.ids), part.images) for name, part in parts.items()]
    resized = files.layout in ("csv", "folders") or (files.layout == "hub" and not files.known.made_of)
    more = {"names": {"label": tuple(class_names), **first.other_names}, "resize": "bicubic" if resized else ""}
    return list_blocks(files.where, blocks, labels, **more)


def _list_labeled(files: DataFiles, part: str) -> FilePart:
    """List a pickle with `data` (N, H, W, 3), `labels`, and optionally `catname2label`."""
    [file] = files.files[part]
    content = _entries(file, "data", "labels")
    ids, images = _numbers(file, content["labels"]), len(_check_array(files, file, content["data"]))
    if len(ids) != images:
        raise wrong_files_error(files, f"{file.name} has {images} images and {len(ids)} labels")
    if files.known.made_of:
        names = dict(enumerate(sorted(name for names in files.known.lists.values() for name in names)))
    else:
        names = {int(number): str(name) for name, number in content.get("catname2label", {}).items()}
    return FilePart(ids, names, lambda: iter(_check_array(files, file, _entries(file, "data")["data"])))


def _list_indexed(files: DataFiles, part: str) -> FilePart:
    """List a pickle with `image_data` (N, H, W, 3) and `class_dict`, which holds the image indices of each class."""
    [file] = files.files[part]
    content = _entries(file, "image_data", "class_dict")
    ids = np.full(len(_check_array(files, file, content["image_data"])), -1, dtype=np.int64)
    for number, indices in enumerate(content["class_dict"].values()):
        ids[_numbers(file, indices)] = number
    if (ids < 0).any() or sum(len(indices) for indices in content["class_dict"].values()) != len(ids):
        raise wrong_files_error(files, f"{file.name} does not assign each image to one class")
    names = {number: str(name) for number, name in enumerate(content["class_dict"])}
    return FilePart(ids, names, lambda: iter(_check_array(files, file, _entries(file, "image_data")["image_data"])))


def _list_npz(files: DataFiles, part: str) -> FilePart:
    """List a NumPy archive with `images` (N, H, W, 3) and a pickle of labels."""
    file, labels = files.files[part]
    ids, names = _tiered_labels(labels)
    size = files.known.size
    shape, dtype = npz_shape(file, len(ids) * size**2 * 3 + 4096)
    if dtype != "uint8" or shape[1:] != (size, size, 3):
        raise _wrong_array(files, file, f"{dtype} {shape}")
    if len(ids) != shape[0]:
        raise wrong_files_error(files, f"{file.name} has {shape[0]} images and {labels.name} {len(ids)} labels")
    return FilePart(ids, names, lambda: npz_images(file, files.bgr))


def _list_encoded(files: DataFiles, part: str) -> FilePart:
    """List a pickle with a list of PNG files and a pickle of labels."""
    file, labels = files.files[part]
    return FilePart(*_tiered_labels(labels), lambda: map(_encoded, load_pickle(file)))


def _list_csv(files: DataFiles, part: str) -> FilePart:
    """List a CSV file of file names and classes, with a folder of images."""
    [file] = files.files[part]
    with file.open(newline="", encoding="utf-8") as stream:
        table = [(row["filename"], row["label"]) for row in csv.DictReader(stream)]
    images = {image.name: image for image in files.files["images"]}
    if missing := [name for name, _ in table if name not in images]:
        raise wrong_files_error(files, f"{file.name} names the image {missing[0]!r}, which is not in images/")
    return _list_images([images[name] for name, _ in table], [label for _, label in table])


def _list_folders(files: DataFiles, part: str) -> FilePart:
    """List images in one folder per class."""
    return _list_images(files.files[part], [image.parent.name for image in files.files[part]])


def _list_images(images: Sequence[Path], classes: list[str]) -> FilePart:
    ids, names = class_ids(classes)
    return FilePart(ids, dict(enumerate(names)), lambda: iter(images))


def _list_hub(files: DataFiles, part: str) -> FilePart:
    """List the tables of this data set, or of the data set that it is made of."""
    known = as_on_the_hub(files.known)
    listing = list_tables(replace(files, known=known, layout=""))
    column, *others = listing.labels
    if not files.known.made_of:
        listing = listing.take(listing.rows_of(HUB_PARTS[part]))
    ids, class_names = class_ids(listing.labels[column], listing.names.get(column, ()))
    names = {number: known.respell.get(name, name) for number, name in enumerate(class_names)}
    if not files.known.made_of:
        return FilePart(ids, names, lambda: listing.read(range(len(listing))))
    if not names:
        raise wrong_files_error(files, "its classes have no names")
    in_part = np.isin(ids, [number for number, name in names.items() if name in files.known.lists[part]])
    listing = listing.take(np.flatnonzero(in_part).tolist())
    labels = {other: list(listing.labels[other]) for other in others}
    labels["kept"] = [int(split == "test") for split in listing.parts]
    other_names = {other: listing.names[other] for other in others if other in listing.names}
    return FilePart(ids[in_part], names, lambda: listing.read(range(len(listing))), labels, other_names)


_LISTINGS: dict[str, Callable[[DataFiles, str], FilePart]] = {
    "labeled": _list_labeled,
    "indexed": _list_indexed,
    "npz": _list_npz,
    "encoded": _list_encoded,
    "csv": _list_csv,
    "folders": _list_folders,
    "hub": _list_hub,
}


def _entries(file: Path, *names: str) -> dict[str, Any]:
    content = load_pickle(file)
    if not isinstance(content, dict) or any(name not in content for name in names):
        actual = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        expected = " and ".join(map(repr, names))
        raise DataError(f"{str(file)!r} holds {actual} instead of {expected}: check that it is the right file.")
    return content


def _tiered_labels(file: Path) -> tuple[Numbers, dict[int, str]]:
    content = _entries(file)
    if "labels" in content:
        return _numbers(file, content["labels"]), {}
    content = _entries(file, "label_specific")
    names = (_text(name) for name in content.get("label_specific_str", ()))
    return _numbers(file, content["label_specific"]), dict(enumerate(names))


def _encoded(content: Any) -> bytes:
    """Return the bytes of an encoded image from an array, bytes, or a Python 2 string."""
    if isinstance(content, str):
        return content.encode("latin1")
    if not isinstance(content, np.ndarray | bytes | bytearray):
        raise ValueError(f"a {type(content).__name__} instead of an image")
    return content.tobytes() if isinstance(content, np.ndarray) else bytes(content)


def _text(name: object) -> str:
    if not isinstance(name, str | bytes):
        raise ValueError(f"a {type(name).__name__} instead of the name of a class")
    return name.decode("latin1") if isinstance(name, bytes) else name


def _numbers(file: Path, values: Any) -> Numbers:
    flat = isinstance(values, np.ndarray) or all(isinstance(value, int) for value in values)
    numbers = np.asarray(values if flat else ())
    if not flat or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise DataError(f"{str(file)!r} has labels that are not a list of integers: check that it is the right file.")
    return numbers.astype(np.int64)


def _check_array(files: DataFiles, file: Path, array: Any) -> Pixels:
    size = files.known.size
    if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.shape[1:] != (size, size, 3):
        actual = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise _wrong_array(files, file, actual)
    return array


# Checks


def wrong_files_error(files: DataFiles, reason: str) -> DataError:
    """Return the error for files that are not the required data set."""
    name = files.known.name
    return DataError(f"{name} in {str(files.folder)!r} is not the few-shot data set: {reason}; {_CURE[name]}.")


def _wrong_array(files: DataFiles, file: Path, actual: str) -> DataError:
    size = files.known.size
    return wrong_files_error(files, f"{file.name} has {actual} instead of bytes of (N, {size}, {size}, 3)")


def _check_parts(files: DataFiles, parts: Mapping[str, FilePart]) -> None:
    """Compare the parts with the catalog: class names, if the files contain them, and all counts.

    Raises:
        DataError: names the first part and class that does not match.
    """
    owner: dict[object, str] = {}
    for name in PARTS:
        part = parts[name]
        if reason := _wrong_names(files.known, name, part) or _wrong_counts(files.known, name, part):
            raise wrong_files_error(files, f"its part {name!r} has {reason}")
        for number in sorted({*part.ids.tolist()} & part.names.keys()):
            label = part.names[number]
            key = label if _SYNSET.fullmatch(label) else (number, label)  # 'crane', for example, may name two classes
            if key in owner:
                raise wrong_files_error(
                    files, f"the class {label!r} is in its part {owner[key]!r} and in its part {name!r}"
                )
            owner[key] = name
    if extra := parts.get("extra"):
        file, train = files.files["extra"][0].name, parts["train"]
        if foreign := set(extra.ids.tolist()) - set(train.ids.tolist()):
            raise wrong_files_error(files, f"{file} has the label {min(foreign)}, which is not a base class")
        for number, label in extra.names.items():
            if label != train.names.get(number, label):
                raise wrong_files_error(files, f"{file} names the base class {train.names[number]!r} as {label!r}")


def _wrong_names(known: CatalogEntry, name: str, part: FilePart) -> str:
    """Return which class name a part has wrongly or lacks; empty if none."""
    names = {part.names.get(number, str(number)) for number in part.ids.tolist()}
    if not known.made_of and not any(map(_SYNSET.fullmatch, names)):
        return ""
    if foreign := sorted(names - set(known.lists[name])):
        owner = [other for other in known.lists if foreign[0] in known.lists[other]]
        belongs = f"belongs to {owner[0]!r}" if owner else "is not in the data set"
        return f"the class {foreign[0]!r}, which {belongs}"
    missing = sorted(set(known.lists[name]) - names)
    return f"no class {missing[0]!r}" if missing else ""


def _wrong_counts(known: CatalogEntry, name: str, part: FilePart) -> str:
    """Return which number of classes or images of a part is wrong; empty if none."""
    numbers, counts = (values.tolist() for values in np.unique(part.ids, return_counts=True))
    if len(numbers) != known.classes[name]:
        return f"{len(numbers)} classes instead of {known.classes[name]}"
    if not part.names and (gaps := sorted({*range(numbers[0], numbers[-1])} - {*numbers})):
        return f"labels from {numbers[0]} to {numbers[-1]}, but no {gaps[0]}"
    for number, count in zip(numbers, counts, strict=True):
        if known.per_class and count != known.per_class:
            label = part.names.get(number, str(number))
            return f"{count} images of the class {label!r} instead of {known.per_class}"
    return f"{len(part.ids)} images instead of {known.images[name]}" if len(part.ids) != known.images[name] else ""
