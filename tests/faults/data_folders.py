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
import struct
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from _files import DAMAGES, FOLDER, PIPE, SHARD, Files, Link, domains, epochs, for_parts, parquet, random_image, write
from _process import Ended, call
from campaign import Case, Verdict

from _image_files import encoded

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
LABELS = [label for _ in "ab" for label in range(3) for _ in range(4)]
COLUMNS = {
    "image": [{"bytes": encoded(random_image(number)), "path": None} for number in range(24)],
    "label": LABELS,
    "domain": ["a"] * 12 + ["b"] * 12,
}
IMAGES = domains()
ONE = "a/class-1/3.png"


VISIBLE = (
    "cut in half", "emptied", "zeroed", "deleted", "replaced by text", "replaced by a folder", "replaced by a pipe",
    "replaced by a link to itself", "replaced by a link to an endless file",
)  # fmt: skip
"""Damage that every reader can see."""


class Folder(NamedTuple):
    """A data folder, the reader of it, and what is expected."""

    reader: str
    name: str
    files: Files
    expect: str = "refused"
    images: int = 24
    """How many images are used."""


def cases(scratch: Path, share: float) -> Iterator[Case]:
    """Make every folder and train on it."""
    folders = [*_tables(), *_encodings(), *_folders(), *_array_files(), *_few_shot(), *_matrices(), *_weights()]
    for number, folder in enumerate(folders):
        yield Case(f"{number}: {folder.reader}: {folder.name}", partial(_judge, folder))
    for reader in ("domains", "table"):
        yield Case(f"the plain {reader}", lambda _, reader=reader: Verdict("right" if _plain(reader) else "lost"))


@cache
def _plain(reader: str) -> list[Any]:
    """The epochs of a training on the plain folder."""
    with tempfile.TemporaryDirectory() as sandbox:
        _read(Folder(reader, "", {SHARD: parquet(COLUMNS)} if reader == "table" else IMAGES), Path(sandbox))
        return epochs(Path(sandbox) / "out" / "domains-erm" / "seed-0")


def _read(folder: Folder, sandbox: Path) -> Ended:
    """Make the data folder and train on it."""
    data = sandbox / "data"
    data.mkdir()
    write(data, folder.files)
    file = next(data.iterdir(), Path("missing.safetensors"))
    function = (lambda: _read_noise(file)) if folder.reader == "noise" else None
    return call(READERS[folder.reader].replace("{}", file.name), sandbox, limit=LIMIT, function=function)


def _read_noise(file: Path) -> None:
    from opl.experiments.data import NoiseMatrix

    print(NoiseMatrix(path=str(file)).matrix(("a", "b", "c")).tolist())


def _judge(folder: Folder, sandbox: Path) -> Verdict:
    ended = _read(folder, sandbox)
    if ended.code or ended.fault:
        mute = ended.outcome == "refused" and "opl:" not in ended.output
        return Verdict("silent" if mute else ended.outcome, ended=ended)
    splits = next((json.loads(file.read_text()) for file in sandbox.glob("out/*/*/splits.json")), None)
    right = folder.expect != "refused"
    if folder.expect == "same":
        right = epochs(sandbox / "out" / "domains-erm" / "seed-0") == _plain(folder.reader)
    elif folder.expect == "right" and splits is not None:
        right = splits["train"] + len(splits["val"]) + splits["test"] == folder.images
    return Verdict("refused" if "opl: warning:" in ended.output else "right" if right else "silent", ended=ended)


def _one(values: list[Any], value: Any) -> list[Any]:
    """The values with another sixth one."""
    return [*values[:5], value, *values[6:]]


def _damaged(reader: str, files: Files, file: str, *, flips: bool = False) -> Iterator[Folder]:
    """A folder in which one file is damaged; nobody can see a flipped bit, such as a changed pixel."""
    for kind in (*VISIBLE, *(kind for kind in DAMAGES if flips and kind.startswith("a bit flipped"))):
        make = lambda data, kind=kind: _damage(kind, file, files[file], data)  # noqa: E731
        yield Folder(reader, f"{file}, {kind}", files | {file: make}, "refused" if kind in VISIBLE else "any")


def _damage(kind: str, file: str, content: Any, folder: Path) -> Any:
    return DAMAGES[kind](content(folder) if callable(content) else content, folder / file, folder)


