"""Hostile files: whatever tries to run code, to read or write elsewhere, or to exhaust the machine.

A case is right or refused unless it gets its way: the canary file exists (code ran, or a file outside was written), an
image that nobody may read is in the cache, or a script is on the page.
"""

import gzip
import io
import json
import os
import pickle
import shlex
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from _files import PIPE, SHARD, TEST_SHARD, Files, Link, for_parts, parquet, write
from _process import MEMORY, prepare, run
from campaign import Case, Verdict
from PIL import Image

from _finished_runs import write_finished
from _image_files import encoded
from _vouched import metric_lines, vouch

SECRET = 171  # the value of all pixels of an image that nobody may read
SCRIPT = "<script>alert(1)</script>"
MODULES = ("json", "torch", "random", "numpy", "struct", "pickle", "socket", "subprocess", "yaml", "PIL", "opl")
RUN_FILES = (
    "recipe.json", "done", "result.json", "metrics.jsonl", "splits.json", "checkpoint.pt", "model.safetensors",
    "test.npz", "sums.json",
)  # fmt: skip
MNIST = "train mnist-ce --epochs 1 --out runs/deep/down --data.root hostile --data.val 2"
DOMAINS = (
    "train domains-erm --epochs 1 --out runs/deep/down --data.root hostile --data.num-classes 2 --data.target a "
    "--data.size 32 --weights ''"
)
FEW_SHOT = "train {}-rfs --epochs 1 --out runs/deep/down --data.root hostile"
DIGITS = "train digits-opl --scale tiny --epochs 1 --out runs/deep/down"
Content = Callable[[Path], bytes]


class Hostile(NamedTuple):
    """The files of the folder `hostile`, and the `opl` command that meets it; if it is `inside`, in that folder."""

    name: str
    files: Files | Callable[[Path], object]
    argv: str
    inside: bool = False


class Touch:
    """A value whose pickle creates the canary when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.command = f"touch '{folder.parent / 'canary'}'"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Make every hostile folder, and run the command that meets it."""
    for hostile in (*_tables(), *_pickles(), *_archives(), *_run_folders()):
        yield Case(f"{hostile.name}: opl {hostile.argv}", partial(_attack, hostile))


def _attack(hostile: Hostile, root: Path) -> Verdict:
    folder, make = root / "hostile", hostile.files if callable(hostile.files) else partial(write, files=hostile.files)
    folder.mkdir()
    (root / "secret.png").write_bytes(_gray(SECRET))
    prepare("", root, function=lambda: make(folder), memory=2 * MEMORY)  # in a child, whose memory is freed
    ended = run(hostile.argv, folder if hostile.inside else root, fresh=hostile.inside)
    cached = any(bytes([SECRET]) * 700 in file.read_bytes() for file in root.rglob("cache/**/*.npy"))
    pages = [file.read_text(errors="replace") for file in root.rglob("*.html")]
    scripted = any(SCRIPT in page or "<img src=x onerror" in page for page in pages)
    outside = (root / "canary").exists() or any(root.rglob("escaped*")) or any(root.parent.glob("escaped*"))
    return Verdict("execution" if cached or scripted or outside else ended.outcome, ended=ended)


def _gray(value: int = 0, size: int = 28) -> bytes:
    """An image with one value everywhere."""
    return encoded(Image.fromarray(np.full((size, size), value, np.uint8)))


def _postscript(folder: Path) -> bytes:
    program = f"({folder.parent / 'canary'}) (w) file dup (ran) writestring closefile"
    return f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\n{program}\nshowpage\n%%EOF\n".encode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(width: int, height: int, rows: int) -> bytes:
    """A PNG that announces a size and unpacks to `rows` rows of zeros."""
    packed = zlib.compressobj(9)
    content = b"".join(packed.compress(bytes(width + 1)) for _ in range(rows)) + packed.flush()
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


