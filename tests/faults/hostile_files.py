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
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _process import in_child, run
from campaign import Case, Verdict
from data_folders import encode
from PIL import Image

SECRET = 171  # the value of all pixels of an image that nobody may read
SCRIPT = "<script>alert(1)</script>"
MODULES = ("json", "torch", "random", "numpy", "struct", "pickle", "socket", "subprocess", "yaml", "PIL", "opl")
PARTS = ("train", "val", "test")
RUN_FILES = (
    "recipe.json", "done", "result.json", "metrics.jsonl", "splits.json", "checkpoint.pt", "model.safetensors",
    "test.npz", "sums.json",
)  # fmt: skip
Make = Callable[[Path], object]
"""Writes files into `folder`; the canary is `folder.parent / "canary"`."""
MNIST = "train mnist-ce --epochs 1 --out runs/deep/down --data.root hostile --data.val 2"
DOMAINS = (
    "train domains-erm --epochs 1 --out runs/deep/down --data.root hostile --data.num-classes 2 --data.target a "
    "--data.size 32 --weights ''"
)
FEW_SHOT = "train {}-rfs --epochs 1 --out runs/deep/down --data.root hostile"
DIGITS = "train digits-opl --scale tiny --epochs 1 --out runs/deep/down"


class Hostile(NamedTuple):
    """A hostile folder `hostile`, and the `opl` command that meets it; if it is `inside`, in that folder."""

    name: str
    make: Make
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
    for hostile in (*_tables(), *_pickles(), *_archives(), *_saved_weights(), *_run_folders()):
        yield Case(f"{hostile.name}: opl {hostile.argv}", lambda root, hostile=hostile: _attack(root, hostile))


def _attack(root: Path, hostile: Hostile) -> Verdict:
    folder = root / "hostile"
    folder.mkdir()
    (root / "secret.png").write_bytes(_gray(SECRET))
    in_child(lambda: hostile.make(folder), root)
    ended = run(hostile.argv, folder if hostile.inside else root, fresh=hostile.inside)
    cached = any(bytes([SECRET]) * 700 in file.read_bytes() for file in root.rglob("cache/**/*.npy"))
    pages = [file.read_text(errors="replace") for file in root.rglob("*.html")]
    scripted = any(SCRIPT in page or "<img src=x onerror" in page for page in pages)
    outside = (root / "canary").exists() or any(root.rglob("escaped*")) or any(root.parent.glob("escaped*"))
    return Verdict("execution" if cached or scripted or outside else ended.outcome, ended=ended)


def _gray(value: int = 0, size: int = 28) -> bytes:
    return encode(Image.fromarray(np.full((size, size), value, np.uint8)))


def _parquet(folder: Path, image: dict[str, Any], labels: Any = None, **options: Any) -> None:
    """MNIST's two Parquet files, in which one of the training images is `image`."""
    for split in ("train", "test"):
        images: list[dict[str, Any]] = [{"bytes": _gray(number), "path": None} for number in range(20)]
        if split == "train":
            images[3] = image
        values = pa.array([number % 10 for number in range(20)]) if labels is None else labels
        features = {"label": {"names": [str(digit) for digit in range(10)], "_type": "ClassLabel"}}
        head = {"huggingface": json.dumps({"info": {"features": features}})}
        table = pa.table({"image": pa.array(images), "label": values}).replace_schema_metadata(head)
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet", **options)


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


