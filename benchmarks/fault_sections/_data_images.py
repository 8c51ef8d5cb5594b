"""Parquet files with odd, damaged and wrong pictures, and small tables called mnist."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ._data_case import DataCase, Expect
from ._data_tables import Row, columns, encode, put_sixth, write
from ._pictures import picture


def image_cases() -> Iterator[DataCase]:
    """All of them."""
    for name, make, expect in _image_cases():
        yield DataCase(name, "table", make, expect)
    for name, make, *flags in _mnist_cases():
        yield DataCase(name, "mnist", make, "refused", tuple(flags))


def _images(change: Callable[[bytes], Any]) -> Callable[[Path], int]:
    """The sixth picture is changed."""

    def make(folder: Path) -> int:
        content = columns()
        content["image"] = put_sixth(content["image"], {"bytes": change(content["image"][5]["bytes"]), "path": None})
        return write(folder, content)

    return make


def _image_cases() -> Iterator[Row]:
    for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"):
        whole = encode(5, kind=kind)
        yield f"a {kind}", _images(lambda _, whole=whole: whole), "right"
        for share in (0.1, 0.6, 0.98):
            cut = whole[: int(share * len(whole))]
            expect: Expect = "any" if share > 0.5 else "refused"
            yield f"a {kind} cut at {share:.0%}", _images(lambda _, cut=cut: cut), expect
        for place in (1, len(whole) // 2):
            flipped = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
            yield f"a {kind} with a flipped bit at {place}", _images(lambda _, flipped=flipped: flipped), "any"
    yield "an empty picture", _images(lambda _: b""), "refused"
    yield "zeros as a picture", _images(lambda data: bytes(len(data))), "refused"
    yield "text as a picture", _images(lambda _: b"a picture of a cat"), "refused"
    yield "PostScript as a picture", _images(lambda _: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "refused"
    yield "SVG as a picture", _images(lambda _: b"<svg width='16' height='16'/>"), "refused"
    yield "PPM as a picture", _images(lambda _: b"P6 16 16 255\n" + bytes(768)), "refused"
    yield "a picture of one pixel", _images(lambda _: encode(0, 1)), "right"
    yield "a larger picture", _images(lambda _: encode(0, 40)), "right"
    for mode in ("L", "1", "P", "RGBA", "LA", "CMYK", "I;16"):
        yield f"a picture of mode {mode}", _images(lambda _, mode=mode: _mode(mode)), "right"


def _mode(mode: str) -> bytes:
    import numpy as np
    from PIL import Image

    stream = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.arange(256, dtype=np.uint16).reshape(16, 16) * 200).save(stream, "PNG")
    else:
        picture(5).convert(mode).save(stream, "TIFF" if mode == "CMYK" else "PNG")
    return stream.getvalue()


def _mnist(
    folder: Path,
    size: int = 28,
    test_size: int = 28,
    classes: int = 10,
    test_classes: int = 10,
    mode: str = "L",
    parts: tuple[str, ...] = ("train", "test"),
    test_rows: int = 20,
    shift: int = 0,
) -> int:
    for part, rows, side, several in (("train", 40, size, classes), ("test", test_rows, test_size, test_classes)):
        if part in parts:
            images = [{"bytes": encode(each, side, mode), "path": None} for each in range(rows)]
            table = {"image": pa.array(images, pa.struct({"bytes": pa.binary(), "path": pa.string()}))}
            table["label"] = pa.array([each % several + shift for each in range(rows)], pa.int64())
            pq.write_table(pa.table(table), folder / f"{part}-00000-of-00001.parquet")
    return 40 + test_rows


def _mnist_cases() -> Iterator[tuple[Any, ...]]:
    yield "40 images called mnist", _mnist
    yield "test images of another size", lambda f: _mnist(f, test_size=20)
    yield "images of 20 pixels", lambda f: _mnist(f, 20, 20)
    yield "images of 2 pixels", lambda f: _mnist(f, 2, 2)
    yield "colored images", lambda f: _mnist(f, mode="RGB")
    yield "one class", lambda f: _mnist(f, classes=1)
    yield "one class in the test set", lambda f: _mnist(f, test_classes=1)
    yield "three classes", lambda f: _mnist(f, classes=3, test_classes=3)
    yield "eleven classes", lambda f: _mnist(f, classes=11)
    yield "labels from 1", lambda f: _mnist(f, shift=1)
    yield "no test set", lambda f: _mnist(f, parts=("train",))
    yield "no training set", lambda f: _mnist(f, parts=("test",))
    yield "an empty test set", lambda f: _mnist(f, test_rows=0)
    yield "more validation images than images", _mnist, "--data.val", "41"
    yield "all images for validation", _mnist, "--data.val", "40"
    yield "a negative number of validation images", _mnist, "--data.val", "-1"
