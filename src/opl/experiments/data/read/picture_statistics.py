"""Channels, mean and standard deviation of pictures, from a sample."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ....errors import DataError
from ..crops import central_box, decode_crop
from .source import one_line

SAMPLE = 1000  # pictures, evenly spaced
SIDE = 128  # pixels to which they are reduced
GRAY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L", "I;16N")  # Pillow's modes


class Pictures(Protocol):
    """Encoded pictures."""

    def __len__(self) -> int: ...

    def read(self, row: int) -> bytes:
        """Return an encoded picture."""
        ...

    def name(self, row: int) -> str:
        """Return a name of the picture, for messages."""
        ...


def describe_pictures(pictures: Pictures) -> dict[str, Any]:
    """Return `channels` (1 if all are gray, otherwise 3), and `mean` and `std` of each, of pixels in [0, 1]."""
    rows = np.unique(np.linspace(0, len(pictures) - 1, SAMPLE).astype(int)).tolist()
    gray, sums = True, np.zeros((2, 3))
    for row in rows:
        mode, values = _sample(pictures, row)
        gray = gray and mode in GRAY
        sums += np.stack([values.mean(0), np.square(values).mean(0)])
    mean, squares = (sums / len(rows))[:, : 1 if gray else 3]
    std = np.sqrt(np.maximum(squares - np.square(mean), 1e-6))
    return {"channels": len(mean), "mean": _rounded(mean), "std": _rounded(std)}


def _sample(pictures: Pictures, row: int) -> tuple[str, Any]:
    """Return the mode of a picture and its pixels, (n, 3) in [0, 1]."""
    from .decode import open_picture

    try:
        data = pictures.read(row)
        with open_picture(data) as picture:
            mode = str(picture.mode)
        crop = decode_crop(data, lambda width, height: central_box(width, height, 1.0), SIDE, "RGB")
    except Exception as error:  # Pillow raises many kinds for damaged pictures
        raise DataError(undecodable(pictures.name(row), error)) from error
    return mode, crop.reshape(SIDE * SIDE, 3) / 255


def undecodable(name: str, error: Exception) -> str:
    """Return the sentence for a picture that cannot be decoded."""
    return f"{name} cannot be decoded ({type(error).__name__}: {one_line(error)}): replace or remove it."


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(float(value), 5) for value in values]
