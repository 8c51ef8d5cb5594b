"""Parquet files with odd columns, labels, names and pictures, and damaged Parquet files."""

import datetime
import io
import json
import math
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ._data_case import DataCase, Expect
from ._pictures import picture

FILE = "train-00000-of-00001.parquet"
ROWS = [(domain, label) for domain in "ab" for label in range(3) for _ in range(4)]
LABELS = [label for _, label in ROWS]
DOMAIN_COLUMN = [domain for domain, _ in ROWS]
Columns = dict[str, Any]


def encode(number: int, size: int = 16, mode: str = "RGB", kind: str = "PNG") -> bytes:
    """An encoded picture."""
    stream = io.BytesIO()
    picture(number, size, mode).save(stream, kind)
    return stream.getvalue()


def columns() -> Columns:
    """The columns of the plain table."""
    images = [{"bytes": encode(number), "path": None} for number in range(len(ROWS))]
    return {"image": images, "label": list(LABELS), "domain": list(DOMAIN_COLUMN)}


def write(folder: Path, content: Columns, names: list[str] | None = None, file: str = FILE) -> int:
    """Write a table, with class names in the schema if they are given."""
    table = pa.table(
        {name: value if isinstance(value, pa.Array) else pa.array(value) for name, value in content.items()}
    )
    if names is not None:
        features = {"label": {"names": names, "_type": "ClassLabel"}, "image": {"_type": "Image"}}
        told = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": told})
    pq.write_table(table, folder / file)
    return len(ROWS)


def plain_table(folder: Path) -> int:
    """The plain table."""
    return write(folder, columns())


def _labels(values: Any, names: list[str] | None = None) -> Callable[[Path], int]:
    return lambda folder: write(folder, {**columns(), "label": values}, names)


def _with(**changed: Any) -> Callable[[Path], int]:
    return lambda folder: write(folder, {**columns(), **changed})


def _without(name: str) -> Callable[[Path], int]:
    return lambda folder: write(folder, {key: value for key, value in columns().items() if key != name})


def put_sixth(values: list[Any], value: Any) -> list[Any]:
    return [*values[:5], value, *values[6:]]


def table_cases() -> Iterator[DataCase]:
    """All of them."""
    for name, make, expect in (*_label_cases(), *_column_cases(), *_damaged_cases()):
        yield DataCase(name, "table", make, expect)


Row = tuple[str, Callable[[Path], object], Expect]


def _label_cases() -> Iterator[Row]:
    floats = [float(label) for label in LABELS]
    day = datetime.date(2020, 1, 1)
    moment = datetime.datetime(2020, 1, 1)
    names = ["x", "y", "z"]
    yield "one label null", _labels(put_sixth(LABELS, None)), "refused"
    yield "all labels null", _labels(pa.array([None] * len(ROWS), pa.int64())), "refused"
    yield "no type of labels", _labels(pa.nulls(len(ROWS))), "refused"
    yield "one label NaN", _labels(put_sixth(floats, math.nan)), "refused"
    yield "one label infinite", _labels(put_sixth(floats, math.inf)), "refused"
    yield "one label 1.5", _labels(put_sixth(floats, 1.5)), "refused"
    yield "labels whole floats", _labels(floats), "same"
    yield "labels float16", _labels(pa.array([label + 0.25 for label in LABELS], pa.float32())), "refused"
    yield "one label -1", _labels(put_sixth(LABELS, -1)), "refused"
    yield "one label 3 of 3 classes", _labels(put_sixth(LABELS, 3)), "refused"
    yield "one label 2**62", _labels(put_sixth(LABELS, 2**62)), "refused"
    yield "one label 2**64 - 1", _labels(pa.array(put_sixth(LABELS, 2**64 - 1), pa.uint64())), "refused"
    yield "labels int8", _labels(pa.array(LABELS, pa.int8())), "same"
    yield "labels uint64", _labels(pa.array(LABELS, pa.uint64())), "same"
    yield "labels booleans", _labels([bool(label % 2) for label in LABELS]), "right"
    yield "labels lists", _labels([[label] for label in LABELS]), "refused"
    yield "labels empty lists", _labels(pa.array([[] for _ in LABELS], pa.list_(pa.int64()))), "refused"
    yield "labels one-hot", _labels([[int(label == each) for each in range(3)] for label in LABELS]), "refused"
    yield "labels structs", _labels([{"id": label} for label in LABELS]), "refused"
    yield "labels maps", _labels(pa.array([[(1, 2)]] * len(ROWS), pa.map_(pa.int64(), pa.int64()))), "refused"
    yield "labels dates", _labels([day] * len(ROWS)), "refused"
    yield "labels times", _labels([moment] * len(ROWS)), "refused"
    yield "labels durations", _labels([datetime.timedelta(days=label) for label in LABELS]), "refused"
    yield "labels decimals", _labels([Decimal(label) for label in LABELS]), "right"
    yield "labels bytes", _labels([bytes([label]) for label in LABELS]), "refused"
    yield "labels words", _labels([names[label] for label in LABELS]), "right"
    yield "labels words and a null", _labels(put_sixth([names[label] for label in LABELS], None)), "refused"
    yield "labels words and an empty one", _labels(put_sixth([names[label] for label in LABELS], "")), "refused"
    yield "labels digits as words", _labels([str(label) for label in LABELS]), "same"
    yield "labels of a dictionary", _labels(pa.array([names[label] for label in LABELS]).dictionary_encode()), "right"
    yield "labels outside the schema", _labels(put_sixth(LABELS, 3), names), "refused"
    yield "fewer names than labels", _labels(LABELS, ["x", "y"]), "refused"
    yield "more names than labels", _labels(LABELS, ["x", "y", "z", "w"]), "refused"
    yield "a name twice", _labels(LABELS, ["x", "x", "z"]), "right"
    yield "no names in the schema", _labels(LABELS, []), "same"
    yield "a word that the schema lacks", _labels(put_sixth([names[each] for each in LABELS], "w"), names), "refused"
    yield "one class", _labels([0] * len(ROWS)), "refused"
    yield "two of three classes", _labels([label % 2 for label in LABELS]), "right"


