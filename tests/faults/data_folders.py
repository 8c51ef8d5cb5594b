"""Odd data folders (tables, images, idx files, pickles, lists, noise matrices, weights), read by training on them.

A case marked `refused` is silent if training succeeds without a message. `right` must be refused or have as many
images as were written, `same` refused or give the numbers of the plain folder. `any` is damage that nobody can see,
such as a changed pixel: success or a message, but no crash.
"""

import datetime
import gzip
import io
import json
import math
import os
import pickle
import shutil
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _files import DAMAGES, VISIBLE, epochs, flip, read_json
from _process import Ended, call
from campaign import Case, Verdict
from PIL import Image

LIMIT = 60.0  # seconds; the plain folder takes a few
DOMAINS = (
    "train domains-erm --model.depth 18 --epochs 1 --weights '' --data.target b --data.num-classes 3 --data.size 16 "
    "--batch-size 8"
)
READERS = {
    "table": f"{DOMAINS} --data.root data --out out",
    "domains": f"{DOMAINS} --data.root data --out out",
    "lists": f"{DOMAINS} --data.root data --out out --data.lists data",
    "mnist": "train mnist-ce --epochs 1 --data.val 4 --batch-size 8 --data.root data --out out",
    "weights": f"{DOMAINS} --data.root images --out out".replace("''", "data/{}"),
    "noise": "",
    **{
        f"{name}-rfs": f"train {name}-rfs --epochs 1 --data.root data --out out"
        for name in ("cifar-fs", "tiered-imagenet", "mini-imagenet")
    },
}
SHARD = "train-00000-of-00001.parquet"
LABELS = [label for _ in "ab" for label in range(3) for _ in range(4)]
Make = Callable[[Path], object]
"""Writes a data folder; returns the number of its images, if it is known."""


class Folder(NamedTuple):
    """A data folder, the reader of it, and what is expected."""

    reader: str
    name: str
    make: Make
    expect: str = "refused"


def random_image(seed: int, size: int = 16) -> Image.Image:
    """A random image."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8))


def encode(image: Image.Image, kind: str = "PNG") -> bytes:
    """An encoded image."""
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def domain_folder(folder: Path, *, seed: int = 0, per_class: int = 6) -> None:
    """Two domains with three classes each: `<domain>/<class>/<image>.png`."""
    for number in range(6 * per_class):
        place = folder / "ab"[number // (3 * per_class)] / f"class-{number // per_class % 3}"
        place.mkdir(parents=True, exist_ok=True)
        random_image(1000 * seed + number).save(place / f"{number % per_class}.png")


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Make every folder and train on it."""
    plain = cache(lambda reader: _plain(reader, scratch / f"plain-{reader}-{os.getpid()}"))
    folders = [*_tables(), *_encodings(), *_folders(), *_array_files(), *_few_shot(), *_matrices(), *_weights()]
    for number, folder in enumerate(folders):
        name = f"{number}: {folder.reader}: {folder.name}"
        yield Case(name, lambda sandbox, folder=folder: _judge(folder, sandbox, plain))
    for reader in ("domains", "table"):
        yield Case(f"the plain {reader}", lambda _, reader=reader: Verdict("right" if plain(reader) else "lost"))


def _plain(reader: str, sandbox: Path) -> list[Any]:
    """The epochs of a training on the plain folder."""
    sandbox.mkdir()
    _read(Folder(reader, "", _table() if reader == "table" else _with_images()), sandbox)
    return epochs(sandbox / "out" / "domains-erm" / "seed-0")


def _read(folder: Folder, sandbox: Path) -> tuple[object, Ended]:
    """Make the data folder and train on it; returns the number of its images, and how the training ended."""
    (sandbox / "data").mkdir()
    count = folder.make(sandbox / "data")
    file = next((sandbox / "data").iterdir(), Path("missing.safetensors"))
    function = (lambda: _read_noise(file)) if folder.reader == "noise" else None
    return count, call(READERS[folder.reader].replace("{}", file.name), sandbox, limit=LIMIT, function=function)


def _read_noise(file: Path) -> None:
    from opl.experiments.data import NoiseMatrix

    print(NoiseMatrix(path=str(file)).matrix(("a", "b", "c")).tolist())


