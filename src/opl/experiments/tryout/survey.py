"""From a list of pictures to a pack of images: decoded, checked for copies and for what cannot be read, and split."""

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ..data.crops import central_box, decode_crop
from ..data.read.decode import open_picture
from ..data.read.listing import Listing, count, name_some
from ..data.read.pack import PackFacts, write_pack
from ..data.read.picture_statistics import GRAY
from ..data.read.source import one_line
from .parts import divide, remove_copies, remove_small_classes, sample

AT_ONCE = 256  # pictures that are held encoded
SAMPLE, LOOK_SIZE = 200, 64  # pictures that are looked at first, and the size that they are decoded to
FOR_STATISTICS = 2000  # images of which mean and std are taken


class Decoded(NamedTuple):
    """A picture of (size, size, 3) pixels, and what it was before."""

    pixels: NDArray[np.uint8]
    width: int
    height: int
    gray: bool


class Look(NamedTuple):
    """What a first look at some pictures tells."""

    side: int
    """The median of their shorter sides."""
    seconds: float
    """The time to read and decode one."""


def look_at(listing: Listing) -> Look:
    """Read and decode some pictures.

    Raises:
        DataError: none of them can be read.
    """
    rows = np.unique(np.linspace(0, len(listing.entries) - 1, SAMPLE).astype(int)).tolist()
    started = time.perf_counter()
    found = list(_decode_all(listing.read(rows), LOOK_SIZE))
    seconds = (time.perf_counter() - started) / len(rows)
    sides = [min(each.width, each.height) for each in found if isinstance(each, Decoded)]
    if not sides:
        raise _nothing(listing, [(listing.entries[row].name, str(why)) for row, why in zip(rows, found, strict=True)])
    return Look(int(np.median(sides)), seconds)


class PackSettings(NamedTuple):
    """How pictures become a pack."""

    size: int
    """Height and width of the images; the central square of each picture is resized to it."""
    most: int
    """The most pictures to take, an equal fraction of each class and part; 0 takes all."""
    seed: int
    """Of what is sampled and held out."""
    color: bool
    """Whether gray pictures have three channels too, as pretrained networks need."""


def pack_pictures(listing: Listing, folder: Path, settings: PackSettings) -> PackFacts:
    """Decode the pictures of a list into a pack, and return what is known of them.

    Args:
        listing: the pictures.
        folder: of the pack.
        settings: size, number and parts of the images.

    Raises:
        DataError: there are fewer than two classes of readable pictures.
    """
    size, most, seed, color = settings
    rows = sample([entry[:2] for entry in listing.entries], most, seed)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:  # as large as the pack itself
        whole = np.memmap(file, np.uint8, "w+", shape=(max(1, len(rows)), size, size, 3))
        survey = _Survey(listing, rows, whole)
        survey.decode(size)
        survey.clean()
        survey.gray = survey.gray and not color
        facts, arrays = survey.finish(seed, size, pack_key(listing, settings))
        write_pack(folder, facts, arrays)
    return facts


def pack_key(listing: Listing, settings: PackSettings) -> str:
    """The key of a pack: it changes with the files and with the settings."""
    facts = repr((listing.fingerprint, tuple(settings)))
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


