"""Matrices and pictures as data URIs, so that the page is one file."""

import base64
import io
from typing import Any

import numpy as np

from .style import Array

# Cividis, and a scale from blue through near-white to orange; both are color-blind safe.
SEQUENTIAL = ("#00224e", "#414d6b", "#7d7c78", "#bcae6e", "#fee838")
DIVERGING = ("#004b87", "#5b9bd0", "#f4f4f4", "#ef9a5c", "#a63d00")
SIDE = 40  # pixels of a picture in a sheet, at most
SMALLEST = 96  # pixels of the shorter side of a picture shown alone


def heat_map(values: Array, low: float, high: float, stops: tuple[str, ...]) -> str:
    """Encode a matrix as a PNG data URI, one pixel per cell; cells that are not finite are transparent."""
    from PIL import Image

    share = np.clip((np.asarray(values, dtype=float) - low) / (high - low), 0, 1)
    indices = np.where(np.isfinite(share), 1 + np.round(np.nan_to_num(share) * 254), 0).astype(np.uint8)
    image = Image.fromarray(indices)
    image.putpalette([0, 0, 0, *_ramp(stops).ravel().tolist()])
    return _encode(image, "PNG", transparency=0, optimize=True)


def sheet(pixels: Array, across: int) -> str:
    """Encode pictures, (N, H, W, 1 or 3) of uint8, each at most 40 pixels wide, as one WebP data URI."""
    from PIL import Image

    count, height, width, _ = pixels.shape
    small_w, small_h = small_size(width, height)
    whole = Image.new("RGB", (across * small_w, -(-count // across) * small_h))
    for index, picture in enumerate(np.asarray(pixels)):
        small = _image(picture).resize((small_w, small_h), Image.Resampling.LANCZOS)  # a copy if the size is equal
        whole.paste(small, (index % across * small_w, index // across * small_h))
    return _encode(whole, "WEBP", quality=72, method=4)


def enlarge(pixels: Array) -> str:
    """Encode a picture, (H, W, 1 or 3) of uint8, as a PNG data URI; small pictures are enlarged without blurring."""
    from PIL import Image

    height, width, _ = pixels.shape
    factor = -(-SMALLEST // min(height, width, SMALLEST))
    image = _image(pixels).resize((factor * width, factor * height), Image.Resampling.NEAREST)
    return _encode(image, "PNG", optimize=True)


def small_size(width: int, height: int) -> tuple[int, int]:
    """Return the size of a picture in a sheet.

    Example:
        >>> small_size(64, 64), small_size(8, 8)
        ((40, 40), (8, 8))
    """
    factor = min(1.0, SIDE / max(width, height))
    return max(1, round(width * factor)), max(1, round(height * factor))


def _image(pixels: Array) -> Any:
    from PIL import Image

    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels))


def _ramp(stops: tuple[str, ...]) -> Array:
    """Return (255, 3): colors between the stops."""
    known = np.array([[int(stop[start : start + 2], 16) for start in (1, 3, 5)] for stop in stops])
    at = np.linspace(0, len(stops) - 1, 255)
    parts = [np.interp(at, np.arange(len(stops)), channel) for channel in known.T]
    return np.stack(parts, axis=1).round().astype(np.uint8)


def _encode(image: Any, kind: str, **options: Any) -> str:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