def _judge(folder: Folder, sandbox: Path, plain: Callable[[str], list[Any]]) -> Verdict:
    count, ended = _read(folder, sandbox)
    if ended.code or ended.fault:
        return Verdict("silent" if ended.outcome == "refused" and "opl:" not in ended.output else ended.outcome, "", ended)
    splits = next((read_json(file) for file in sandbox.glob("out/*/*/splits.json")), None)
    right = folder.expect != "refused"
    if folder.expect == "same":
        right = epochs(sandbox / "out" / "domains-erm" / "seed-0") == plain(folder.reader)
    elif folder.expect == "right" and isinstance(count, int) and splits is not None:
        right = splits["train"] + len(splits["val"]) + splits["test"] == count
    return Verdict("refused" if "opl: warning:" in ended.output else "right" if right else "silent", "", ended)


def _columns() -> dict[str, Any]:
    images = [{"bytes": encode(random_image(number)), "path": None} for number in range(24)]
    return {"image": images, "label": list(LABELS), "domain": ["a"] * 12 + ["b"] * 12}


def _table(
    change: Callable[[dict[str, Any]], dict[str, Any]] = dict, names: list[str] | None = None, file: str = SHARD
) -> Make:
    """A Parquet file whose columns are changed, with class names in its schema if they are given."""

    def make(folder: Path) -> int:
        columns = {name: v if isinstance(v, pa.Array) else pa.array(v) for name, v in change(_columns()).items()}
        table = pa.table(columns)
        if names is not None:
            features = {"label": {"names": names, "_type": "ClassLabel"}, "image": {"_type": "Image"}}
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        pq.write_table(table, folder / file)
        return 24

    return make


def _one(values: list[Any], value: Any) -> list[Any]:
    """The values with another sixth one."""
    return [*values[:5], value, *values[6:]]


