"""Idx files, few-shot pickles, lists of images and noise matrices that are damaged or wrong."""

import gzip
import json
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ._data_case import DataCase, Expect
from ._pictures import domain_folder

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
Make = Callable[[Path], object]


def file_cases() -> Iterator[DataCase]:
    """All of them."""
    yield from (DataCase(f"idx files, {name}", "mnist", make, expect) for name, make, expect in _idx_cases())
    yield from (DataCase(f"pickles, {name}", "cifar-fs-rfs", make) for name, make in _pickle_cases())
    yield from (DataCase(f"archives, {name}", "tiered-imagenet-rfs", make) for name, make in _archive_cases())
    yield from (DataCase(f"lists, {name}", "mini-imagenet-rfs", make) for name, make in _csv_cases())
    yield from (DataCase(name, "noise", make, expect) for name, make, expect in _matrix_cases())
    for name, lines in _LISTS.items():
        yield DataCase(f"lists, {name}", "domains", _listed(lines), "refused", ("--data.lists", "data"))


def _idx(values: np.ndarray, code: int = 8) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, code, values.ndim, *values.shape) + values.tobytes()


def _write_idx(folder: Path, changed: dict[str, bytes] | None = None, **sizes: int) -> None:
    chance = np.random.default_rng(0)
    rows, side, test_side = sizes.get("rows", 40), sizes.get("side", 28), sizes.get("test_side", 28)
    for part, count, pixels in (("train", rows, side), ("t10k", 20, test_side)):
        images = chance.integers(0, 256, (count, pixels, pixels), dtype=np.uint8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(_idx(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx((np.arange(count) % 10).astype(np.uint8)))
    for name, data in (changed or {}).items():
        (folder / name).write_bytes(data)


def _edit(number: int, edit: Callable[[bytes], bytes]) -> Make:
    def make(folder: Path) -> None:
        _write_idx(folder)
        file = folder / IDX[number]
        file.write_bytes(edit(file.read_bytes()))

    return make


def _idx_cases() -> Iterator[tuple[str, Make, Expect]]:
    for number, name in enumerate(IDX[:2]):
        kind = name.split("-")[1]
        yield f"{kind} cut", _edit(number, lambda data: data[: len(data) // 2]), "refused"
        yield f"{kind} cut in the header", _edit(number, lambda data: data[:6]), "refused"
        yield f"{kind} with bytes appended", _edit(number, lambda data: data + b"x"), "refused"
        yield f"{kind} emptied", _edit(number, lambda data: b""), "refused"
        yield f"{kind} of another type", _edit(number, lambda data: data[:2] + b"\x0d" + data[3:]), "refused"
        yield f"{kind} of other dimensions", _edit(number, lambda data: data[:3] + b"\x02" + data[4:]), "refused"
        yield (
            f"{kind} that claim to be many",
            _edit(number, lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:]),
            "refused",
        )
        yield f"{kind} that claim to be none", _edit(number, lambda data: data[:4] + bytes(4) + data[8:]), "refused"
        yield f"{kind} as half a gzip", _edit(number, lambda data: gzip.compress(data)[:-20]), "refused"
        yield f"{kind} as a damaged gzip", _edit(number, _damaged_gzip), "refused"
        yield f"{kind} as text", _edit(number, lambda data: b"0 1 2 3 4 5 6 7 8 9 " * 40), "refused"
    yield "a label 10", lambda f: _write_idx(f, {IDX[1]: _idx(np.full(40, 10, np.uint8))}), "refused"
    yield "fewer labels than images", lambda f: _write_idx(f, {IDX[1]: _idx(np.zeros(39, np.uint8))}), "refused"
    yield "one class", lambda f: _write_idx(f, {IDX[1]: _idx(np.zeros(40, np.uint8))}), "refused"
    yield "test images of another size", lambda f: _write_idx(f, test_side=20), "refused"
    yield "40 images", _write_idx, "refused"
    yield "no images", lambda f: _write_idx(f, rows=0), "refused"
    for name in IDX:
        yield f"{name} missing", lambda f, name=name: _write_idx(f) or (f / name).unlink(), "refused"
    yield (
        "a pipe in place of images",
        lambda f: _write_idx(f) or (f / IDX[0]).unlink() or os.mkfifo(f / IDX[0]),
        "refused",
    )
    yield (
        "a folder in place of labels",
        lambda f: _write_idx(f) or (f / IDX[1]).unlink() or (f / IDX[1]).mkdir(),
        "refused",
    )


def _damaged_gzip(data: bytes) -> bytes:
    packed = bytearray(gzip.compress(data))
    packed[len(packed) // 2] ^= 0x55
    return bytes(packed)


def _pickle_cases() -> Iterator[tuple[str, Make]]:
    images = np.zeros((6, 32, 32, 3), np.uint8)
    good = {"data": images, "labels": [0, 0, 1, 1, 2, 2]}
    contents: dict[str, object] = {
        "too few images": good,
        "an empty dict": {},
        "a list": [1, 2, 3],
        "a number": 7,
        "no labels": {"data": images},
        "no data": {"labels": [0] * 6},
        "labels null": {**good, "labels": None},
        "labels words": {**good, "labels": ["a"] * 6},
        "labels floats": {**good, "labels": [0.5] * 6},
        "labels NaN": {**good, "labels": [float("nan")] * 6},
        "labels negative": {**good, "labels": [-1] * 6},
        "labels too many": {**good, "labels": [0] * 7},
        "labels nested": {**good, "labels": [[0]] * 6},
        "labels huge": {**good, "labels": [2**70] * 6},
        "images as floats": {**good, "data": images.astype(np.float32)},
        "images flat": {**good, "data": images.reshape(6, -1)},
        "images of another size": {**good, "data": np.zeros((6, 20, 20, 3), np.uint8)},
        "images as text": {**good, "data": "images"},
        "images as objects": {**good, "data": np.array([None] * 6, dtype=object)},
        "no images": {**good, "data": images[:0], "labels": []},
        "keys as bytes": {b"data": images, b"labels": [0] * 6},
        "a dict in itself": _loop(),
    }
    for name, content in contents.items():
        yield name, lambda f, content=content: _pickles(f, pickle.dumps(content))
    data = pickle.dumps(good)
    yield "cut", lambda f: _pickles(f, data[: len(data) // 2])
    yield "emptied", lambda f: _pickles(f, b"")
    yield "text", lambda f: _pickles(f, b"pictures")
    for place in (0, 1, 20, 60, 120, len(data) - 2):
        yield (
            f"a flipped bit at {place}",
            lambda f, p=place: _pickles(f, data[:p] + bytes([data[p] ^ 8]) + data[p + 1 :]),
        )
    yield "one part missing", lambda f: _pickles(f, data) or (f / "CIFAR_FS_val.pickle").unlink()
    yield (
        "a folder in place of one",
        lambda f: _pickles(f, data) or (f / "CIFAR_FS_val.pickle").unlink() or (f / "CIFAR_FS_val.pickle").mkdir(),
    )


def _loop() -> dict[str, object]:
    content: dict[str, object] = {}
    content["data"] = content["labels"] = content
    return content


def _pickles(folder: Path, data: bytes) -> None:
    for part in ("train", "val", "test"):
        (folder / f"CIFAR_FS_{part}.pickle").write_bytes(data)


def _archive_cases() -> Iterator[tuple[str, Make]]:
    def archives(images: bytes, labels: bytes) -> Make:
        def make(folder: Path) -> None:
            for part in ("train", "val", "test"):
                (folder / f"{part}_images.npz").write_bytes(images)
                (folder / f"{part}_labels.pkl").write_bytes(labels)

        return make

    import io

    stream = io.BytesIO()
    np.savez(stream, images=np.zeros((4, 84, 84, 3), np.uint8))
    good, labels = stream.getvalue(), pickle.dumps({"label_specific": [0, 0, 1, 1], "label_specific_str": ["a", "b"]})
    yield "too few images", archives(good, labels)
    yield "cut", archives(good[: len(good) // 2], labels)
    yield "emptied", archives(b"", labels)
    yield "text", archives(b"images", labels)
    yield "a flipped bit", archives(good[:200] + bytes([good[200] ^ 1]) + good[201:], labels)
    yield "no labels", archives(good, b"")
    yield "labels that are a list", archives(good, pickle.dumps([0, 1]))
    yield "labels that lack their key", archives(good, pickle.dumps({}))
    yield "labels of words", archives(good, pickle.dumps({"label_specific": list("abcd"), "label_specific_str": []}))


def _csv_cases() -> Iterator[tuple[str, Make]]:
    def csv(text: bytes) -> Make:
        def make(folder: Path) -> None:
            (folder / "images").mkdir()
            (folder / "images" / "0.jpg").write_bytes(b"")
            for part in ("train", "val", "test"):
                (folder / f"{part}.csv").write_bytes(text)

        return make

    yield "a CSV file without rows", csv(b"filename,label\n")
    yield "an empty CSV file", csv(b"")
    yield "a CSV file with one column", csv(b"filename\n0.jpg\n")
    yield "a CSV file of other columns", csv(b"a,b\n0.jpg,x\n")
    yield "a CSV file with bytes", csv(b"filename,label\n\xff\xfe,\x00\n")
    yield "a CSV file that names other files", csv(b"filename,label\n../../0.jpg,n01532829\n")
    yield "a CSV file with a missing picture", csv(b"filename,label\n1.jpg,n01532829\n")
    yield "a CSV file with an open quote", csv(b'filename,label\n"0.jpg,n01532829\n')


def _matrix_cases() -> Iterator[tuple[str, Make, Expect]]:
    good = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    arrays = {
        "of two rows": good[:2],
        "of one dimension": good[0],
        "of three dimensions": good[None],
        "of negative numbers": good * 3 - 2 / 3,
        "of NaN": good * np.nan,
        "of one infinite": good + np.diag([np.inf, 0, 0]),
        "that sums to 2": good * 2,
        "of zeros": good * 0,
        "of words": np.array([["a"] * 3] * 3),
        "of complex numbers": good * 1j,
        "without rows": good[:0],
        "of numbers above 1": good * 5 - 4 / 3,
    }
    yield "a matrix", lambda f: np.save(f / "m.npy", good), "right"
    yield "a matrix in float32", lambda f: np.save(f / "m.npy", good.astype(np.float32)), "right"
    yield "a matrix in JSON", lambda f: (f / "m.json").write_text(json.dumps(good.tolist())), "right"
    yield "a matrix in text", lambda f: np.savetxt(f / "m.txt", good), "right"
    for name, array in arrays.items():
        yield f"a matrix {name}", lambda f, array=array: np.save(f / "m.npy", array), "refused"
    yield (
        "a matrix of objects",
        lambda f: np.save(f / "m.npy", np.array([[None]], dtype=object), allow_pickle=True),
        "refused",
    )
    texts = {
        "m.json": ("", "{}", "[]", "[[1,2],[3]]", '[["a"]]', "null", "[" * 5000, "NaN", '{"matrix": 1}', "[[1e999]]"),
        "m.txt": ("", "a b c", "1 2 3", "1;2;3", "\x00", "nan nan nan\n" * 3, "0x1 0 0"),
        "m.npy": ("", "\x93NUMPY", "text"),
    }
    for file, contents in texts.items():
        for text in contents:
            yield f"{file} with {text[:20]!r}", lambda f, file=file, text=text: (f / file).write_text(text), "refused"
    yield "a matrix with bytes", lambda f: (f / "m.json").write_bytes(b"\xff\xfe[[1]]"), "refused"
    yield "a pipe", lambda f: os.mkfifo(f / "m.txt"), "refused"
    yield "a folder", lambda f: (f / "m.npy").mkdir(), "refused"
    yield "an endless file", lambda f: (f / "m.txt").symlink_to("/dev/zero"), "refused"
    yield "a header of many numbers", lambda f: (f / "m.npy").write_bytes(_huge_header()), "refused"


def _huge_header() -> bytes:
    import io

    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**3)})
    return stream.getvalue()


_LISTS = {
    "none": None, "empty": b"", "of bytes": b"\xff\xfe\x00", "of unknown pictures": b"a/class-0/9.png 1\n",
    "of pictures elsewhere": b"../../a/class-0/0.png 1\nb/class-0/0.png 1\n", "of words": b"one two three\n",
    "of one picture twice": b"a/class-0/0.png 1\na/class-0/0.png 1\n",
}  # fmt: skip


def _listed(lines: bytes | None) -> Make:
    def make(folder: Path) -> None:
        domain_folder(folder, each=4)
        for kind in ("train", "crossval"):
            if lines is not None:
                (folder / f"a_{kind}_kfold.txt").write_bytes(lines)

    return make