NAMES, FLOATS, ENCODED, PLACES = ["x", "y", "z"], [float(n) for n in LABELS], COLUMNS["image"], COLUMNS["domain"]
TEXTS = [NAMES[label] for label in LABELS]
LABEL_COLUMNS: dict[str, dict[str, Any]] = {  # by what is expected
    "refused": {
        "one label null": _one(LABELS, None),
        "all labels null": pa.array([None] * 24, pa.int64()),
        "labels without a type": pa.nulls(24),
        "one label NaN": _one(FLOATS, math.nan),
        "one label infinite": _one(FLOATS, math.inf),
        "one label 1.5": _one(FLOATS, 1.5),
        "fractional labels": pa.array([label + 0.25 for label in LABELS], pa.float32()),
        "one label -1": _one(LABELS, -1),
        "one label 3 of 3 classes": _one(LABELS, 3),
        "one label 2**62": _one(LABELS, 2**62),
        "one label 2**64 - 1": pa.array(_one(LABELS, 2**64 - 1), pa.uint64()),
        "labels lists": [[label] for label in LABELS],
        "labels empty lists": pa.array([[]] * 24, pa.list_(pa.int64())),
        "labels one-hot": [[int(label == index) for index in range(3)] for label in LABELS],
        "labels structs": [{"id": label} for label in LABELS],
        "labels maps": pa.array([[(1, 2)]] * 24, pa.map_(pa.int64(), pa.int64())),
        "labels dates": [datetime.date(2020, 1, 1)] * 24,
        "labels times": [datetime.datetime(2020, 1, 1)] * 24,
        "labels durations": [datetime.timedelta(days=label) for label in LABELS],
        "labels bytes": [bytes([label]) for label in LABELS],
        "labels text and a null": _one(TEXTS, None),
        "labels text and an empty string": _one(TEXTS, ""),
        "one class": [0] * 24,
    },
    "same": {
        "labels whole floats": FLOATS,
        "labels int8": pa.array(LABELS, pa.int8()),
        "labels uint64": pa.array(LABELS, pa.uint64()),
        "labels digits as text": [str(label) for label in LABELS],
    },
    "right": {
        "labels booleans": [bool(label % 2) for label in LABELS],
        "labels decimals": [Decimal(label) for label in LABELS],
        "labels text": TEXTS,
        "labels of a dictionary": pa.array(TEXTS).dictionary_encode(),
        "two of three classes": [label % 2 for label in LABELS],
    },
}
OTHER_COLUMNS: dict[str, dict[str, dict[str, Any]]] = {
    "refused": {
        "images as text": {"image": ["image"] * 24},
        "images as numbers": {"image": list(range(24))},
        "images as arrays": {"image": [[[0, 1], [2, 3]]] * 24},
        "one image null": {"image": _one(ENCODED, None)},
        "one image without bytes": {"image": _one(ENCODED, {"bytes": None, "path": None})},
        "one image missing": {"image": _one(ENCODED, {"bytes": None, "path": "nowhere.png"})},
        "one image elsewhere": {"image": _one(ENCODED, {"bytes": None, "path": "/etc/hostname"})},
        "one domain null": {"domain": _one(PLACES, None)},
        "domains as numbers": {"domain": [ord(place) for place in PLACES]},
        "domains as lists": {"domain": [[place] for place in PLACES]},
        "one domain alone": {"domain": ["b"] * 24},
    },
    "same": {
        "an unknown column": {"note": ["x"] * 24},
        "images as plain bytes": {"image": [image["bytes"] for image in ENCODED]},
    },
    "right": {
        "two label columns": {"fine_label": [2 - label for label in LABELS]},
        "one domain without a name": {"domain": _one(PLACES, "")},
        "a domain with a slash": {"domain": [place.replace("a", "../a") for place in PLACES]},
    },
}
SCHEMAS: tuple[tuple[str, list[Any], list[str], str], ...] = (  # labels, names of classes, and what is expected
    ("labels outside the schema", _one(LABELS, 3), NAMES, "refused"),
    ("fewer names than labels", LABELS, NAMES[:2], "refused"),
    ("more names than labels", LABELS, [*NAMES, "w"], "refused"),
    ("a text that the schema lacks", _one(TEXTS, "w"), NAMES, "refused"),
    ("no names in the schema", LABELS, [], "same"),
    ("a name twice", LABELS, ["x", "x", "z"], "right"),
)
TABLES: dict[str, dict[str, Any]] = {  # none can be used
    **{f"no {key} column": {name: COLUMNS[name] for name in COLUMNS if name != key} for key in COLUMNS},
    "columns in capitals": {name.title(): values for name, values in COLUMNS.items()},
    "no rows": {name: pa.array(values)[:0] for name, values in COLUMNS.items()},
    "one row": {name: pa.array(values)[:1] for name, values in COLUMNS.items()},
    "no columns": {},
}


