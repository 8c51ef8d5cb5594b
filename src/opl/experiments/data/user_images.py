"""Any images that a user names, for `opl try`: listed, cleaned, split, and decoded once into the cache.

Unreadable images, copies and classes with too few images are left out, with notes. The central square of each
image is resized to one size.
"""

import hashlib
import math
import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..._ranges import CountOrZero, Fraction, Name, Pixels, Seed
from ...errors import DataError
from ..terminal import count
from ..types import DataSet, Images, Splits, derived
from .augment import Flip, PadCrop, enabled
from .read import find, serve
from .read.cache import Contents, content_sums, hash_of, open_cached
from .read.catalog import CatalogEntry
from .read.listing import (
    CSV_SUFFIXES,
    DataFiles,
    Listing,
    Source,
    list_class_folders,
    list_csv,
    name_some,
    named_columns,
    numbers_first,
    one_line,
    table_files,
)
from .split import split

if TYPE_CHECKING:
    from .read.decode import Square

FORMAT = 1  # increase it when the content of a cache folder changes
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
LAYOUTS = (
    "a folder of class folders ('<class>/<image>' or 'train/<class>/<image>'), a CSV or Parquet file with a column of "
    "images and a column of labels, or a Hub id such as 'owner/name'"
)
SAMPLE, SAMPLE_SIZE = 200, 64  # images that are decoded to estimate size and speed, and the size they are decoded to
FOR_STATISTICS = 2000  # images from which mean and std are computed
FEWEST = 3  # images per class
VAL, TEST = 0.1, 0.2  # fractions that are held out
PART_IDS = {"train": 0, "validation": 1, "test": 2}


@dataclass(frozen=True)
class UserImages(DataSet):
    """Your own images, as `opl try` trains on them; their split is the same in all runs."""

    name: Name = "images"
    root: str = ""
    """A folder of class folders, a CSV or Parquet file or a folder of them, or a Hub id."""
    key: str = ""
    """A hash of the files and settings; other images are refused. Empty accepts any."""
    size: Pixels = 64
    """Height and width of the images."""
    most: CountOrZero = 0
    """The most images to decode, the same fraction of every class and part; 0 decodes all."""
    split_seed: Seed = 0
    """Random seed of the sampled and held-out images."""
    color: bool = False
    """Use three channels even if all images are gray, as pretrained networks need."""
    image_column: str = ""
    label_column: str = ""
    images: CountOrZero = 0
    """Use only this many training images, and the same fraction of the validation images; 0 uses all."""
    padding: CountOrZero = 4
    """Zero-pad by this many pixels and crop at a random position; 0 disables it."""
    flip: Fraction = 0.5
    """Probability of a horizontal flip."""

    channels = derived(lambda data: data.facts().channels)
    num_classes = derived(lambda data: len(data.facts().class_names))
    mean = derived(lambda data: data.facts().mean)
    std = derived(lambda data: data.facts().std)

    augment = derived(lambda data: enabled(PadCrop(data.padding), Flip(data.flip)))

    def load(self, seed: int) -> Splits:
        """Open the decoded images; their split does not depend on `seed`."""
        self.check()
        folder, facts = self._open()
        pixels, labels, parts = (serve.open_array(folder / f"{name}.npy") for name in ("pixels", "labels", "parts"))
        train, val, test = ((parts == part).nonzero().flatten() for part in PART_IDS.values())
        if 0 < self.images < len(train):
            fraction = self.images / len(train)
            train, val = (_take_fraction(labels, rows, fraction) for rows in (train, val))
        fit, held, tested = (Images(pixels, labels, rows) for rows in (train, val, test))
        return Splits(fit, held, tested, facts.class_names, facts.source)

    def facts(self) -> "ImageFacts":
        """Return what is known about the images; the first call decodes them.

        Raises:
            DataError: the images cannot be used, or do not match `key`.
        """
        return self._open()[1]

    def _open(self) -> tuple[Path, "ImageFacts"]:
        return _open(replace(self, images=0, padding=0, flip=0.0))  # these settings do not change what is decoded