TIFF_TAGS = ((256, 90_000), (257, 90_000), (258, 8), (262, 1), (273, 8))  # width, height, ...
IMAGES: dict[str, Content] = {
    "PostScript": _postscript,
    "PPM": lambda _: b"P6 28 28 255\n" + bytes(28 * 28 * 3),
    "PDF": lambda _: b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n",
    "SVG": lambda _: b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
    "FITS": lambda _: b"SIMPLE  =                    T".ljust(2880),
    "PSD": lambda _: b"8BPS\0\1" + bytes(60),
    "ICNS": lambda _: b"icns" + struct.pack(">I", 16) + b"ic08" + struct.pack(">I", 8),
    "PNG of 10^10 pixels": lambda _: _png(100_000, 100_000, 0),
    "PNG of 10^8 pixels, packed": lambda _: _png(10_000, 10_000, 10_000),
    "PNG with text that unpacks to 256 MB": lambda _: (
        _gray()[:33] + _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 28), 9)) + _gray()[33:]
    ),
    "BMP of 10^9 pixels": lambda _: (
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 60_000, 60_000, 1, 24, *[0] * 6)
    ),
    "TIFF of 10^9 pixels": lambda _: (
        b"II*\0\x08\0\0\0\5\0" + b"".join(struct.pack("<HHII", tag, 4, 1, n) for tag, n in TIFF_TAGS) + bytes(4)
    ),
    "1 GB of zeros, packed": lambda _: bytes(1 << 30),
}
LINKS = {"device.png": "/dev/zero", "loop.png": "loop.png", "out.png": "../secret.png", "sub": ".."}
PATHS = (
    "../secret.png", "{root}/secret.png", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/environ", "pipe.png",
    "device.png", "loop.png", "out.png", "sub/secret.png", "a\0b.png", ".", "https://example.org/a.png",
)  # fmt: skip


def _mnist(image: Content | None = None, path: str | None = None, labels: Any = None, **options: Any) -> Files:
    """MNIST's two Parquet files, in which one of the training images is odd."""
    features = {"label": {"names": [str(digit) for digit in range(10)], "_type": "ClassLabel"}}

    def split(folder: Path, odd: bool) -> bytes:
        images: list[dict[str, Any]] = [{"bytes": _gray(number), "path": None} for number in range(20)]
        if odd and (image or path):
            place = path.replace("{root}", str(folder.parent)) if path else None
            images[3] = {"bytes": image(folder) if image else None, "path": place}
        values = pa.array([number % 10 for number in range(20)]) if labels is None else labels
        return parquet({"image": images, "label": values}, features, **options)

    return {SHARD: lambda folder: split(folder, True), TEST_SHARD: lambda folder: split(folder, False)}


def _many_rows(_: Path) -> bytes:
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, np.int32)), pa.array([_gray()]))
    return parquet({"image": image, "label": pa.array(np.arange(30_000_000) % 10)}, compression="zstd")


def _deep_schema(_: Path) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    table = pa.table({"image": pa.array([_gray()] * 20), "label": pa.array([number % 10 for number in range(20)])})
    pq.write_table(table.replace_schema_metadata({"huggingface": "[" * 200_000}), stream)
    return stream.getvalue()


def _tables() -> Iterator[Hostile]:
    for name, image in IMAGES.items():
        yield Hostile(f"{name} in Parquet", _mnist(image, compression="zstd"), MNIST)
    around = {"pipe.png": PIPE, **{name: Link(target) for name, target in LINKS.items()}}
    yield from (Hostile(f"an image at {path!r}", {**around, **_mnist(path=path)}, MNIST) for path in PATHS)
    for labels in (pa.array([2**63] * 20, pa.uint64()), pa.array([None] * 20, pa.int64())):
        yield Hostile(f"labels {labels[0]}", _mnist(labels=labels), MNIST)
    yield Hostile("30 million rows in a few bytes", {**_mnist(), SHARD: _many_rows}, MNIST)
    deep = {SHARD: _deep_schema, TEST_SHARD: _deep_schema}
    yield Hostile("a schema nested 200,000 deep", deep, MNIST)


def _expanding_lists(_: Path) -> bytes:
    value: Any = [0] * 10
    for _ in range(60):
        value = [value, value]
    return pickle.dumps({"data": np.zeros((2, 84, 84, 3), np.uint8), "labels": value}, 2)


