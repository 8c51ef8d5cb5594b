"""Resizing of pictures to a common size."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ...files import read_limited
from .decode import Pixels, open_picture, to_mode
from .layouts import MOST_BYTES


def resize_pictures(
    batches: Iterable[list[bytes] | list[Path]], size: int, how: Image.Resampling = Image.Resampling.BICUBIC
) -> Iterator[Pixels]:
    """Resize pictures to `size` x `size`, ignoring their aspect ratio; downscaling is antialiased.

    Threads are used because, unlike small pictures, large ones are decoded without holding the interpreter lock.
    """

    def pixels(picture: bytes | Path) -> Any:
        try:
            data = picture if isinstance(picture, bytes) else read_limited(picture, MOST_BYTES)
            opened = to_mode(open_picture(data), "RGB")
        except (OSError, SyntaxError, ValueError) as error:
            name = "" if isinstance(picture, bytes) else f"{picture.name}: "
            raise ValueError(f"{name}{error}") from error
        return np.asarray(opened if opened.size == (size, size) else opened.resize((size, size), how))

    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as threads:
        for batch in batches:
            yield channels_first(np.stack(list(threads.map(pixels, batch))))


def channels_first(pixels: Pixels) -> Pixels:
    """Convert (N, H, W, C) to (N, C, H, W)."""
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