class _Survey:
    """The pictures of one list, some of which turn out not to be usable."""

    def __init__(self, listing: Listing, rows: Sequence[int], pixels: NDArray[np.uint8]) -> None:
        self.listing, self.rows, self.pixels = listing, rows, pixels
        self.entries = [listing.entries[row] for row in rows]
        self.notes = list(listing.notes)
        self.shapes: list[tuple[int, int]] = []
        self.sums: list[str] = []
        self.gray = True
        self.unreadable: list[tuple[str, str]] = []
        self.kept: list[int] = []
        if len(rows) < len(listing.entries):
            self.notes.append(
                f"{len(rows):,} of {len(listing.entries):,} pictures are used, the same fraction of every class; "
                "--images changes that."
            )

    def decode(self, size: int) -> None:
        """Decode all pictures; those that cannot be read are noted."""
        for place, found in enumerate(_decode_all(self.listing.read(self.rows), size)):
            if not isinstance(found, Decoded):
                self.unreadable.append((self.entries[place].name, found))
                self.sums.append("")
                continue
            self.pixels[place] = found.pixels
            self.gray = self.gray and found.gray
            self.shapes.append((found.width, found.height))
            self.sums.append(hashlib.blake2b(found.pixels.tobytes(), digest_size=16).hexdigest())
            self.kept.append(place)
        if not self.kept:
            raise _nothing(self.listing, self.unreadable)
        if self.unreadable:
            names = name_some([name for name, _ in self.unreadable])
            self.notes.append(f"Left out: {count(len(self.unreadable), 'picture')} that cannot be read ({names}).")

    def clean(self) -> None:
        """Leave out copies and classes that are too small."""
        labeled = [(place, *self.entries[place][:2], self.sums[place]) for place in self.kept]
        self.kept, said = remove_copies(labeled)
        self.notes += said
        self.kept, said = remove_small_classes([(place, *self.entries[place][:2]) for place in self.kept])
        self.notes += said
        if len(there := {self.entries[place].label for place in self.kept}) < 2:
            classes = f"one class, {there.pop()!r}" if there else "no class"
            why = " ".join(self.notes)
            raise DataError(
                f"{self.listing.where!r} has {classes} with at least 3 usable pictures, and at least two are needed: "
                f"give a folder with a folder for each class.{' ' if why else ''}{why}"
            )

    def finish(self, seed: int, size: int, key: str) -> tuple[PackFacts, dict[str, NDArray[Any]]]:
        """Divide what is left into parts."""
        entries = [self.entries[place] for place in self.kept]
        names = _class_names({entry.label for entry in entries}, self.listing.classes)
        labels = np.array([names.index(entry.label) for entry in entries], np.int32)
        parts, how = divide([entry.part for entry in entries], labels, seed)
        pixels = self.pixels[self.kept][..., : 1 if self.gray else 3].transpose(0, 3, 1, 2)
        mean, std = _statistics(pixels[parts == 0])
        counts = tuple(tuple(np.bincount(labels[parts == part], minlength=len(names)).tolist()) for part in range(3))
        facts = PackFacts(self.listing.where, names, pixels.shape[1], size, mean, std, counts, key)
        notes = (how, *self._describe_sizes(size), *self.notes)
        left_out = tuple(f"{name}: {why}" for name, why in self.unreadable)
        return replace(facts, notes=notes, left_out=left_out), {"pixels": pixels, "labels": labels, "parts": parts}

    def _describe_sizes(self, size: int) -> Iterator[str]:
        low, high = min(self.shapes, key=math.prod), max(self.shapes, key=math.prod)
        if low != high:
            yield (
                f"The pictures have different sizes, from {low[0]} x {low[1]} to {high[0]} x {high[1]}: the central "
                f"square of each is resized to {size} x {size}."
            )
        elif low != (size, size):
            yield f"The pictures of {low[0]} x {low[1]} are resized to {size} x {size} (the central square)."
        if self.gray:
            yield "All pictures are gray: the network has one input channel."


def _decode_all(pictures: Iterator[bytes | str], size: int) -> Iterator[Decoded | str]:
    """Decode pictures in threads: Pillow releases the interpreter while it decodes large ones."""
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as threads:
        chunk: list[bytes | str] = []
        for picture in pictures:
            chunk.append(picture)
            if len(chunk) == AT_ONCE:
                yield from threads.map(lambda data: _decode(data, size), chunk)
                chunk = []
        yield from threads.map(lambda data: _decode(data, size), chunk)


def _decode(data: bytes | str, size: int) -> Decoded | str:
    """Decode the central square of a picture; if that fails, return why."""
    if isinstance(data, str):
        return data
    try:
        with open_picture(data) as picture:
            (width, height), mode = picture.size, str(picture.mode)
        pixels = decode_crop(data, lambda wide, high: central_box(wide, high, 1.0), size, "RGB")
    except Exception as error:  # Pillow raises many kinds for damaged pictures
        return f"{type(error).__name__}: {one_line(error)}"
    return Decoded(pixels, width, height, mode in GRAY)


def _class_names(labels: set[str], order: Sequence[str]) -> tuple[str, ...]:
    """The classes in the order of the files; otherwise numbers by their value, and words by the alphabet."""
    if order and labels <= set(order):
        return tuple(name for name in order if name in labels)
    return tuple(sorted(labels, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name)))


def _statistics(pixels: NDArray[np.uint8]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of pixels in [0, 1]."""
    rows = np.unique(np.linspace(0, len(pixels) - 1, FOR_STATISTICS).astype(int))
    some = pixels[rows].astype(np.float64) / 255
    std = np.maximum(some.std((0, 2, 3)), 1e-3)
    return tuple(some.mean((0, 2, 3)).round(5).tolist()), tuple(std.round(5).tolist())


def _nothing(listing: Listing, unreadable: Sequence[tuple[str, str]]) -> DataError:
    first = "; ".join(f"{name}: {why}" for name, why in unreadable[:3])
    return DataError(
        f"none of the {len(unreadable):,} pictures of {listing.where!r} that were read is a picture ({first}): give "
        "JPEG, PNG, WebP, BMP, GIF or TIFF files."
    )