PICKLES: dict[str, Content] = {
    "a program, protocol 0": lambda f: pickle.dumps({"data": Touch(f), "labels": []}, 0),
    "a program, protocol 2": lambda f: pickle.dumps({"data": Touch(f), "labels": []}, 2),
    "a program, protocol 5": lambda f: pickle.dumps({"data": Touch(f), "labels": []}, 5),
    "a call by an old opcode": lambda f: f"(S'touch {f.parent / 'canary'}'\nios\nsystem\n.".encode(),
    "a set attribute": lambda f: b"cnumpy.core.multiarray\n_reconstruct\n}(S'__module__'\nS'x'\nub.",
    "lists that expand": _expanding_lists,
    "a key whose hash takes forever": lambda f: b"\x80\x02}(K\x00\x85" + b"2\x86" * 64 + b"K\x01u.",
    "announced bytes that are missing": lambda f: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "a huge memo index": lambda f: b"\x80\x02K\x01r" + struct.pack("<I", 0xFFFFFFF0) + b".",
    "a huge bytearray": lambda f: b"c__builtin__\nbytearray\n(I1000000000000\ntR.",
    "a frame of a terabyte": lambda f: b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"K\x01.",
    "values nested 100,000 deep": lambda f: b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "an array of objects": lambda f: pickle.dumps(np.array([len], dtype=object), 2),
    "a persistent id": lambda f: b"\x80\x02U\x01xQ.",
}


def _pickles() -> Iterator[Hostile]:
    for name, content in PICKLES.items():
        for data, file in (("cifar-fs", "CIFAR_FS_{}.pickle"), ("mini-imagenet", "mini-imagenet-cache-{}.pkl")):
            yield Hostile(f"a pickle with {name}", for_parts(**{file: content}), FEW_SHOT.format(data))


def _archive(**members: Content) -> Content:
    """A packed archive; names may have `__` for `../`."""

    def content(folder: Path) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, make in members.items():
                archive.writestr(name.replace("__", "../"), make(folder))
        return stream.getvalue()

    return content


def _header(descr: str, *shape: int) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def _packed_idx(shape: tuple[int, ...], size: int) -> Files:
    def content(*sizes: int) -> bytes:
        return gzip.compress(struct.pack(f">4B{len(sizes)}I", 0, 0, 8, len(sizes), *sizes) + bytes(size), 9)

    kinds = {"images-idx3": shape, "labels-idx1": shape[:1]}
    return {
        f"{part}-{kind}-ubyte.gz": lambda _, sizes=sizes: content(*sizes)
        for part in ("train", "t10k")
        for kind, sizes in kinds.items()
    }


def _saved(filename: str) -> Files:
    """A data set of `save_to_disk` whose data is in another file."""
    files: Files = {"dataset_dict.json": json.dumps({"splits": ["train", "test"]}).encode(), "train/fifo.arrow": PIPE}
    for split in ("train", "test"):
        state = {"_data_files": [{"filename": filename}], "_fingerprint": "x", "_split": split}
        files |= {f"{split}/dataset_info.json": b"{}", f"{split}/state.json": json.dumps(state).encode()}
    return files


def _archives() -> Iterator[Hostile]:
    labels = for_parts(**{"{}_labels.pkl": pickle.dumps({"labels": [0, 1]}, 2)})
    members: dict[str, Content] = {
        "that unpacks to 256 MB": _archive(
            **{"images.npy": lambda _: _header("|u1", 100_000, 84, 84, 3) + bytes(1 << 28)}
        ),
        "with objects and a path outside": _archive(
            **{"images.npy": lambda f: _header("|O", 1) + pickle.dumps([Touch(f)], 2), "____canary": lambda f: b"slip"}
        ),
    }
    for name, content in members.items():
        files = labels | for_parts(**{"{}_images.npz": content})
        yield Hostile(f"an archive {name}", files, FEW_SHOT.format("tiered-imagenet"))
    yield Hostile("gzip files that unpack to 256 MB", _packed_idx((10, 28, 28), 1 << 28), MNIST)
    yield Hostile("an idx file of 2^96 bytes", _packed_idx((0xFFFFFFFF,) * 3, 0), MNIST)
    for name in ("../../x.arrow", "/dev/zero", "fifo.arrow"):
        yield Hostile(f"save_to_disk with {name}", _saved(name), MNIST)
    saved = _saved("x.arrow")
    yield from (Hostile(f"save_to_disk with a pipe as {name}", saved | {name: PIPE}, MNIST) for name in saved)
    script = {
        "hostile.py": lambda f: f"open({str(f.parent / 'canary')!r}, 'w')\n".encode(),
        "README.md": b"---\nconfigs:\n- config_name: default\n  data_files: ../secret.png\n---\n",
    }
    yield Hostile("a loading script and a README that names files", script, MNIST)
    images = {f"{place}/1.png": _gray(9, 32) for place in ("a/x", "a/y", "b/x", "b/y")}
    odd = {"PostScript named PNG": _postscript, "a pipe": PIPE, "a link to a device": Link("/dev/zero")}
    yield from (Hostile(f"{name} among images", images | {"a/x/2.png": image}, DOMAINS) for name, image in odd.items())


