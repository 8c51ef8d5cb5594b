"""Hostile data: invalid images, labels and paths are refused in one sentence, and nothing is executed."""

import datetime
import gzip
import io
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from _image_files import png, write, write_mnist
from opl.errors import DataError, OplWarning, OptionError
from opl.experiments.data import DomainFolder, Mnist, describe
from opl.experiments.data.read import serve
from opl.experiments.data.read.cache import cache_folder
from opl.experiments.data.read.decode import FORMATS, open_image

pytestmark = pytest.mark.usefixtures("apart")
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 28 28\n%%EndComments\nshowpage\n%%EOF\n"
FILE = "train-00000-of-00001.parquet"
GRAY = np.zeros((28, 28), np.uint8)


def write_row(folder: Path, entry: dict) -> None:
    """MNIST, in which one row is another."""
    write_mnist(folder)
    table = pq.read_table(folder / FILE)
    rows = [entry, *table.column("image").to_pylist()[1:]]
    pq.write_table(table.set_column(0, "image", pa.array(rows)), folder / FILE)


@pytest.fixture
def ghostscript(tmp_path, monkeypatch) -> Path:
    """A program in place of Ghostscript that leaves a file behind."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/gs"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\necho 10.0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "ran"


def test_an_eps_image_never_reaches_ghostscript(shelf, ghostscript):
    write_row(shelf / "mnist", {"bytes": EPS, "path": None})
    with pytest.raises(DataError, match="none of PNG, JPEG, WEBP, BMP, GIF, TIFF"):
        serve.load("mnist")
    assert not ghostscript.exists()
    with pytest.raises(OSError, match=r"."):
        Image.open(io.BytesIO(EPS), formats=("EPS",)).load()
    assert ghostscript.exists()  # it would have


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_decoded_like_by_pillow(kind):
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    stream = io.BytesIO()
    image.save(stream, kind)
    np.testing.assert_array_equal(
        np.asarray(open_image(stream.getvalue()).convert("RGB")),
        np.asarray(Image.open(stream, formats=(kind,)).convert("RGB")),
    )


@pytest.mark.parametrize("content", [EPS, b"P6 2 2 255\n" + bytes(12), b"", b"text", b"8BPS\0\1" + bytes(60)])
def test_no_other_format_is_opened(content):
    with pytest.raises(ValueError, match="is none of PNG"):
        open_image(content)


def test_an_image_of_too_many_pixels_is_refused_before_it_is_decoded():
    head = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + head
    packed = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    body = b"IDAT" + zlib.compress(b"")
    packed += struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.warns(Image.DecompressionBombWarning), pytest.raises(ValueError, match="12000 x 12000 has more than"):
        open_image(packed)


def outside(folder: Path) -> str:
    (folder.parent / "secret.png").write_bytes(png(GRAY))
    return "../secret.png"


def absolute(folder: Path) -> str:
    return str((folder / outside(folder)).resolve())


def link(folder: Path) -> str:
    (folder / "link.png").symlink_to(absolute(folder))
    return "link.png"


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe.png")
    return "pipe.png"


@pytest.mark.parametrize(
    "name", [outside, absolute, link, pipe, lambda _: "/dev/zero", lambda _: ".", lambda _: "a\0b"]
)
def test_a_row_that_names_a_file_outside_or_no_file_is_refused(shelf, name):
    (shelf / "mnist").mkdir(parents=True)
    write_row(shelf / "mnist", {"bytes": None, "path": name(shelf / "mnist")})
    with pytest.raises(DataError, match=r"not a regular file in the folder|null|ValueError"):
        serve.load("mnist")


def test_a_row_that_names_a_file_in_the_folder_is_read(shelf):
    (shelf / "mnist/images").mkdir(parents=True)
    (shelf / "mnist/images/7.png").write_bytes(png(GRAY + 7))
    write_row(shelf / "mnist", {"bytes": None, "path": "images/7.png"})
    assert (serve.load("mnist").parts["train"].pixels[0] == 7).all()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array([None] * 20, pa.int64()), "the label None"),
        (pa.array([float("nan")] * 20), "the label nan"),
        (pa.array([1.5] * 20), "the label 1.5"),
        (pa.array([[1]] * 20), r"the label \[1\]"),
        (pa.array([datetime.date(2020, 1, 1)] * 20), "the label datetime.date"),
        (pa.array([b"1"] * 20), "the label b'1'"),
        (pa.array(["eleven"] * 20), "the label 'eleven' is not among its 10 class names"),
        (pa.array([2**63] * 20, pa.uint64()), "more than 64 bits"),
        (pa.array([10] * 20), "labels from 10 to 10"),
        (pa.array([*range(10), *range(-1, 9)]), "labels from -1 to 9"),
        (pa.array([3] * 20), "all 20 training images are of class 3"),
    ],
)
def test_labels_that_are_not_classes_are_refused(shelf, labels, expected):
    write_mnist(shelf / "mnist")
    names = {"huggingface": json.dumps({"info": {"features": {"label": {"names": list("0123456789")}}}})}
    table = pa.table({"image": pa.array([{"bytes": png(GRAY)}] * 20), "label": labels})
    pq.write_table(table.replace_schema_metadata(names), shelf / "mnist" / FILE)
    with pytest.raises(DataError, match=expected) as caught:
        serve.load("mnist")
    assert "\n" not in str(caught.value)


def test_test_images_of_another_size_are_refused(shelf, monkeypatch):
    from dataclasses import replace

    from opl.experiments.data import CATALOG

    monkeypatch.setitem(CATALOG, "mnist", replace(CATALOG["mnist"], size=0))
    write_mnist(shelf / "mnist")
    small = np.zeros((20, 14, 14), np.uint8)
    write(shelf / "mnist/test-00000-of-00001.parquet", small, [i % 10 for i in range(20)], list("0123456789"))
    with pytest.raises(DataError, match="images of 28 x 28 in 'train' and 14 x 14 in 'test'"):
        serve.load("mnist")


def test_an_incomplete_mnist_is_warned_about(shelf):
    write_mnist(shelf / "mnist")
    with pytest.warns(OplWarning, match="40 images in its split 'train', where the complete data set has 60,000"):
        serve.load("mnist")


def test_a_table_that_claims_more_rows_than_bytes_is_refused(shelf):
    write_mnist(shelf / "mnist")
    count = 200_000
    image = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([png(GRAY)]))
    table = pa.table({"image": image, "label": pa.array(np.zeros(count, np.int64))})
    pq.write_table(table, shelf / "mnist" / FILE, compression="zstd")
    with pytest.raises(DataError, match=r"claims 200,000 rows"):
        serve.load("mnist")


def test_a_gzip_file_that_unpacks_to_more_than_it_declares_is_refused(shelf):
    (shelf / "mnist").mkdir(parents=True)
    for word in ("train", "t10k"):
        for what, shape in (("images", (10, 28, 28)), ("labels", (10,))):
            head = struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape)
            content = gzip.compress(head + bytes(1 << 20))
            (shelf / "mnist" / f"{word}-{what}-idx{len(shape)}-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match="holds more bytes but declares 10"):
        serve.load("mnist")


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a/b", ""])
def test_the_name_of_a_data_set_cannot_leave_the_cache(tmp_path, name):
    for domain in "ab":
        for label in "xy":
            (tmp_path / "data" / domain / label).mkdir(parents=True)
            (tmp_path / "data" / domain / label / "1.png").write_bytes(png(GRAY))
    with pytest.raises(OptionError, match="because it names a folder"):
        DomainFolder(root=str(tmp_path / "data"), name=name, target="a", num_classes=2, size=8).load(0)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda file: os.truncate(file, 0), "cannot be read"),
        (lambda file: os.truncate(file, 700), "cannot be read"),
        (lambda file: pq.write_table(pa.table({"a": [1]}), file), "has no column"),
        (lambda file: pq.write_table(pq.read_table(file).slice(0, 0), file), "no images"),
        (
            lambda file: write(file, [*[GRAY] * 19, GRAY[:9, :9]], list(range(10)) * 2, list("0123456789")),
            "different sizes",
        ),
        (lambda file: file.write_text("no table"), "cannot be read"),
    ],
)
def test_a_damaged_folder_is_refused_in_one_sentence(shelf, spoil, expected):
    write_mnist(shelf / "mnist")
    spoil(shelf / "mnist" / FILE)
    with pytest.raises(DataError, match=expected) as caught:
        serve.load("mnist")
    assert "\n" not in str(caught.value)
    assert not [path for path in cache_folder().iterdir() if path.is_dir()]  # nothing is cached
    assert describe()[1]["here"]  # the table of contents does not read the files


def test_a_folder_whose_name_is_not_text_is_read(tmp_path):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    write_mnist(tmp_path / "text")
    (tmp_path / "text").rename(folder)
    assert len(Mnist(root=str(folder), val=5).load(0).train.rows) == 35


def test_two_classes_of_one_name_are_refused(shelf):
    write_mnist(shelf / "mnist")
    pixels = np.zeros((20, 28, 28), np.uint8)
    write(shelf / "mnist" / FILE, pixels, [row % 10 for row in range(20)], list("0123456788"))
    with pytest.raises(DataError, match="two classes of 'label' with the name '8'"):
        serve.load("mnist")