def _tables() -> Iterator[Folder]:
    names, floats = ["x", "y", "z"], [float(label) for label in LABELS]
    texts = [names[label] for label in LABELS]
    labels: dict[str, tuple[Any, ...]] = {  # labels, then class names in the schema and what is expected
        "one label null": (_one(LABELS, None),),
        "all labels null": (pa.array([None] * 24, pa.int64()),),
        "labels without a type": (pa.nulls(24),),
        "one label NaN": (_one(floats, math.nan),),
        "one label infinite": (_one(floats, math.inf),),
        "one label 1.5": (_one(floats, 1.5),),
        "fractional labels": (pa.array([label + 0.25 for label in LABELS], pa.float32()),),
        "one label -1": (_one(LABELS, -1),),
        "one label 3 of 3 classes": (_one(LABELS, 3),),
        "one label 2**62": (_one(LABELS, 2**62),),
        "one label 2**64 - 1": (pa.array(_one(LABELS, 2**64 - 1), pa.uint64()),),
        "labels lists": ([[label] for label in LABELS],),
        "labels empty lists": (pa.array([[]] * 24, pa.list_(pa.int64())),),
        "labels one-hot": ([[int(label == index) for index in range(3)] for label in LABELS],),
        "labels structs": ([{"id": label} for label in LABELS],),
        "labels maps": (pa.array([[(1, 2)]] * 24, pa.map_(pa.int64(), pa.int64())),),
        "labels dates": ([datetime.date(2020, 1, 1)] * 24,),
        "labels times": ([datetime.datetime(2020, 1, 1)] * 24,),
        "labels durations": ([datetime.timedelta(days=label) for label in LABELS],),
        "labels bytes": ([bytes([label]) for label in LABELS],),
        "labels text and a null": (_one(texts, None),),
        "labels text and an empty string": (_one(texts, ""),),
        "labels outside the schema": (_one(LABELS, 3), names),
        "fewer names than labels": (LABELS, names[:2]),
        "more names than labels": (LABELS, [*names, "w"]),
        "a text that the schema lacks": (_one(texts, "w"), names),
        "one class": ([0] * 24,),
        "labels whole floats": (floats, None, "same"),
        "labels int8": (pa.array(LABELS, pa.int8()), None, "same"),
        "labels uint64": (pa.array(LABELS, pa.uint64()), None, "same"),
        "labels digits as text": ([str(label) for label in LABELS], None, "same"),
        "no names in the schema": (LABELS, [], "same"),
        "labels booleans": ([bool(label % 2) for label in LABELS], None, "right"),
        "labels decimals": ([Decimal(label) for label in LABELS], None, "right"),
        "labels text": (texts, None, "right"),
        "labels of a dictionary": (pa.array(texts).dictionary_encode(), None, "right"),
        "a name twice": (LABELS, ["x", "x", "z"], "right"),
        "two of three classes": ([label % 2 for label in LABELS], None, "right"),
    }
    for name, (values, *more) in labels.items():
        schema, expect = (*more, *(None, "refused")[len(more) :])
        yield Folder("table", name, _table(lambda c, values=values: {**c, "label": values}, schema), expect)
    images, domains = _columns()["image"], _columns()["domain"]
    changes: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
        **{f"no {key} column": (lambda c, key=key: {k: c[k] for k in c if k != key}, "refused") for key in _columns()},
        "columns in capitals": (lambda c: {key.title(): value for key, value in c.items()}, "refused"),
        "no rows": (lambda c: {key: pa.array(value)[:0] for key, value in c.items()}, "refused"),
        "one row": (lambda c: {key: pa.array(value)[:1] for key, value in c.items()}, "refused"),
        "no columns": (lambda c: {}, "refused"),
    }
    columns: dict[str, tuple[dict[str, Any], str]] = {
        "two label columns": ({"fine_label": [2 - label for label in LABELS]}, "right"),
        "an unknown column": ({"note": ["x"] * 24}, "same"),
        "images as plain bytes": ({"image": [image["bytes"] for image in images]}, "same"),
        "images as text": ({"image": ["image"] * 24}, "refused"),
        "images as numbers": ({"image": list(range(24))}, "refused"),
        "images as arrays": ({"image": [[[0, 1], [2, 3]]] * 24}, "refused"),
        "one image null": ({"image": _one(images, None)}, "refused"),
        "one image without bytes": ({"image": _one(images, {"bytes": None, "path": None})}, "refused"),
        "one image missing": ({"image": _one(images, {"bytes": None, "path": "nowhere.png"})}, "refused"),
        "one image elsewhere": ({"image": _one(images, {"bytes": None, "path": "/etc/hostname"})}, "refused"),
        "one domain null": ({"domain": _one(domains, None)}, "refused"),
        "one domain without a name": ({"domain": _one(domains, "")}, "right"),
        "domains as numbers": ({"domain": [ord(domain) for domain in domains]}, "refused"),
        "domains as lists": ({"domain": [[domain] for domain in domains]}, "refused"),
        "one domain alone": ({"domain": ["b"] * 24}, "refused"),
        "a domain with a slash": ({"domain": [domain.replace("a", "../a") for domain in domains]}, "right"),
    }
    changes |= {name: (lambda c, new=new: {**c, **new}, expect) for name, (new, expect) in columns.items()}
    for name, (change, expect) in changes.items():
        yield Folder("table", name, _table(change), expect)
    yield from _damaged("table", _table(), SHARD)
    yield Folder("table", "the second shard missing", _table(file="train-00000-of-00002.parquet"))
    yield Folder("table", "an empty folder", lambda folder: None)
    yield Folder("table", "a CSV file", lambda folder: (folder / "train.csv").write_text("image,label,domain\nx,1,a\n"))


def _damaged(reader: str, make: Make, file: str, *, what: str = "", flips: bool = True) -> Iterator[Folder]:
    """A folder in which one file is damaged; nobody can see a flipped bit, such as a changed pixel."""
    for name in (*VISIBLE, *(kind for kind in DAMAGES if flips and kind.startswith("a bit flipped"))):
        yield Folder(reader, f"{what or file}, {name}", _then(make, file, name), "refused" if name in VISIBLE else "any")


def _then(make: Make, file: str, change: str | Callable[[Path], object]) -> Make:
    """Make a folder, and change one of its files, by the name of a kind of damage or by a function."""

    def both(folder: Path) -> object:
        count = make(folder)
        DAMAGES[change](folder / file, folder) if isinstance(change, str) else change(folder / file)
        return count

    return both


def for_parts(**contents: bytes) -> Make:
    """Write files whose names have `{}` in place of a part: train, val and test."""

    def make(folder: Path) -> None:
        for name, data in contents.items():
            for part in ("train", "val", "test"):
                (folder / name.format(part)).write_bytes(data)

    return make