@dataclass(frozen=True)
class ImageFacts:
    """What is known about decoded images."""

    source: str
    class_names: tuple[str, ...]
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    """Images of each class in the training, validation and test part."""
    key: str = ""
    """A hash of the files and settings."""
    notes: tuple[str, ...] = ()
    """How the images were split, and what was left out."""
    left_out: tuple[str, ...] = ()
    """All images that cannot be read, and why."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Images in each part."""
        return tuple(sum(part) for part in self.counts)

    @property
    def per_class(self) -> tuple[int, ...]:
        """Images of each class, in all parts."""
        return tuple(map(sum, zip(*self.counts, strict=True)))


def _take_fraction(labels: Tensor, rows: Tensor, fraction: float) -> Tensor:
    """Return a fraction of the rows of every class; at least one row if there are any."""
    number = min(max(1, round(fraction * len(rows))), len(rows) - 1)
    return rows[split(labels[rows], number, seed=0, stratified=True)[1]] if len(rows) else rows


@lru_cache(maxsize=8)
def _open(data: UserImages) -> tuple[Path, ImageFacts]:
    listing = list_target(data.root, data.image_column, data.label_column)
    settings = (data.size, data.most, data.split_seed, data.color, data.image_column, data.label_column)
    key = hash_of(FORMAT, *settings, content_sums(listing.folder, listing.files))
    if data.key not in ("", key):
        raise DataError(
            f"the images in {data.root!r} differ from the images of this run: restore them, or start again with "
            "another --out."
        )
    folder, contents = open_cached(data.name, key, partial(_build, listing, data))
    facts = {name: _tuples(value) for name, value in contents.items() if name != "files"}
    return folder, ImageFacts(**facts, key=key)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


# Listing


def list_target(target: str, image_column: str = "", label_column: str = "") -> Listing:
    """List the images of a folder, a file or a Hub id; if a column of a table is not named, the usual names are tried.

    Raises:
        DataError: there are none; the message says what to pass instead.
    """
    path = Path(target).expanduser()
    known = named_columns(short_name(target), "" if path.exists() else target, image_column, label_column)
    if path.is_dir():
        return _list_folder(path, known)
    if path.suffix.lower() == ".parquet" and path.is_file():
        single = replace(known, hub="", images={"train": 0})
        return _list_tables(DataFiles(single, path.parent, {"train": (path,)}, str(path)))
    if path.suffix.lower() in CSV_SUFFIXES and path.is_file():
        return list_csv([path], path, known.image_columns, known.label_columns)
    if path.exists():
        raise DataError(f"{target!r} is neither a folder nor a CSV or Parquet file: pass {LAYOUTS}.")
    if not HUB_ID.fullmatch(target):
        raise DataError(f"there is no folder or file {target!r}: pass {LAYOUTS}.")
    return _list_tables(_find_on_hub(known))


def short_name(target: str) -> str:
    """Return a short name, made of the last part of a path or of a Hub id.

    Example:
        >>> short_name("~/My Photos/pets été/"), short_name("owner/name")
        ('pets-ete', 'owner-name')
    """
    path = Path(target).expanduser()
    path = path.with_suffix("") if path.suffix.lower() in (*CSV_SUFFIXES, ".parquet") else path
    parts = [part for part in path.parts if part not in ("/", ".", "..")]
    name_parts = parts if HUB_ID.fullmatch(target) and not Path(target).exists() else parts[-1:]
    plain = unicodedata.normalize("NFKD", "-".join(name_parts)).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_-]+", "-", plain).strip("-_")[:60] or "images"


def _list_folder(folder: Path, known: CatalogEntry) -> Listing:
    listing = list_class_folders(folder)
    if listing is not None and len(set(listing.labels["label"])) > 1:
        return listing
    if table_files(folder, ".parquet"):
        return _list_tables(find.find_tables(known, str(folder)))
    if tables := [file for suffix in CSV_SUFFIXES for file in table_files(folder, suffix)]:
        return list_csv(tables, folder, known.image_columns, known.label_columns)
    if listing is not None:
        return listing
    names = sorted(path.name for path in folder.iterdir())
    inside = f"it contains {', '.join(map(repr, names[:5]))}" if names else "it is empty"
    raise DataError(f"{str(folder)!r} has neither class folders with images nor tables ({inside}): pass {LAYOUTS}.")