def _tables() -> Iterator[Folder]:
    changes = {expect: {name: {"label": v} for name, v in columns.items()} for expect, columns in LABEL_COLUMNS.items()}
    for expect, name, change in ((e, *item) for t in (changes, OTHER_COLUMNS) for e in t for item in t[e].items()):
        yield Folder("table", name, {SHARD: parquet(COLUMNS | change)}, expect)
    for name, labels, names, expect in SCHEMAS:
        features = {"label": {"names": names, "_type": "ClassLabel"}, "image": {"_type": "Image"}}
        yield Folder("table", name, {SHARD: parquet(COLUMNS | {"label": labels}, features)}, expect)
    yield from (Folder("table", name, {SHARD: parquet(columns)}) for name, columns in TABLES.items())
    yield from _damaged("table", {SHARD: parquet(COLUMNS)}, SHARD, flips=True)
    yield Folder("table", "the second shard missing", {"train-00000-of-00002.parquet": parquet(COLUMNS)})
    yield Folder("table", "an empty folder", {})
    yield Folder("table", "a CSV file", {"train.csv": b"image,label,domain\nx,1,a\n"})


def _encodings() -> Iterator[Folder]:
    """Encoded images in a Parquet file, of which the sixth is odd or damaged."""
    contents: dict[str, tuple[bytes, str]] = {}
    for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF"):
        whole = encoded(random_image(5), kind)
        contents[f"a {kind}"] = whole, "right"
        contents[f"a {kind} cut at 10 %"] = whole[: len(whole) // 10], "refused"
        contents[f"a {kind} cut at 60 %"] = whole[: 6 * len(whole) // 10], "any"
        contents[f"a {kind} with a flipped bit"] = DAMAGES["a bit flipped in the middle"](whole, Path(), Path()), "any"
    modes = ("L", "1", "P", "RGBA", "LA")
    contents |= {f"an image of mode {mode}": (encoded(random_image(5).convert(mode)), "right") for mode in modes}
    contents |= {f"an image of {size} pixels": (encoded(random_image(0, size)), "right") for size in (1, 40)}
    others = (b"", bytes(900), b"text", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg/>", b"P6 16 16 255\n" + bytes(768))
    contents |= {f"{data[:8]!r} as an image": (data, "refused") for data in others}
    for name, (data, expect) in contents.items():
        columns = COLUMNS | {"image": _one(ENCODED, {"bytes": data, "path": None})}
        yield Folder("table", name, {SHARD: parquet(columns)}, expect)


CLASS_NAMES: tuple[str | bytes, ...] = (
    "class 2", "-class", "--help", "класс", "猫", "class\n2", "class\t2", "'class'", 'cl"ass', "class;2", "$HOME",
    "%s%n", "{}", "CON", "z" * 200, "class-2.png", "e\u0301", "\u202eclass", b"cl\xff\xfess", ".class-2",
)  # fmt: skip
IMAGE_NAMES: tuple[str | bytes, ...] = ("3.PNG", "3 3.png", "кот.png", "3.jpg", "-3.png", "3.\n.png", b"\xff\xfe.png")


def _without(*starts: str) -> Files:
    return {name: data for name, data in IMAGES.items() if not name.startswith(starts)}


def _copy(source: str, target: str) -> Files:
    copies = {name.replace(source, target, 1): data for name, data in IMAGES.items() if name.startswith(source)}
    return IMAGES | copies


def _folders() -> Iterator[Folder]:
    renamed = [("class-2/", f"{os.fsdecode(name)}/", 24) for name in CLASS_NAMES]
    renamed += [("class-1/3.png", f"class-1/{os.fsdecode(name)}", 24) for name in IMAGE_NAMES]
    renamed += [("class-1/3.png", f"class-1/{name}", 22) for name in ("3", "3.txt", ".3.png")]
    for old, new, count in renamed:
        files = {name.replace(old, new): data for name, data in IMAGES.items()}
        yield Folder("domains", f"{new!r} for {old}"[:60], files, "right", count)
    yield from (folder for folder in _damaged("domains", IMAGES, ONE) if "deleted" not in folder.name)
    for kind in ("GIF", "JPEG", "PPM", "EPS", "PDF"):
        expect = "right" if kind in ("GIF", "JPEG") else "refused"
        yield Folder("domains", f"a {kind} named png", IMAGES | {ONE: encoded(random_image(1), kind)}, expect)
    logo = encoded(random_image(1))
    layouts: dict[str, tuple[Files, int, str]] = {
        "a text file beside images": (IMAGES | {"a/class-0/labels.csv": b"x"}, 24, "same"),
        "a text file beside domains": (IMAGES | {"LICENSE.txt": b"free"}, 24, "same"),
        "an image beside domains": (IMAGES | {"logo.png": logo}, 24, "refused"),
        "an image beside classes": (IMAGES | {"a/logo.png": logo}, 24, "refused"),
        "a class in one domain alone": (_without("a/class-2"), 20, "right"),
        "a class that the target domain lacks": (_without("b/class-2"), 20, "right"),
        "a class without images": (_without("a/class-2") | {"a/class-2": FOLDER}, 20, "right"),
        "four classes": (_copy("a/class-0", "a/class-3"), 24, "refused"),
        "one domain": (_without("a/"), 12, "refused"),
        "no target domain": ({name.replace("b/", "c/"): data for name, data in IMAGES.items()}, 24, "refused"),
        "a domain without images": (IMAGES | {"c": FOLDER}, 24, "same"),
        "images at two depths": (_copy("a/class-0", "a/class-0/more"), 24, "refused"),
        "a class that is a link to its parent": (IMAGES | {"a/class-9": Link("..")}, 24, "any"),
    }
    yield from (Folder("domains", name, files, expect, n) for name, (files, n, expect) in layouts.items())
    for lines in (PIPE, b"", b"\xff\xfe\x00", b"a/class-0/9.png 1\n", b"../../a/class-0/0.png 1\n", b"one two three\n"):
        files = IMAGES | {f"a_{kind}_kfold.txt": lines for kind in ("train", "crossval")}
        yield Folder("lists", "pipes" if lines is PIPE else f"a list with {lines[:20]!r}", files)


def _idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def _npy(array: np.ndarray, **more: np.ndarray) -> bytes:
    """An array in NumPy's format, or an archive of named arrays."""
    stream = io.BytesIO()
    np.savez(stream, **more) if more else np.save(stream, array)
    return stream.getvalue()


def _idx_files(rows: int = 40, test_size: int = 28, labels: np.ndarray | None = None) -> Files:
    files = {}
    for part, count, size in (("train", rows, 28), ("t10k", 20, test_size)):
        images = np.random.default_rng(0).integers(0, 256, (count, size, size), dtype=np.uint8)
        usual = labels is None or part != "train"
        files[f"{part}-images-idx3-ubyte"] = _idx(images)
        files[f"{part}-labels-idx1-ubyte"] = _idx((np.arange(count) % 10 if usual else labels).astype(np.uint8))
    return files


def _array_files() -> Iterator[Folder]:
    yield Folder("mnist", "40 images", _idx_files())
    yield Folder("mnist", "no images", _idx_files(rows=0))
    yield Folder("mnist", "test images of another size", _idx_files(test_size=20))
    for name, labels in (("a label 10", np.full(40, 10)), ("fewer labels", np.zeros(39)), ("one class", np.zeros(40))):
        yield Folder("mnist", name, _idx_files(labels=labels))
    edits: dict[str, Callable[[bytes], bytes]] = {
        "bytes appended": lambda data: data + b"x",
        "another type": lambda data: data[:2] + b"\x0d" + data[3:],
        "other dimensions": lambda data: data[:3] + b"\x02" + data[4:],
        "too many announced": lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:],
        "none announced": lambda data: data[:4] + bytes(4) + data[8:],
        "half a gzip": lambda data: gzip.compress(data)[:-20],
    }
    files = _idx_files()
    for file in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        changed = {name: files | {file: edit(files[file])} for name, edit in edits.items()}
        yield from (Folder("mnist", f"{file}, {name}", content) for name, content in changed.items())
        yield from _damaged("mnist", files, file)


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
    yield Folder("cifar-fs-rfs", "pipes", for_parts(**{"CIFAR_FS_{}.pickle": PIPE}))
    archive = _npy(images, images=np.zeros((4, 84, 84, 3), np.uint8))
    answers = pickle.dumps({"label_specific": [0, 0, 1, 1], "label_specific_str": ["a", "b"]})
    pairs = [(archive, answers), (archive[:99], answers), (b"", answers), (b"images", answers), (archive, b"")]
    pairs += [(archive, pickle.dumps([0, 1])), (archive, pickle.dumps({})), (PIPE, answers), (archive, PIPE)]
    for number, (first, second) in enumerate(pairs):
        parts = for_parts(**{"{}_images.npz": first, "{}_labels.pkl": second})
        yield Folder("tiered-imagenet-rfs", f"archive {number}", parts)
    rows = (
        PIPE, b"", b"filename,label\n", b"filename\n0.jpg\n", b"a,b\n0.jpg,x\n", b"filename,label\n\xff\xfe,\x00\n",
        b"filename,label\n../../0.jpg,n01532829\n", b"filename,label\n1.jpg,n01532829\n",
        b'filename,label\n"0.jpg,n\n',
    )  # fmt: skip
    for text in rows:
        parts = for_parts(**{"{}.csv": text}) | {"images/0.jpg": b""}
        yield Folder("mini-imagenet-rfs", "pipes" if text is PIPE else f"a CSV file with {text[:30]!r}", parts)


def _matrices() -> Iterator[Folder]:
    good = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    yield Folder("noise", "a matrix in float64", {"m.npy": _npy(good)}, "right")
    yield Folder("noise", "a matrix in float32", {"m.npy": _npy(good.astype(np.float32))}, "right")
    yield Folder("noise", "a matrix in JSON", {"m.json": json.dumps(good.tolist()).encode()}, "right")
    wrong = (good[:2], good[0], good[None], good * 3 - 2 / 3, good * np.nan, good * 2, good * 0, good * 1j, good[:0])
    for array in (*wrong, np.array([["a"] * 3] * 3)):
        yield Folder("noise", f"a matrix {array.tolist()}"[:60], {"m.npy": _npy(array)})
    texts = {
        "m.json": ("", "{}", "[]", "[[1,2],[3]]", '[["a"]]', "null", "[" * 5000, "NaN", "[[1e999]]"),
        "m.txt": ("", "a b c", "1 2 3", "1;2;3", "\x00", "nan nan nan\n" * 3),
        "m.npy": ("", "\x93NUMPY", "text"),
    }
    for file, contents in texts.items():
        yield from (Folder("noise", f"{file}, {text[:20]!r}", {file: text.encode()}) for text in contents)
    yield Folder("noise", "a pipe", {"m.txt": PIPE})
    yield Folder("noise", "an endless file", {"m.txt": Link("/dev/zero")})


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

    def files(name: str, change: Callable[[dict], object]) -> Files:
        return {name: lambda _: _save(name, change)} | {f"../images/{place}": data for place, data in IMAGES.items()}

    for name in ("w.safetensors", "w.pth"):
        for what, (change, expect) in states.items():
            yield Folder("weights", f"{name}, {what}", files(name, change), expect)
        yield from _damaged("weights", files(name, dict), name)
    for content in ([1, 2], {"fc": "text"}, {"call": print}):
        yield Folder("weights", f"a pickle of {content}", files("w.pth", lambda state, content=content: content))


def _save(name: str, change: Callable[[dict], Any]) -> bytes:
    """The changed weights of a network as a file."""
    import safetensors.torch
    import torch

    from opl.experiments.models import ResNet

    torch.manual_seed(0)
    weights = change({key: value.clone() for key, value in ResNet(depth=18).build(3, 3).state_dict().items()})
    stream = io.BytesIO()
    torch.save(weights, stream)
    return safetensors.torch.save(weights) if name.endswith("safetensors") else stream.getvalue()
