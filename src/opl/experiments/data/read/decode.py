"""The one decoder: from an encoded image, a file or an array to uint8 pixels, whole, resized, or as a crop."""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from ...files import read_limited
from ..augment import Box, central_box
from .listing import Pixels, Source, Unreadable

T = TypeVar("T")

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""The formats that are opened. Pillow knows others that start programs, such as Ghostscript for EPS."""
GRAY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes
MOST_BYTES = 1 << 28  # of an encoded image
MOST_PIXELS = 1 << 26  # of an image
BATCH = 512  # images that are decoded and stacked at a time
MOST_PIXELS_PER_BATCH = 1 << 28
_ORIENTATION = 0x0112  # EXIF tag
_END_OF_PNG = b"IEND\xaeB`\x82"


class Decoding(NamedTuple):
    """How sources become arrays of one size."""

    mode: str
    """Pillow's `L` or `RGB`."""
    size: int = 0
    """Height and width that images are resized to, regardless of their aspect ratio; 0 keeps their size."""
    resample: Image.Resampling = Image.Resampling.BILINEAR
    invert: bool = False
    """Whether black and white are exchanged."""


def open_image(source: Source) -> Image.Image:
    """Open an image upright, without decoding its pixels unless its orientation needs a rotation.

    Raises:
        OSError: the file cannot be read.
        ValueError: the image has none of the formats, is truncated, or has too many pixels.
    """
    if isinstance(source, Unreadable):
        raise ValueError(source.reason)
    if isinstance(source, np.ndarray):
        return Image.fromarray(source)
    data = source if isinstance(source, bytes) else read_limited(source, MOST_BYTES)
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"an image of {len(data)} bytes is none of {', '.join(FORMATS)}") from error
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"an image of {image.width} x {image.height} has more than {MOST_PIXELS:,} pixels")
    if image.format == "PNG" and _END_OF_PNG not in data:  # Pillow may fill missing rows with black
        raise ValueError("the PNG file is truncated")
    if "exif" in image.info and image.getexif().get(_ORIENTATION, 1) != 1:
        return ImageOps.exif_transpose(image)
    return image


def to_mode(image: Image.Image, mode: str) -> Image.Image:
    """Convert an image to `L` or `RGB`; 16-bit grayscale keeps its upper 8 bits, where Pillow would clip at 255.

    Raises:
        ValueError: the range of its pixels is unknown, as for floating-point numbers.
    """
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image)
        if image.mode == "F" or values.min() < 0 or values.max() >= 1 << 16:
            raise ValueError("the image has more than 16 bits per pixel: save it with 8 or 16 bits")
        image = Image.fromarray((values >> 8).astype(np.uint8))
    return image if image.mode == mode else image.convert(mode)


def decode(source: Source, decoding: Decoding) -> Pixels:
    """Decode a whole image to (H, W, C) pixels."""
    try:
        image = to_mode(open_image(source), decoding.mode)
    except (OSError, SyntaxError, ValueError) as error:
        name = f"{source.name}: " if isinstance(source, Path) else ""
        raise ValueError(f"{name}{error}") from error
    size = (decoding.size, decoding.size)
    if decoding.size and image.size != size:
        image = image.resize(size, decoding.resample)
    values = np.asarray(image)
    values = values[:, :, None] if values.ndim == 2 else values
    return 255 - values if decoding.invert else values


def decode_all(sources: Iterable[Source], decoding: Decoding) -> Iterator[Pixels]:
    """Decode images of one size in order; yield them as (n, C, H, W) arrays of up to 512 images.

    Raises:
        ValueError: an image cannot be decoded, or images differ in size.
    """
    first: tuple[int, ...] = ()
    for arrays in map_batches(partial(decode, decoding=decoding), sources, threads=decoding.size > 0):
        first = first or arrays[0].shape
        if BATCH * first[0] * first[1] > MOST_PIXELS_PER_BATCH:
            raise ValueError(f"images of {first[1]} x {first[0]} are too large for this data set")
        for array in arrays:
            if array.shape != first:
                raise ValueError(f"images of different sizes: {first[:2]} and {array.shape[:2]}")
        yield np.ascontiguousarray(np.stack(arrays).transpose(0, 3, 1, 2))


def map_batches(function: Callable[[Source], T], sources: Iterable[Source], *, threads: bool) -> Iterator[list[T]]:
    """Apply a function to sources, a few hundred at a time.

    Pillow releases the interpreter lock while it decodes large images; for small ones, threads only cost time.
    """
    sources = iter(sources)
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8) if threads else 1) as pool:
        while batch := list(islice(sources, BATCH)):
            yield list(pool.map(function, batch) if threads else map(function, batch))


# Crops


def decode_crop(source: Source, box_of: Callable[[int, int], Box], size: int, mode: str, draft: bool = True) -> Pixels:
    """Decode a region of an image, resized to (size, size, C): bilinear and antialiased.

    `box_of` returns the region, given the image's width and height. With `draft`, JPEGs are decoded at 1/2, 1/4 or 1/8
    of their size if the region stays large enough.
    """
    with open_image(source) as image:
        width, height = image.size
        left, top, wide, tall = box_of(width, height)
        if draft:
            image.draft(mode, (max(1, int(width * size / wide)), max(1, int(height * size / tall))))
        across, down = image.width / width, image.height / height
        right, bottom = min(image.width, (left + wide) * across), min(image.height, (top + tall) * down)
        box = (left * across, top * down, right, bottom)
        resized = to_mode(image, mode).resize((size, size), Image.Resampling.BILINEAR, box=box)
    return np.asarray(resized).reshape(size, size, -1)


class Square(NamedTuple):
    """The central square of an image as (size, size, 3) pixels, and facts about the original image."""

    pixels: Pixels
    width: int
    height: int
    gray: bool


def decode_square(source: Source, size: int) -> Square:
    """Decode the central square of an image."""
    with open_image(source) as image:
        (width, height), gray = image.size, image.mode in GRAY
    return Square(decode_crop(source, central_box, size, "RGB"), width, height, gray)
