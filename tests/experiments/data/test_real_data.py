"""The real data sets in $OPL_DATA, compared with what pyarrow and Pillow read from the same files."""

import io
import json
import os
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from opl.experiments.data import CATALOG, Cifar100, CifarFS, LongTailedCifar100, Mnist, Pacs
from opl.experiments.data.domains import PACS
from opl.experiments.data.read import serve
from opl.experiments.data.small_images import long_tail_counts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("real"))


@pytest.fixture(autouse=True)
def _own_cache(real_cache, monkeypatch):
    monkeypatch.setenv("OPL_CACHE", real_cache)


def root_of(name: str) -> str:
    folder = Path(os.environ.get("OPL_DATA", ""), name)
    if "OPL_DATA" not in os.environ or not folder.is_dir():
        pytest.skip(f"OPL_DATA names no folder with {name!r}")
    return str(folder)


def table_of(root: str, part: str) -> pa.Table:
    return pq.read_table(next(Path(root).rglob(f"{part}*.parquet")))


def decode(encoded: bytes, mode: str = "RGB", size: int = 0) -> np.ndarray:
    image = Image.open(io.BytesIO(encoded), formats=("PNG", "JPEG", "WEBP")).convert(mode)
    image = image.resize((size, size), Image.Resampling.BILINEAR) if size and image.size != (size, size) else image
    return np.asarray(image).reshape(*image.size[::-1], -1).transpose(2, 0, 1)


@pytest.mark.parametrize(("settings", "train", "mode"), [(Cifar100, 50_000, "RGB"), (Mnist, 60_000, "L")])
def test_images_and_labels_are_complete_and_equal_to_the_files(settings, train, mode):
    root = root_of(settings.name)
    splits = settings(root=root).load(0)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (train - 5000, 5000, 10_000)
    for part, name in ((splits.train, "train"), (splits.test, "test")):
        table = table_of(root, name)
        [images, labels] = (
            table.column(next(column for column in columns if column in table.column_names)).to_pylist()
            for columns in (("img", "image"), ("fine_label", "label"))
        )
        assert part.labels.tolist() == labels
        for row in range(40):
            np.testing.assert_array_equal(part.pixels[row].numpy(), decode(images[row]["bytes"], mode))


def test_cifar100_has_its_classes_evenly_a_crab_and_its_superclasses():
    root = root_of("cifar100")
    splits = Cifar100(root=root, stratified=True).load(0)
    assert splits.class_names[26] == "crab"
    assert len(set(splits.class_names)) == 100
    assert splits.train.labels.bincount().tolist() == [500] * 100
    assert splits.test.labels.bincount().tolist() == [100] * 100
    assert splits.val.labels[splits.val.rows].bincount().tolist() == [50] * 100
    assert serve.load("cifar100", root).parts["train"].others["coarse_label"].bincount().tolist() == [2500] * 20
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["aquarium_fish"] != groups["apple"]
    assert groups["baby"] == groups["boy"]
    assert groups["bee"] == groups["beetle"] == groups["butterfly"] == groups["caterpillar"]
    assert groups["bottle"] == groups["bowl"] == groups["can"]
    start = time.monotonic()
    Cifar100(root=root).load(0)
    assert time.monotonic() - start < 2  # about 0.1 s on an idle machine


@pytest.fixture(scope="module")
def cifar_100() -> list[tuple[str, bytes]]:
    """The class name and the encoded image of every row, the training images first."""
    rows = []
    for part in ("train", "test"):
        table = table_of(root_of("cifar100"), part)
        names = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["fine_label"]["names"]
        names[26] = "crab"
        images = (entry["bytes"] for entry in table.column("img").to_pylist())
        rows += zip((names[label] for label in table.column("fine_label").to_pylist()), images, strict=True)
    return rows


def test_cifar_fs_is_complete_and_every_image_is_that_of_cifar_100(cifar_100):
    data = CifarFS(root=root_of("cifar100"))
    splits = data.load(0)
    result = ((splits.train, splits.class_names), *map(data.novel_classes, ("val", "test")))
    assert [(len(images), len(names)) for images, names in result] == [(38_400, 64), (9_600, 16), (12_000, 20)]
    assert (len(splits.val), len(splits.test)) == (0, 0)
    assert [names for _, names in result] == [CATALOG["cifar-fs"].lists[part] for part in ("train", "val", "test")]
    for images, names in result:
        assert images.labels.bincount().tolist() == [600] * len(names)
        expected = [(label, encoded) for label, encoded in cifar_100 if label in names]
        for row in np.random.default_rng(0).choice(len(expected), 150, replace=False):
            assert names[images.labels[row]] == expected[row][0]
            np.testing.assert_array_equal(images.pixels[row].numpy(), decode(expected[row][1]))
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["bee"] == groups["caterpillar"] == groups["cockroach"]
    assert len(set(groups.values())) > 10


@pytest.mark.parametrize("holdout", [100, -1])
def test_cifar_fs_holds_out_the_test_images_of_cifar_100(cifar_100, holdout):
    splits = CifarFS(root=root_of("cifar100"), holdout=holdout).load(0)
    assert (len(splits.train), len(splits.test)) == (32_000, 6_400)
    expected = [(name, encoded) for name, encoded in cifar_100[50_000:] if name in splits.class_names]
    assert [splits.class_names[label] for label in splits.test.labels[splits.test.rows]] == [n for n, _ in expected]
    for index in range(0, 6_400, 100):
        np.testing.assert_array_equal(splits.test.pixels[splits.test.rows[index]], decode(expected[index][1]))
    assert not set(splits.train.rows.tolist()) & set(splits.test.rows.tolist())


@pytest.mark.parametrize("size", [64, 96])
@pytest.mark.parametrize(("target", "counts"), [("sketch", (5446, 616)), ("photo", (7478, 843))])
def test_pacs_equals_the_files_and_leaves_one_domain_out(size, target, counts):
    root = root_of("pacs")
    table = pq.read_table(root)
    domains, labels = (table.column(name).to_pylist() for name in ("domain", "label"))
    splits = Pacs(root=root, target=target, size=size).load(0)
    assert (len(splits.train), len(splits.val)) == counts
    assert splits.test.rows.tolist() == [row for row, domain in enumerate(domains) if domain == target]
    assert sorted(torch.cat([part.rows for part in splits[:3]]).tolist()) == list(range(9991))
    assert splits.train.labels.tolist() == labels
    assert [splits.domain_names[number] for number in splits.train.domains.tolist()] == domains
    held = Counter(domains[row] for row in splits.val.rows.tolist())
    assert held == {name: sizes[1] for name, sizes in PACS.items() if name != target}
    assert splits.class_names == ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    for row in range(0, 9991, 333):
        expected = decode(table.column("image")[row]["bytes"].as_py(), size=0 if size == 96 else size)
        np.testing.assert_array_equal(splits.train.pixels[row].numpy(), expected)


def test_cifar_100_lt_has_the_tail_and_balanced_other_parts():
    splits = LongTailedCifar100(root=root_of("cifar100"), val=1000).load(0)
    train, val, test = (part.labels[part.rows].bincount(minlength=100).tolist() for part in splits[:3])
    assert train == [min(490, count) for count in long_tail_counts(100, 500, 100)]
    assert sum(train) == 10_837  # validation leaves 490 images per class, so the first class lacks 10
    assert (val, test) == ([10] * 100, [100] * 100)
    assert not set(splits.train.rows.tolist()) & set(splits.val.rows.tolist())
