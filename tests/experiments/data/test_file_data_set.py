"""Data sets made of files: the classes and the validation images asked for; MNIST and CIFAR-100 themselves."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from _image_files import write_mnist
from opl.errors import OptionError
from opl.experiments.data import Cifar100, Mnist
from opl.experiments.data.read import cache

pytestmark = pytest.mark.usefixtures("apart")


def test_chosen_classes_are_the_first_in_every_part(shelf):
    write_mnist(shelf / "mnist")
    settings = Mnist(val=20, stratified=True, classes=3, per_class=1, test_per_class=1)
    splits = settings.load(0)
    for part, count in ((splits.train, 1), (splits.val, 2), (splits.test, 1)):
        assert part.labels[part.rows].bincount().tolist() == [count] * 3
    assert splits.class_names == ("0", "1", "2")
    assert settings.num_classes == 3
    assert not set(splits.train.rows.tolist()) & set(splits.val.rows.tolist())
    with pytest.raises(OptionError, match="give 2 to 10"):
        Mnist(classes=11).load(0)


def test_the_held_out_images_follow_the_seed_of_the_run_only_when_told(shelf):
    write_mnist(shelf / "mnist")
    fixed, moving = Mnist(val=20), Mnist(val=20, split_seed=-1)
    assert torch.equal(fixed.load(1).val.rows, fixed.load(2).val.rows)
    assert not torch.equal(moving.load(1).val.rows, moving.load(2).val.rows)


# The real thing


REAL = os.environ.get("OPL_DATA", "")


def _real(name: str) -> str:
    folder = Path(REAL, name)
    if not REAL or not folder.is_dir():
        pytest.skip(f"OPL_DATA names no folder with {name!r}")
    return str(folder)


@pytest.fixture(scope="module")
def real_cache(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("real"))


@pytest.mark.parametrize(
    ("settings", "train", "test", "pixels"), [(Cifar100, 50_000, 10_000, "img"), (Mnist, 60_000, 10_000, "image")]
)
def test_real_data_is_complete_and_equal_to_what_datasets_decodes(
    settings, train, test, pixels, real_cache, monkeypatch
):
    root = _real(settings.name)
    monkeypatch.setenv("OPL_CACHE", real_cache)
    splits = settings(root=root).load(0)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (train - 5000, 5000, test)
    assert len(splits.train.labels) == train
    import datasets

    for part, name in ((splits.train, "train"), (splits.test, "test")):
        for place, row in enumerate(datasets.load_dataset(root, split=name, streaming=True).take(40)):
            array = np.asarray(row[pixels])
            expected = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
            np.testing.assert_array_equal(part.pixels[place].numpy(), expected)
            assert int(part.labels[place]) == row.get("fine_label", row.get("label"))


def test_real_cifar100_has_its_classes_evenly_and_a_crab(real_cache, monkeypatch):
    root = _real("cifar100")
    monkeypatch.setenv("OPL_CACHE", real_cache)
    splits = Cifar100(root=root, stratified=True).load(0)
    assert splits.class_names[26] == "crab"
    assert len(set(splits.class_names)) == 100
    assert splits.train.labels.bincount().tolist() == [500] * 100
    assert splits.test.labels.bincount().tolist() == [100] * 100
    assert splits.val.labels[splits.val.rows].bincount().tolist() == [50] * 100
    decoded = cache.load("cifar100", root)
    assert decoded.parts["train"].labels["coarse_label"].bincount().tolist() == [2500] * 20
    start = time.monotonic()
    Cifar100(root=root).load(0)
    assert time.monotonic() - start < 2  # about 0.1 s on an idle machine