def _list_tables(files: DataFiles) -> Listing:
    """List Parquet files; rows without a label are left out, and labels become class names."""
    try:
        listing = serve.list_images(files)
    except DataError as error:
        hint = " Or name it with --image-column or --label-column." if "no column" in str(error) else ""
        raise DataError(f"{error}{hint}") from error
    names = listing.names.get(listing.label, ())
    class_names = [_class_name(value, names) for value in listing.labels[listing.label]]
    unlabeled = [listing.row_name(row) for row, name in enumerate(class_names) if name is None]
    rows = [row for row, name in enumerate(class_names) if name is not None]
    notes = [f"Left out: {count(len(unlabeled), 'row')} without a label ({name_some(unlabeled)})."] if unlabeled else []
    return replace(
        listing.take(rows),
        parts=[listing.parts[row] if len(files.known.images) > 1 else "" for row in rows],
        labels={"label": [class_names[row] for row in rows]},
        names={"label": names},
        notes=tuple(notes),
        folder=files.folder,
        files=files.all_files,
    )


def _class_name(value: Any, names: Sequence[str]) -> str | None:
    """Return the name of a class; None if the row has none: the Hub's test sets without labels have -1."""
    if value is None or value == "" or (isinstance(value, int | float) and value < 0):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if names and isinstance(value, int):
        return names[value] if value < len(names) else None
    return str(value)


def _find_on_hub(known: CatalogEntry) -> DataFiles:
    """Find a data set of the Hub on this machine, or download it."""
    if find.find_local(known) is None and (find.is_offline() or not find.is_reachable()):
        raise DataError(
            f"there is no folder {known.hub!r}, and the Hub, which may have a data set of this name, cannot be reached "
            "(no network, or HF_HUB_OFFLINE is set): pass a folder, or connect to the network."
        )
    try:
        return find.find_tables(known)
    except DataError as error:
        reason = one_line(error.__cause__) if error.__cause__ else "it has no Parquet files"
        raise DataError(
            f"the Hub's data set {known.hub!r} cannot be used ({reason}): check the id, or choose a data set with "
            "Parquet files."
        ) from error


# Decoding


def _decode_squares(sources: Iterable[Source], size: int) -> Iterator["Square | str"]:
    """Decode the central squares of images; yield a reason for each one that cannot be read."""
    from .read.decode import Square, decode_square, map_batches

    def decode(source: Source) -> Square | str:
        try:
            return decode_square(source, size)
        except OSError as error:
            return error.strerror or f"{type(error).__name__}: {one_line(error)}"
        except Exception as error:  # Pillow raises many kinds of errors for damaged images
            return one_line(error) if type(error) is ValueError else f"{type(error).__name__}: {one_line(error)}"

    return chain.from_iterable(map_batches(decode, sources, threads=True))


class SampleFacts(NamedTuple):
    """Measurements of a sample of the images."""

    side: int
    """The median of their shorter sides."""
    seconds: float
    """The time to read and decode one image."""


def measure_sample(listing: Listing) -> SampleFacts:
    """Read and decode some images.

    Raises:
        DataError: none of them can be read.
    """
    rows = serve.evenly_spaced(len(listing), SAMPLE)
    started = time.perf_counter()
    squares = list(_decode_squares(listing.read(rows), SAMPLE_SIZE))
    seconds = (time.perf_counter() - started) / len(rows)
    sides = [min(square.width, square.height) for square in squares if not isinstance(square, str)]
    if not sides:
        raise _no_images(listing, list(zip(map(listing.row_name, rows), map(str, squares), strict=True)))
    return SampleFacts(int(np.median(sides)), seconds)