def _tables() -> Iterator[Hostile]:
    text_bomb = _gray()[:33] + _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(1 << 28), 9)) + _gray()[33:]
    tiff = b"".join(
        struct.pack("<HHII", tag, 4, 1, n) for tag, n in ((256, 90_000), (257, 90_000), (258, 8), (262, 1), (273, 8))
    )
    contents: dict[str, bytes] = {
        "PPM": b"P6 28 28 255\n" + bytes(28 * 28 * 3),
        "PDF": b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\n",
        "SVG": b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
        "FITS": b"SIMPLE  =                    T".ljust(2880),
        "PSD": b"8BPS\0\1" + bytes(60),
        "ICNS": b"icns" + struct.pack(">I", 16) + b"ic08" + struct.pack(">I", 8),
        "PNG of 10^10 pixels": _png(100_000, 100_000, 0),
        "PNG of 10^8 pixels, packed": _png(10_000, 10_000, 10_000),
        "PNG with text that unpacks to 256 MB": text_bomb,
        "BMP of 10^9 pixels": b"BM"
        + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 60_000, 60_000, 1, 24, *[0] * 6),
        "TIFF of 10^9 pixels": b"II*\0\x08\0\0\0\5\0" + tiff + bytes(4),
        "1 GB of zeros, packed": bytes(1 << 30),
    }
    yield Hostile("PostScript in Parquet", lambda f: _parquet(f, {"bytes": _postscript(f), "path": None}), MNIST)
    for name, data in contents.items():
        make = lambda f, data=data: _parquet(f, {"bytes": data, "path": None}, compression="zstd")  # noqa: E731
        yield Hostile(f"{name} in Parquet", make, MNIST)
    links = {"device.png": "/dev/zero", "loop.png": "loop.png", "out.png": "../secret.png", "sub": ".."}
    paths = ("../secret.png", "{root}/secret.png", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/environ")
    paths += (
        "pipe.png",
        "device.png",
        "loop.png",
        "out.png",
        "sub/secret.png",
        "a\0b.png",
        ".",
        "https://example.org/a.png",
    )
    for path in paths:

        def make(folder: Path, path: str = path) -> None:
            os.mkfifo(folder / "pipe.png")
            for name, target in links.items():
                (folder / name).symlink_to(target)
            _parquet(folder, {"bytes": None, "path": path.replace("{root}", str(folder.parent))})

        yield Hostile(f"an image at {path!r}", make, MNIST)
    for labels in (pa.array([2**63] * 20, pa.uint64()), pa.array([None] * 20, pa.int64())):
        make = lambda f, labels=labels: _parquet(f, {"bytes": _gray(), "path": None}, labels)  # noqa: E731
        yield Hostile(f"labels {labels[0]}", make, MNIST)
    yield Hostile("30 million rows in a few bytes", _many_rows, MNIST)
    yield Hostile("a schema nested 200,000 deep", _deep_schema, MNIST)


def _many_rows(folder: Path) -> None:
    _parquet(folder, {"bytes": _gray(), "path": None})
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(30_000_000, np.int32)), pa.array([_gray()]))
    table = pa.table({"image": image, "label": pa.array(np.arange(30_000_000) % 10)})
    pq.write_table(table, folder / "train-00000-of-00001.parquet", compression="zstd")


def _deep_schema(folder: Path) -> None:
    _parquet(folder, {"bytes": _gray(), "path": None})
    for file in folder.iterdir():
        pq.write_table(pq.read_table(file).replace_schema_metadata({"huggingface": "[" * 200_000}), file)


def _expanding_lists() -> bytes:
    value: Any = [0] * 10
    for _ in range(60):
        value = [value, value]
    return pickle.dumps({"data": np.zeros((2, 84, 84, 3), np.uint8), "labels": value}, 2)


def _pickles() -> Iterator[Hostile]:
    contents: dict[str, Callable[[Path], bytes]] = {
        **{
            f"a program, protocol {protocol}": lambda f, p=protocol: pickle.dumps({"data": Touch(f), "labels": []}, p)
            for protocol in (0, 2, 5)
        },
        "a call by an old opcode": lambda f: f"(S'touch {f.parent / 'canary'}'\nios\nsystem\n.".encode(),
        "a set attribute": lambda f: b"cnumpy.core.multiarray\n_reconstruct\n}(S'__module__'\nS'x'\nub.",
        "lists that expand": lambda f: _expanding_lists(),
        "a key whose hash takes forever": lambda f: b"\x80\x02}(K\x00\x85" + b"2\x86" * 64 + b"K\x01u.",
        "announced bytes that are missing": lambda f: b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
        "a huge memo index": lambda f: b"\x80\x02K\x01r" + struct.pack("<I", 0xFFFFFFF0) + b".",
        "a huge bytearray": lambda f: b"c__builtin__\nbytearray\n(I1000000000000\ntR.",
        "a frame of a terabyte": lambda f: b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"K\x01.",
        "values nested 100,000 deep": lambda f: b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        "an array of objects": lambda f: pickle.dumps(np.array([len], dtype=object), 2),
        "a persistent id": lambda f: b"\x80\x02U\x01xQ.",
    }
    layouts = {
        "cifar-fs": [f"CIFAR_FS_{part}.pickle" for part in PARTS],
        "mini-imagenet": [f"mini-imagenet-cache-{part}.pkl" for part in PARTS],
    }
    for name, content in contents.items():
        for data, files in layouts.items():
            make = lambda f, content=content, files=files: [(f / file).write_bytes(content(f)) for file in files]  # noqa: E731
            yield Hostile(f"a pickle with {name}", make, FEW_SHOT.format(data))