def _column_cases() -> Iterator[Row]:
    images = columns()["image"]
    yield "no label column", _without("label"), "refused"
    yield "no image column", _without("image"), "refused"
    yield "no domain column", _without("domain"), "refused"
    yield "a label column in capitals", lambda f: write(f, {k.title(): v for k, v in columns().items()}), "refused"
    yield "two label columns", _with(fine_label=[2 - label for label in LABELS]), "right"
    yield "an unknown column", _with(note=["x"] * len(ROWS)), "same"
    yield "images as plain bytes", _with(image=[each["bytes"] for each in images]), "same"
    yield "images as words", _with(image=["picture"] * len(ROWS)), "refused"
    yield "images as numbers", _with(image=list(range(len(ROWS)))), "refused"
    yield "images as arrays", _with(image=[[[0, 1], [2, 3]]] * len(ROWS)), "refused"
    yield "one image null", _with(image=put_sixth(images, None)), "refused"
    yield "one image without bytes", _with(image=put_sixth(images, {"bytes": None, "path": None})), "refused"
    yield "one image that is nowhere", _with(image=put_sixth(images, {"bytes": None, "path": "nowhere.png"})), "refused"
    yield "one image elsewhere", _with(image=put_sixth(images, {"bytes": None, "path": "/etc/hostname"})), "refused"
    yield "one domain null", _with(domain=put_sixth(DOMAIN_COLUMN, None)), "refused"
    yield "one domain without a name", _with(domain=put_sixth(DOMAIN_COLUMN, "")), "right"
    yield "domains as numbers", _with(domain=[ord(domain) for domain in DOMAIN_COLUMN]), "refused"
    yield "domains as lists", _with(domain=[[domain] for domain in DOMAIN_COLUMN]), "refused"
    yield "domains as floats", _with(domain=[float(ord(domain)) for domain in DOMAIN_COLUMN]), "refused"
    yield "one domain alone", _with(domain=["b"] * len(ROWS)), "refused"
    yield "a domain with a slash", _with(domain=[each.replace("a", "../a") for each in DOMAIN_COLUMN]), "right"
    yield "no rows", lambda f: write(f, {k: pa.array(v)[:0] for k, v in columns().items()}), "refused"
    yield "one row", lambda f: write(f, {k: pa.array(v)[:1] for k, v in columns().items()}), "refused"
    yield "no columns", lambda f: write(f, {}), "refused"


def _damaged_cases() -> Iterator[Row]:
    def change(edit: Callable[[bytes], bytes]) -> Callable[[Path], int]:
        def make(folder: Path) -> int:
            plain_table(folder)
            (folder / FILE).write_bytes(edit((folder / FILE).read_bytes()))
            return len(ROWS)

        return make

    def replace(put: Callable[[Path], object]) -> Callable[[Path], object]:
        def make(folder: Path) -> object:
            plain_table(folder)
            (folder / FILE).unlink()
            return put(folder / FILE)

        return make

    for share in (0.1, 0.5, 0.9, 0.99):
        yield f"cut at {share:.0%}", change(lambda data, share=share: data[: int(share * len(data))]), "refused"
    for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 0.97, 0.99, 0.999):

        def flip(data: bytes, share: float = share) -> bytes:
            place = min(len(data) - 1, int(share * len(data)))
            return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]

        yield f"a flipped bit at {share:.1%}", change(flip), "any"
    yield "emptied", change(lambda data: b""), "refused"
    yield "zeros", change(lambda data: bytes(len(data))), "refused"
    yield "text", change(lambda data: b"image,label\n"), "refused"
    yield "bytes appended", change(lambda data: data + b"more"), "refused"
    yield "a folder in its place", replace(lambda file: file.mkdir()), "refused"
    yield "a pipe in its place", replace(os.mkfifo), "refused"
    yield "a link to itself", replace(lambda file: file.symlink_to(file.name)), "refused"
    yield "a link to an endless file", replace(lambda file: file.symlink_to("/dev/zero")), "refused"
    yield "the second shard missing", lambda f: write(f, columns(), file="train-00000-of-00002.parquet"), "refused"
    yield "a shard with other columns", _shards({"label": [0]}), "refused"
    yield "a shard with labels of another type", _shards({**columns(), "label": ["x"] * len(ROWS)}), "refused"
    yield "an empty folder", lambda f: None, "refused"
    yield "a README alone", lambda f: (f / "README.md").write_text("data\n"), "refused"
    yield "a CSV file", lambda f: (f / "train.csv").write_text("image,label,domain\nx,1,a\n"), "refused"
    yield "a JSON file", lambda f: (f / "train.json").write_text('{"image": 1, "label": 1, "domain": "a"}\n'), "refused"


def _shards(second: Columns) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        for place, content in enumerate((columns(), second)):
            write(folder, content, file=f"train-0000{place}-of-00002.parquet")

    return make