def _torch_file(value: Callable[[Path], object], *, packed: bool = False) -> Content:
    def content(folder: Path) -> bytes:
        import torch

        stream, small = io.BytesIO(), io.BytesIO()
        torch.save({"fc.weight": value(folder)}, stream)
        with zipfile.ZipFile(stream) as whole, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as target:
            for member in whole.infolist() if packed else ():
                target.writestr(member.filename, whole.read(member))
        return small.getvalue() if packed else stream.getvalue()

    return content


HUGE = json.dumps({"fc.weight": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
WEIGHTS: Files = {
    "w.pth": lambda f: pickle.dumps({"fc.weight": Touch(f)}, 2),
    "w.safetensors": lambda f: pickle.dumps({"fc.weight": Touch(f)}, 2),
    "program.pt": _torch_file(Touch),
    "packed.pt": _torch_file(lambda _: import_module("torch").zeros(1 << 27), packed=True),  # unpacks to 512 MB
    "huge.safetensors": len(HUGE).to_bytes(8, "little") + HUGE,
    "header.safetensors": (1 << 60).to_bytes(8, "little") + b"{}",
    "deep.safetensors": (100_000).to_bytes(8, "little") + b"[" * 100_000,
    "pipe.pth": PIPE,
    "endless.pth": Link("/dev/zero"),
}


def _run_folders() -> Iterator[Hostile]:
    for name, content in WEIGHTS.items():
        yield Hostile(f"weights {name}", {name: content}, f"{DIGITS} --weights hostile/{name}")
    contents: dict[str, Any] = {
        "pickles": lambda folder: pickle.dumps({"x": Touch(folder)}, 2),
        "pipes": PIPE,
        "deep JSON": b'{"a":' * 100_000,
        "devices": Link("/dev/zero"),
    }
    for name, content in contents.items():
        files = {f"digits-opl/seed-0/{file}": content for file in RUN_FILES}
        for argv in ("report hostile", "check hostile", "evaluate hostile/digits-opl/seed-0 geometry"):
            yield Hostile(f"a run of {name}", files, argv)
    for name in ("digits-opl", SCRIPT):
        yield Hostile(f"markup in a run of {name}", partial(_write_markup, name), "report hostile")
    names = ("../../escaped", "../../../escaped", "/tmp/../escaped", "a/../../escaped", "..", "a\nb", "escaped\\..\\..")
    yield from (Hostile("a name", {}, f"{DIGITS} --name {shlex.quote(name)}") for name in names)
    yield Hostile("a name to come after", {}, f"{DIGITS} --after ../../escaped")
    run_folder, canary = "../runs/deep/down/digits-opl/seed-0", lambda folder: Link(folder.parent / "canary")
    guesses = {f"{run_folder}/.{name}.{number}.tmp": canary for name in RUN_FILES for number in range(1, 400)}
    yield Hostile("links in the way of files", guesses | {f"{run_folder}/metrics.jsonl": canary}, DIGITS)
    program = lambda f: f"open({str(f.parent / 'canary')!r}, 'a').close()\nraise ImportError\n".encode()  # noqa: E731
    for argv in (DIGITS, f"{DIGITS} --devices 2"):
        yield Hostile("modules in the working folder", {f"{name}.py": program for name in MODULES}, argv, inside=True)


def _write_markup(name: str, folder: Path) -> None:
    """A finished run whose class names and recipe are markup."""
    path = write_finished(
        folder, "digits-opl", 0, 50.0, recipe={"name": name}, result={"selection": SCRIPT},
        about={"versions": {"opl": SCRIPT}, "commit": SCRIPT, "machine": {"system": SCRIPT}},
        splits={"class_names": [SCRIPT, '"><img src=x onerror=alert(1)>'], "source": SCRIPT},
    )  # fmt: skip
    record = {"epoch": 0, "train/total": 1.0, "val/top1": 50.0, "images_per_second": 1.0, "seconds": 1.0}
    (path / "metrics.jsonl").write_text(metric_lines([record]))
    vouch(path)