def _archives() -> Iterator[Hostile]:
    def npz(write: Callable[[zipfile.ZipFile, Path], None]) -> Make:
        def make(folder: Path) -> None:
            for part in PARTS:
                (folder / f"{part}_labels.pkl").write_bytes(pickle.dumps({"labels": [0, 1]}, 2))
                with zipfile.ZipFile(folder / f"{part}_images.npz", "w", zipfile.ZIP_DEFLATED) as archive:
                    write(archive, folder)

        return make

    def header(descr: str, shape: tuple[int, ...]) -> bytes:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
        return stream.getvalue()

    def bomb(archive: zipfile.ZipFile, _: Path) -> None:
        with archive.open("images.npy", "w") as stream:
            stream.write(header("|u1", (100_000, 84, 84, 3)))
            for _ in range(1 << 8):
                stream.write(bytes(1 << 20))

    def objects(archive: zipfile.ZipFile, folder: Path) -> None:
        archive.writestr("images.npy", header("|O", (1,)) + pickle.dumps([Touch(folder)], 2))
        archive.writestr("../../canary", b"zip slip")

    def packed_idx(shape: tuple[int, int, int], megabytes: int) -> Make:
        def make(folder: Path) -> None:
            for part in ("train", "t10k"):
                for what, sizes in (("images", shape), ("labels", shape[:1])):
                    with gzip.open(folder / f"{part}-{what}-idx{len(sizes)}-ubyte.gz", "wb", compresslevel=9) as stream:
                        stream.write(struct.pack(f">4B{len(sizes)}I", 0, 0, 8, len(sizes), *sizes))
                        for _ in range(megabytes):
                            stream.write(bytes(1 << 20))

        return make

    def saved(filename: str) -> Make:
        def make(folder: Path) -> None:
            (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
            for split in ("train", "test"):
                (folder / split).mkdir()
                (folder / split / "dataset_info.json").write_text("{}")
                state = {"_data_files": [{"filename": filename}], "_fingerprint": "x", "_split": split}
                (folder / split / "state.json").write_text(json.dumps(state))
            os.mkfifo(folder / "train/fifo.arrow")

        return make

    def images(write: Callable[[Path], object]) -> Make:
        def make(folder: Path) -> None:
            for place in ("a/x", "a/y", "b/x", "b/y"):
                (folder / place).mkdir(parents=True)
                (folder / place / "1.png").write_bytes(_gray(9, 32))
            write(folder / "a/x/2.png")

        return make

    def script(folder: Path) -> None:
        (folder / "hostile.py").write_text(f"open({str(folder.parent / 'canary')!r}, 'w')\n")
        (folder / "README.md").write_text("---\nconfigs:\n- config_name: default\n  data_files: ../secret.png\n---\n")

    yield Hostile("an archive that unpacks to 256 MB", npz(bomb), FEW_SHOT.format("tiered-imagenet"))
    yield Hostile("an archive with objects and a path outside", npz(objects), FEW_SHOT.format("tiered-imagenet"))
    yield Hostile("gzip files that unpack to 256 MB", packed_idx((10, 28, 28), 1 << 8), MNIST)
    yield Hostile("an idx file of 2^96 bytes", packed_idx((0xFFFFFFFF,) * 3, 0), MNIST)
    yield from (
        Hostile(f"save_to_disk with {name}", saved(name), MNIST) for name in ("../../x.arrow", "/dev/zero", "fifo.arrow")
    )
    yield Hostile("a loading script and a README that names files", script, MNIST)
    yield Hostile("PostScript named PNG", images(lambda f: f.write_bytes(_postscript(f.parents[2]))), DOMAINS)
    yield Hostile("a pipe among images", images(os.mkfifo), DOMAINS)
    yield Hostile("a link to a device among images", images(lambda f: f.symlink_to("/dev/zero")), DOMAINS)


def _saved_weights() -> Iterator[Hostile]:
    def packed(folder: Path) -> bytes:
        """A checkpoint that unpacks to 512 MB."""
        import torch

        stream, small = io.BytesIO(), io.BytesIO()
        torch.save({"fc.weight": torch.zeros(1 << 27)}, stream)
        with zipfile.ZipFile(stream) as whole, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as target:
            for member in whole.infolist():
                target.writestr(member.filename, whole.read(member))
        return small.getvalue()

    def program(folder: Path) -> bytes:
        import torch

        stream = io.BytesIO()
        torch.save({"fc.weight": Touch(folder)}, stream)
        return stream.getvalue()

    huge = json.dumps({"fc.weight": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    contents: dict[str, Callable[[Path], bytes]] = {
        "w.pth": lambda f: pickle.dumps({"fc.weight": Touch(f)}, 2),
        "w.safetensors": lambda f: pickle.dumps({"fc.weight": Touch(f)}, 2),
        "program.pt": program,
        "packed.pt": packed,
        "huge.safetensors": lambda f: len(huge).to_bytes(8, "little") + huge,
        "header.safetensors": lambda f: (1 << 60).to_bytes(8, "little") + b"{}",
        "deep.safetensors": lambda f: (100_000).to_bytes(8, "little") + b"[" * 100_000,
    }
    for name, content in contents.items():
        make = lambda f, name=name, content=content: (f / name).write_bytes(content(f))  # noqa: E731
        yield Hostile(f"weights {name}", make, f"{DIGITS} --weights hostile/{name}")
    yield Hostile("weights that are a pipe", lambda f: os.mkfifo(f / "w.pth"), f"{DIGITS} --weights hostile/w.pth")
    yield Hostile(
        "weights without an end", lambda f: (f / "w.pth").symlink_to("/dev/zero"), f"{DIGITS} --weights hostile/w.pth"
    )


def _run_folders() -> Iterator[Hostile]:
    writers: dict[str, Callable[[Path, Path], object]] = {
        "pickles": lambda file, folder: file.write_bytes(pickle.dumps({"x": Touch(folder)}, 2)),
        "pipes": lambda file, _: os.mkfifo(file),
        "deep JSON": lambda file, _: file.write_bytes(b'{"a":' * 100_000),
        "devices": lambda file, _: file.symlink_to("/dev/zero"),
    }
    commands = ("report hostile", "check hostile", "evaluate hostile/digits-opl/seed-0 geometry")
    for name, write in writers.items():

        def make(folder: Path, write: Callable[[Path, Path], object] = write) -> None:
            (folder / "digits-opl/seed-0").mkdir(parents=True)
            for file in RUN_FILES:
                write(folder / "digits-opl/seed-0" / file, folder)

        yield from (Hostile(f"a run of {name}", make, argv) for argv in commands)
    for recipe_name in ("digits-opl", SCRIPT):
        yield Hostile(f"markup in a run of {recipe_name}", lambda f, name=recipe_name: _markup(f, name), "report hostile")
    names = ("../../escaped", "../../../escaped", "/tmp/../escaped", "a/../../escaped", "..", "a\nb", "escaped\\..\\..")
    yield from (Hostile(f"the name {name!r}", lambda f: None, f"{DIGITS} --name {shlex.quote(name)}") for name in names)
    yield Hostile("a name to come after", lambda f: None, f"{DIGITS} --after ../../escaped")
    yield Hostile("links in the way of files", _links_in_the_way, DIGITS)
    yield Hostile("modules in the working folder", _modules, DIGITS, inside=True)
    yield Hostile("modules in the working folder, 2 processes", _modules, f"{DIGITS} --devices 2", inside=True)


def _markup(folder: Path, recipe_name: str) -> None:
    """A finished run whose class names and recipe are markup."""
    import torch

    from opl.experiments.paper import recipe
    from opl.experiments.run_folder import RunFolder
    from opl.experiments.settings import to_json

    run_folder = RunFolder(folder / "digits-opl/seed-0")
    settings = {**to_json(recipe("digits-opl", "tiny")), "name": recipe_name}
    run_folder.start(settings, {"versions": {"opl": SCRIPT}, "commit": SCRIPT, "machine": {"system": SCRIPT}})
    names = [SCRIPT, '"><img src=x onerror=alert(1)>']
    run_folder.write_splits({"class_names": names, "val": [], "train": 8, "test": 8, "source": SCRIPT})
    run_folder.log({"epoch": 0, "train/total": 1.0, "val/top1": 50.0, "images_per_second": 1.0, "seconds": 1.0})
    run_folder.finish({"fc.weight": torch.zeros(2, 2)}, {"test/top1": 50.0, "selection": SCRIPT})


def _links_in_the_way(folder: Path) -> None:
    """Every predictable name of a temporary file, and the metrics, are links to the canary."""
    run_folder = folder.parent / "runs/deep/down/digits-opl/seed-0"
    run_folder.mkdir(parents=True)
    for name in RUN_FILES:
        for number in range(1, 400):
            (run_folder / f".{name}.{number}.tmp").symlink_to(folder.parent / "canary")
    (run_folder / "metrics.jsonl").symlink_to(folder.parent / "canary")


def _modules(folder: Path) -> None:
    for name in MODULES:
        canary = str(folder.parent / "canary")
        (folder / f"{name}.py").write_text(f"open({canary!r}, 'a').close()\nraise ImportError\n")
