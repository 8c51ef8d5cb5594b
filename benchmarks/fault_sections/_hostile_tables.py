"""Hostile Parquet files and pictures, read as MNIST."""

import io
import json
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from ._hostile_case import CANARY, SECRET, Case, new_place, ran, train

MNIST = train("mnist-ce", "--data.val", "2")
Entry = dict[str, Any]


def png(value: int = 0, size: int = 28) -> bytes:
    """Encode a gray picture."""
    stream = io.BytesIO()
    Image.fromarray(np.full((size, size), value, np.uint8)).save(stream, "png")
    return stream.getvalue()


def write_table(place: Path, entry: Entry, names: list[str] | None = None, labels: Any = None, **options: Any) -> None:
    """Write MNIST's two Parquet files, in which one of the pictures to train on is `entry`."""
    told = {"label": {"names": names or [str(digit) for digit in range(10)], "_type": "ClassLabel"}}
    for split in ("train", "test"):
        pictures: list[Entry] = [{"bytes": png(number), "path": None} for number in range(20)]
        if split == "train":
            pictures[3] = entry
        numbers = pa.array([number % 10 for number in range(20)]) if labels is None else labels
        table = pa.table({"image": pa.array(pictures), "label": numbers})
        head = {"huggingface": json.dumps({"info": {"features": told}})}
        pq.write_table(table.replace_schema_metadata(head), place / f"{split}-00000-of-00001.parquet", **options)


def _picture(content: Callable[[Path], bytes]) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        write_table(new_place(scratch), {"bytes": content(scratch), "path": None})
        return scratch / "hostile"

    return make


def _path(name: Callable[[Path], str], prepare: Callable[[Path], None] = lambda _: None) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        place = new_place(scratch)
        (scratch / "secret.png").write_bytes(png(SECRET))
        prepare(place)
        write_table(place, {"bytes": None, "path": name(scratch)})
        return place

    return make


def eps(scratch: Path) -> bytes:
    """A PostScript program that writes the canary."""
    program = f"({scratch / CANARY}) (w) file dup (ran) writestring closefile"
    return f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\n{program}\nshowpage\n%%EOF\n".encode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png_of(width: int, height: int, rows: int = 0) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compressobj(9)
    content = b"".join(packed.compress(bytes(width + 1)) for _ in range(rows)) + packed.flush()
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _text_bomb(_: Path) -> bytes:
    whole = png()
    text = b"k\0\0" + zlib.compress(bytes(1 << 28), 9)
    return whole[:33] + _chunk(b"zTXt", text) + whole[33:]


def _header(kind: str) -> Callable[[Path], bytes]:
    heads = {
        "BMP": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0),
        "GIF": b"GIF89a" + struct.pack("<HHBBB", 65_535, 65_535, 0, 0, 0) + b",\0\0\0\0\xff\xff\xff\xff\0\2\1\0\0;",
        "TIFF": b"II*\0\x08\0\0\0\5\0"
        + b"".join(
            struct.pack("<HHII", tag, 4, 1, value)
            for tag, value in ((256, 90_000), (257, 90_000), (258, 8), (262, 1), (273, 8))
        )
        + bytes(4),
    }
    return lambda _: heads[kind]


OTHERS: dict[str, bytes] = {  # formats that Pillow knows and nobody needs
    "PPM": b"P6 28 28 255\n" + bytes(28 * 28 * 3),
    "PDF": b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n",
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
    "FITS": b"SIMPLE  =                    T".ljust(2880),
    "WMF": b"\xd7\xcd\xc6\x9a\0\0" + bytes(40),
    "PSD": b"8BPS\0\1" + bytes(60),
    "ICNS": b"icns" + struct.pack(">I", 16) + b"ic08" + struct.pack(">I", 8),
    "MSP": b"DanM" + bytes(60),
    "nothing": b"",
    "text": b"picture",
}


def _fifo(place: Path) -> None:
    os.mkfifo(place / "fifo.png")


def _link(target: str) -> Callable[[Path], None]:
    return lambda place: (place / "link.png").symlink_to(target)