def _encodings() -> Iterator[Folder]:
    """Encoded images in a Parquet file, of which the sixth is odd or damaged."""

    def table(data: bytes) -> Make:
        return _table(lambda columns: {**columns, "image": _one(columns["image"], {"bytes": data, "path": None})})

    for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"):
        whole = encode(random_image(5), kind)
        yield Folder("table", f"a {kind}", table(whole), "right")
        yield Folder("table", f"a {kind} cut at 10 %", table(whole[: len(whole) // 10]))
        yield Folder("table", f"a {kind} cut at 60 %", table(whole[: 6 * len(whole) // 10]), "any")
        yield Folder("table", f"a {kind} with a flipped bit", table(flip(whole, 0.5, 4)), "any")
    for mode in ("L", "1", "P", "RGBA", "LA"):
        yield Folder("table", f"an image of mode {mode}", table(encode(random_image(5).convert(mode))), "right")
    for size in (1, 40):
        yield Folder("table", f"an image of {size} pixels", table(encode(random_image(0, size))), "right")
    contents = (b"", bytes(900), b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>", b"P6 16 16 255\n" + bytes(768))
    for content in contents:
        yield Folder("table", f"{content[:8]!r} as an image", table(content))


def _with_images(change: Callable[[Path], object] = lambda folder: None, added: int = 0) -> Make:
    """The plain folder of images, changed; by how many images it grows."""

    def make(folder: Path) -> int:
        domain_folder(folder, per_class=4)
        change(folder)
        return 24 + added

    return make


def _rename(path: str, name: str | bytes) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        for domain in "ab":
            source = os.fsencode(folder / domain / path)
            os.rename(source, os.path.join(os.path.dirname(source), os.fsencode(name)))

    return change


CLASS_NAMES: tuple[str | bytes, ...] = (
    "class 2", "-class", "--help", "класс", "猫", "class\n2", "class\t2", "'class'", 'cl"ass', "class;2", "$HOME",
    "%s%n", "{}", "CON", "z" * 200, "class-2.png", "e\u0301", "\u202eclass", b"cl\xff\xfess", ".class-2",
)  # fmt: skip


def _folders() -> Iterator[Folder]:
    for name in CLASS_NAMES:
        yield Folder("domains", f"a class named {name!r}"[:60], _with_images(_rename("class-2", name)), "right")
    for name in ("3.PNG", "3 3.png", "кот.png", "3.jpg", "-3.png", "3.\n.png", b"\xff\xfe.png"):
        yield Folder("domains", f"an image named {name!r}", _with_images(_rename("class-1/3.png", name)), "right")
    for name in ("3", "3.txt", ".3.png"):
        yield Folder("domains", f"an image named {name!r}", _with_images(_rename("class-1/3.png", name), -2), "right")
    one = "a/class-1/3.png"
    yield from (
        case
        for case in _damaged("domains", _with_images(), one, what="an image", flips=False)
        if "deleted" not in case.name
    )
    for kind in ("GIF", "JPEG", "PPM", "EPS", "PDF"):
        change = _then(_with_images(), one, lambda file, kind=kind: random_image(1).save(file, kind))
        yield Folder("domains", f"a {kind} named png", change, "right" if kind in ("GIF", "JPEG") else "refused")
    layouts: dict[str, tuple[Callable[[Path], object], int, str]] = {
        "a text file beside images": (lambda f: (f / "a/class-0/labels.csv").write_text("x"), 0, "same"),
        "a text file beside domains": (lambda f: (f / "LICENSE.txt").write_text("free"), 0, "same"),
        "an image beside domains": (lambda f: random_image(1).save(f / "logo.png"), 0, "refused"),
        "an image beside classes": (lambda f: random_image(1).save(f / "a/logo.png"), 0, "refused"),
        "a class in one domain alone": (lambda f: shutil.rmtree(f / "a/class-2"), -4, "right"),
        "a class that the target domain lacks": (lambda f: shutil.rmtree(f / "b/class-2"), -4, "right"),
        "a class without images": (lambda f: (shutil.rmtree(f / "a/class-2"), (f / "a/class-2").mkdir()), -4, "right"),
        "four classes": (lambda f: shutil.copytree(f / "a/class-0", f / "a/class-3"), 0, "refused"),
        "one domain": (lambda f: shutil.rmtree(f / "a"), 0, "refused"),
        "no target domain": (lambda f: (f / "b").rename(f / "c"), 0, "refused"),
        "a domain without images": (lambda f: (f / "c").mkdir(), 0, "same"),
        "images at two depths": (lambda f: shutil.copytree(f / "a/class-0", f / "a/class-0/more"), 0, "refused"),
        "a class that is a link to its parent": (lambda f: (f / "a/class-9").symlink_to(".."), 0, "any"),
    }
    for name, (change, added, expect) in layouts.items():
        yield Folder("domains", name, _with_images(change, added), expect)
    for lines in (b"", b"\xff\xfe\x00", b"a/class-0/9.png 1\n", b"../../a/class-0/0.png 1\n", b"one two three\n"):
        make = _with_images(
            lambda f, lines=lines: [(f / f"a_{k}_kfold.txt").write_bytes(lines) for k in ("train", "crossval")]
        )
        yield Folder("lists", f"a list with {lines[:20]!r}", make)


def idx_bytes(values: np.ndarray) -> bytes:
    """An array in the idx format."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def _idx_files(rows: int = 40, test_size: int = 28, labels: np.ndarray | None = None) -> Make:
    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for part, count, size in (("train", rows, 28), ("t10k", 20, test_size)):
            images = rng.integers(0, 256, (count, size, size), dtype=np.uint8)
            (folder / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(images))
            usual = (np.arange(count) % 10).astype(np.uint8)
            values = labels if labels is not None and part == "train" else usual
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(values))

    return make


def _array_files() -> Iterator[Folder]:
    yield Folder("mnist", "40 images", _idx_files())
    yield Folder("mnist", "no images", _idx_files(rows=0))
    yield Folder("mnist", "test images of another size", _idx_files(test_size=20))
    for name, labels in (("a label 10", np.full(40, 10)), ("fewer labels", np.zeros(39)), ("one class", np.zeros(40))):
        yield Folder("mnist", name, _idx_files(labels=labels.astype(np.uint8)))
    edits: dict[str, Callable[[bytes], bytes]] = {
        "bytes appended": lambda data: data + b"x",
        "another type": lambda data: data[:2] + b"\x0d" + data[3:],
        "other dimensions": lambda data: data[:3] + b"\x02" + data[4:],
        "too many announced": lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:],
        "none announced": lambda data: data[:4] + bytes(4) + data[8:],
        "half a gzip": lambda data: gzip.compress(data)[:-20],
    }
    for file in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        for name, edit in edits.items():
            damage = lambda path, edit=edit: path.write_bytes(edit(path.read_bytes()))  # noqa: E731
            yield Folder("mnist", f"{file}, {name}", _then(_idx_files(), file, damage))
        yield from _damaged("mnist", _idx_files(), file, flips=False)


def _few_shot() -> Iterator[Folder]:
    images = np.zeros((6, 32, 32, 3), np.uint8)
    good: dict[str, Any] = {"data": images, "labels": [0, 0, 1, 1, 2, 2]}
    loop: dict[str, Any] = {}
    loop["data"] = loop["labels"] = loop
    labels = (None, ["a"] * 6, [0.5] * 6, [math.nan] * 6, [-1] * 6, [0] * 7, [[0]] * 6, [2**70] * 6)
    flat, none = images.reshape(6, -1), np.array([None] * 6)
    arrays = (images.astype(np.float32), flat, images[:, :20], "images", none, images[:0])
    contents = [good, {}, [1, 2], 7, {"data": images}, {"labels": [0]}, {b"data": images, b"labels": [0] * 6}, loop]
    contents += [{**good, "labels": values} for values in labels] + [{**good, "data": values} for values in arrays]
    files = [pickle.dumps(content) for content in contents]
    whole = files[0]
    files += [b"", b"text", whole[: len(whole) // 2]]
    files += [whole[:index] + bytes([whole[index] ^ 8]) + whole[index + 1 :] for index in (0, 1, 20, 60, 120)]
    for number, data in enumerate(files):
        yield Folder("cifar-fs-rfs", f"pickle {number}", for_parts(**{"CIFAR_FS_{}.pickle": data}))
    stream = io.BytesIO()
    np.savez(stream, images=np.zeros((4, 84, 84, 3), np.uint8))
    archive = stream.getvalue()
    answers = pickle.dumps({"label_specific": [0, 0, 1, 1], "label_specific_str": ["a", "b"]})
    pairs = [(archive, answers), (archive[:99], answers), (b"", answers), (b"images", answers), (archive, b"")]
    for number, (first, second) in enumerate([*pairs, (archive, pickle.dumps([0, 1])), (archive, pickle.dumps({}))]):
        make = for_parts(**{"{}_images.npz": first, "{}_labels.pkl": second})
        yield Folder("tiered-imagenet-rfs", f"archive {number}", make)
    rows = (
        b"", b"filename,label\n", b"filename\n0.jpg\n", b"a,b\n0.jpg,x\n", b"filename,label\n\xff\xfe,\x00\n",
        b"filename,label\n../../0.jpg,n01532829\n", b"filename,label\n1.jpg,n01532829\n",
        b'filename,label\n"0.jpg,n\n',
    )  # fmt: skip
    for text in rows:

        def write(folder: Path, text: bytes = text) -> None:
            for_parts(**{"{}.csv": text})(folder)
            (folder / "images").mkdir()
            (folder / "images" / "0.jpg").touch()

        yield Folder("mini-imagenet-rfs", f"a CSV file with {text[:30]!r}", write)


def _matrices() -> Iterator[Folder]:
    good = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    for name, array in {"float64": good, "float32": good.astype(np.float32)}.items():
        yield Folder("noise", f"a matrix in {name}", lambda f, array=array: np.save(f / "m.npy", array), "right")
    yield Folder("noise", "a matrix in JSON", lambda f: (f / "m.json").write_text(json.dumps(good.tolist())), "right")
    wrong = (good[:2], good[0], good[None], good * 3 - 2 / 3, good * np.nan, good * 2, good * 0, good * 1j, good[:0])
    for array in (*wrong, np.array([["a"] * 3] * 3)):
        yield Folder("noise", f"a matrix {array.tolist()}"[:60], lambda f, array=array: np.save(f / "m.npy", array))
    texts = {
        "m.json": ("", "{}", "[]", "[[1,2],[3]]", '[["a"]]', "null", "[" * 5000, "NaN", "[[1e999]]"),
        "m.txt": ("", "a b c", "1 2 3", "1;2;3", "\x00", "nan nan nan\n" * 3),
        "m.npy": ("", "\x93NUMPY", "text"),
    }
    for file, contents in texts.items():
        for text in contents:
            yield Folder("noise", f"{file}, {text[:20]!r}", lambda f, file=file, text=text: (f / file).write_text(text))
    yield Folder("noise", "a pipe", lambda f: os.mkfifo(f / "m.txt"))
    yield Folder("noise", "an endless file", lambda f: (f / "m.txt").symlink_to("/dev/zero"))


def _weights() -> Iterator[Folder]:
    def first(change: Callable[[Any], Any]) -> Callable[[dict], dict]:
        return lambda state: {**state, "conv1.weight": change(state["conv1.weight"])}

    states: dict[str, tuple[Callable[[dict], object], str]] = {
        "whole": (dict, "any"),
        "half precision": (first(lambda value: value.half()), "any"),
        "empty": (lambda state: {}, "refused"),
        "other names": (lambda state: {f"x.{name}": value for name, value in state.items()}, "refused"),
        "one missing": (lambda state: {name: state[name] for name in list(state)[1:]}, "refused"),
        "another shape": (first(lambda value: value[:1]), "refused"),
        "NaN": (first(lambda value: value * math.nan), "refused"),
        "integers": (first(lambda value: value.long()), "refused"),
    }

    def save(change: Callable[[dict], object], name: str) -> Make:
        def make(folder: Path) -> None:
            import torch
            from safetensors.torch import save_file

            from opl.experiments.models import ResNet

            domain_folder(folder.parent / "images", per_class=4)
            torch.manual_seed(0)
            weights = change({key: v.clone() for key, v in ResNet(depth=18).build(3, 3).state_dict().items()})
            save_file(weights, folder / name) if name.endswith("safetensors") else torch.save(weights, folder / name)

        return make

    for name in ("w.safetensors", "w.pth"):
        yield from (
            Folder("weights", f"{name}, {what}", save(change, name), expect) for what, (change, expect) in states.items()
        )
        yield from _damaged("weights", save(dict, name), name, flips=False)
    for content in ([1, 2], {"fc": "text"}, {"call": print}):
        yield Folder("weights", f"a pickle of {content}", save(lambda state, content=content: content, "w.pth"))