def _build(listing: Listing, data: UserImages, folder: Path) -> Contents:
    """Decode, clean and split the images of a listing; write the arrays `pixels`, `labels` and `parts`."""
    rows = sample(list(zip(listing.parts, listing.labels["label"], strict=True)), data.most, data.split_seed)
    notes = list(listing.notes)
    if len(rows) < len(listing):
        notes.append(f"{len(rows):,} of {len(listing):,} images are used, the same fraction of every class (--images).")
    listing = listing.take(rows)
    with tempfile.TemporaryFile(dir=folder) as file:  # as large as the decoded images
        pixels = np.memmap(file, np.uint8, "w+", shape=(max(1, len(rows)), data.size, data.size, 3))
        sums, shapes, unreadable, gray = [], [], [], not data.color
        for row, square in enumerate(_decode_squares(listing.read(range(len(rows))), data.size)):
            if isinstance(square, str):
                unreadable.append((listing.row_name(row), square))
                sums.append("")
                continue
            pixels[row] = square.pixels
            gray = gray and square.gray
            shapes.append((square.width, square.height))
            sums.append(hashlib.blake2b(square.pixels.tobytes(), digest_size=16).hexdigest())
        if not shapes:
            raise _no_images(listing, unreadable)
        if unreadable:
            some = name_some([name for name, _ in unreadable])
            notes.append(f"Left out: {count(len(unreadable), 'unreadable image')} ({some}).")
        kept, sentences = remove_copies(listing, sums)
        kept, more = remove_small_classes(listing, kept)
        notes += [*sentences, *more]
        listing = listing.take(kept)
        if len(classes := {*listing.labels["label"]}) < 2:
            usable = f"only one class, {classes.pop()!r}," if classes else "no class"
            raise DataError(
                f"{listing.where!r} has {usable} with at least {FEWEST} usable images, but two are needed: use a "
                f"folder with one folder per class. {' '.join(notes)}".rstrip()
            )
        class_labels = listing.labels["label"]
        names = _class_names(set(class_labels), listing.names.get("label", ()))
        labels = np.array([names.index(name) for name in class_labels], np.int64)
        parts, sentence = divide(listing.parts, labels, data.split_seed)
        final = pixels[kept][..., : 1 if gray else 3].transpose(0, 3, 1, 2)
        for name, array in (("pixels", final), ("labels", labels), ("parts", parts)):
            np.save(folder / f"{name}.npy", np.ascontiguousarray(array))
        mean, std = _statistics(final[parts == 0])
    counts = tuple(tuple(np.bincount(labels[parts == part], minlength=len(names)).tolist()) for part in range(3))
    return {
        "source": listing.where,
        "class_names": names,
        "channels": 1 if gray else 3,
        "mean": mean,
        "std": std,
        "counts": counts,
        "notes": (sentence, *_describe_sizes(shapes, data.size, gray), *notes),
        "left_out": tuple(f"{name}: {reason}" for name, reason in unreadable),
    }


def _class_names(labels: set[str], order: Sequence[str]) -> tuple[str, ...]:
    """Return the classes in the order of the files; otherwise numbers by value, then words alphabetically."""
    if order and labels <= set(order):
        return tuple(name for name in order if name in labels)
    return tuple(sorted(labels, key=numbers_first))