def _link_out(place: Path) -> None:
    (place / "link.png").symlink_to(place.parent / "secret.png")


def _linked_folder(place: Path) -> None:
    (place / "sub").symlink_to(place.parent)


def _labels(values: Any) -> Callable[[Path], Path]:
    def make(scratch: Path) -> Path:
        write_table(new_place(scratch), {"bytes": png(), "path": None}, labels=values)
        return scratch / "hostile"

    return make


def _rows(scratch: Path) -> Path:
    place, count = new_place(scratch), 30_000_000
    write_table(place, {"bytes": png(), "path": None})
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([png()]))
    table = pa.table({"image": image, "label": pa.array(np.arange(count) % 10)})
    pq.write_table(table, place / "train-00000-of-00001.parquet", compression="zstd")
    return place


def _zeros(scratch: Path) -> Path:
    place = new_place(scratch)
    write_table(place, {"bytes": bytes(1 << 30), "path": None}, compression="zstd")
    return place


def _nested_schema(scratch: Path) -> Path:
    place = new_place(scratch)
    write_table(place, {"bytes": png(), "path": None})
    for file in place.iterdir():
        head = {"huggingface": "[" * 200_000}
        pq.write_table(pq.read_table(file).replace_schema_metadata(head), file)
    return place


def _parquet_fifo(scratch: Path) -> Path:
    place = new_place(scratch)
    write_table(place, {"bytes": png(), "path": None})
    (place / "train-00000-of-00001.parquet").unlink()
    os.mkfifo(place / "train-00000-of-00001.parquet")
    return place


def cases() -> Iterator[Case]:
    """Every hostile table."""
    yield Case("EPS in Parquet", _picture(eps), MNIST, ran)
    for name, content in OTHERS.items():
        yield Case(f"{name} in Parquet", _picture(lambda _, content=content: content), MNIST, ran)
    pictures = {
        "PNG of 10^10 pixels": lambda _: _png_of(100_000, 100_000),
        "PNG of 10^8 pixels, packed": lambda _: _png_of(10_000, 10_000, 10_000),
        "PNG with a text that unpacks to 256 MB": _text_bomb,
        **{f"{kind} of 10^9 pixels": _header(kind) for kind in ("BMP", "GIF", "TIFF")},
    }
    for name, make in pictures.items():
        yield Case(name, _picture(make), MNIST, ran)
    paths: dict[str, Callable[[Path], Path]] = {
        "path out of the folder": _path(lambda _: "../secret.png"),
        "absolute path": _path(lambda scratch: str(scratch / "secret.png")),
        "path of a password file": _path(lambda _: "/etc/passwd"),
        "path of an endless device": _path(lambda _: "/dev/zero"),
        "path of a terminal": _path(lambda _: "/dev/stdin"),
        "path of a process": _path(lambda _: "/proc/self/environ"),
        "path of a pipe": _path(lambda _: "fifo.png", _fifo),
        "link to a device": _path(lambda _: "link.png", _link("/dev/zero")),
        "link to itself": _path(lambda _: "link.png", _link("link.png")),
        "link out of the folder": _path(lambda _: "link.png", _link_out),
        "path through a linked folder": _path(lambda _: "sub/secret.png", _linked_folder),
        "path with a null byte": _path(lambda _: "a\0b.png"),
        "path of a folder": _path(lambda _: "."),
        "path of the network": _path(lambda _: "https://example.org/a.png"),
    }
    for name, make in paths.items():
        yield Case(name, make, MNIST, ran)
    yield Case("a table of 30 million rows in a few bytes", _rows, MNIST, ran)
    yield Case("a picture of 1 GB of zeros, packed", _zeros, MNIST, ran)
    yield Case("a schema nested 200,000 deep", _nested_schema, MNIST, ran)
    yield Case("a pipe called Parquet", _parquet_fifo, MNIST, ran)
    numbers = {"huge": pa.array([2**63] * 20, pa.uint64()), "missing": pa.array([None] * 20, pa.int64())}
    for name, values in numbers.items():
        yield Case(f"labels that are {name}", _labels(values), MNIST, ran)