def _statistics(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and standard deviation of each channel, of pixels in [0, 1]."""
    images = pixels[serve.evenly_spaced(len(pixels), FOR_STATISTICS)].astype(np.float64) / 255
    std = np.maximum(images.std((0, 2, 3)), 1e-3)
    return tuple(images.mean((0, 2, 3)).round(5).tolist()), tuple(std.round(5).tolist())


def _describe_sizes(shapes: Sequence[tuple[int, int]], size: int, gray: bool) -> Iterator[str]:
    low, high = min(shapes, key=math.prod), max(shapes, key=math.prod)
    if low != high:
        yield (
            f"The images have different sizes, from {low[0]} x {low[1]} to {high[0]} x {high[1]}: the central square "
            f"of each is resized to {size} x {size}."
        )
    elif low != (size, size):
        yield f"The images of {low[0]} x {low[1]} are resized to {size} x {size} (the central square)."
    if gray:
        yield "All images are gray: the network has one input channel."


def _no_images(listing: Listing, unreadable: Sequence[tuple[str, str]]) -> DataError:
    first = "; ".join(f"{name}: {reason}" for name, reason in unreadable[:3])
    return DataError(
        f"none of the {len(unreadable):,} files of {listing.where!r} that were read is an image ({first}): use JPEG, "
        "PNG, WebP, BMP, GIF or TIFF files."
    )


# Samples and splits


def sample(groups: Sequence[tuple[str, str]], most: int, seed: int) -> list[int]:
    """Return at most about `most` rows in ascending order, the same fraction of every group; 0 returns all.

    A group keeps at least three rows if it has them.

    Example:
        >>> len(sample([("", "cat")] * 6 + [("", "dog")] * 6, 6, seed=0))
        6
    """
    if not 0 < most < len(groups):
        return list(range(len(groups)))
    order = np.random.default_rng(seed).permutation(len(groups)).tolist()
    counts, taken, rows = Counter(groups), Counter[tuple[str, str]](), []
    for row in order:
        group = groups[row]
        if taken[group] < max(FEWEST, round(counts[group] * most / len(groups))):
            taken[group] += 1
            rows.append(row)
    return sorted(rows)


def remove_copies(listing: Listing, sums: Sequence[str]) -> tuple[list[int], list[str]]:
    """Keep one of several images with the same checksum, and none if their labels differ; also return notes.

    Images without a checksum cannot be read, and are not kept either.
    """
    readable = [row for row, checksum in enumerate(sums) if checksum]
    labels: dict[str, set[str]] = {}
    for row in readable:
        labels.setdefault(sums[row], set()).add(listing.labels["label"][row])
    first = {"test": 0, "validation": 1}  # of copies, the one in the test part is kept
    kept: dict[str, int] = {}
    for row in sorted(readable, key=lambda row: first.get(listing.parts[row], 2)):
        if len(labels[sums[row]]) == 1:
            kept.setdefault(sums[row], row)
    contradictory = sum(len(labels[sums[row]]) > 1 for row in readable)
    notes = []
    if copies := len(readable) - contradictory - len(kept):
        notes.append(f"Left out: {count(copies, 'duplicate image')}, so that no image is in two parts.")
    if contradictory:
        notes.append(f"Left out: {count(contradictory, 'image')} with duplicates that have another label.")
    return sorted(kept.values()), notes


def remove_small_classes(listing: Listing, rows: Sequence[int]) -> tuple[list[int], list[str]]:
    """Leave out classes with fewer than three of the rows or, where there are parts, without training images."""
    labels, parts = listing.labels["label"], listing.parts
    counts = Counter(labels[row] for row in rows)
    has_parts = any(parts[row] == "train" for row in rows)
    trained = {labels[row] for row in rows if not has_parts or parts[row] in ("", "train")}
    small = sorted(label for label, number in counts.items() if number < FEWEST)
    untrained = sorted(label for label in counts if label not in trained and label not in small)
    notes = []
    for names, described, what in (
        (small, [f"{label!r} ({counts[label]})" for label in small], f"with fewer than {FEWEST} images"),
        (untrained, untrained, "without training images"),
    ):
        if names:
            notes.append(f"Left out: {count(len(names), 'class', 'classes')} {what} ({name_some(described)}).")
    return [row for row in rows if labels[row] not in {*small, *untrained}], notes


def divide(assigned: Sequence[str], labels: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int8], str]:
    """Return the part of each image (0 training, 1 validation, 2 test), and a sentence about the split.

    An assigned test part is used; without one, an assigned validation part is tested. Missing parts are held out at
    random: the same fraction of every class, and at least one image of each class that has enough.
    """
    present = set(assigned)
    generator = np.random.default_rng(seed)
    if "train" not in present or not present & {"test", "validation"}:
        parts = np.zeros(len(labels), np.int8)
        _hold_out(parts, labels, TEST, PART_IDS["test"], generator, FEWEST)
        _hold_out(parts, labels, VAL / (1 - TEST), PART_IDS["validation"], generator, 2)
        return parts, (
            f"The data has no test part: {TEST:.0%} of every class are held out for testing and {VAL:.0%} for "
            f"validation, at random with seed {seed}."
        )
    parts = np.array([PART_IDS.get(part, 0) for part in assigned], np.int8)
    if {"test", "validation"} <= present:
        return parts, "The given training, validation and test parts are used."
    if "test" not in present:
        parts[parts == PART_IDS["validation"]] = PART_IDS["test"]
    _hold_out(parts, labels, VAL, PART_IDS["validation"], generator, 2)
    tested = "test" if "test" in present else "validation"
    return parts, (
        f"The given {tested} part is tested; {VAL:.0%} of every class of the training part are held out for "
        f"validation, at random with seed {seed}."
    )


def _hold_out(
    parts: NDArray[np.int8],
    labels: NDArray[np.int64],
    fraction: float,
    part: int,
    generator: np.random.Generator,
    least: int,
) -> None:
    """Move a fraction of every class from training to another part; classes with fewer than `least` stay whole."""
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (parts == 0))
        if len(rows) >= least:
            held = min(max(1, round(fraction * len(rows))), len(rows) - 1)
            parts[generator.permutation(rows)[:held]] = part
