"""Digits, MNIST and CIFAR: selected classes, validation images, augmentation, class names, superclasses."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from _image_files import write, write_mnist
from opl.errors import DataError, OptionError
from opl.experiments.data import (
    CATALOG,
    Batches,
    Cifar10,
    Cifar100,
    ColorJitter,
    Digits,
    FashionMnist,
    FastCifar10,
    FastCifar100,
    Flip,
    Mnist,
    PadCrop,
)
from opl.experiments.data.augment import ReflectCrop
from opl.experiments.data.read import serve
from opl.experiments.types import Images

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
    with pytest.raises(OptionError, match="must be 2 to 10"):
        Mnist(classes=11).load(0)


def test_the_held_out_images_follow_the_seed_of_the_run_only_with_split_seed_minus_one(shelf):
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


@pytest.mark.slow
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
        for index, row in enumerate(datasets.load_dataset(root, split=name, streaming=True).take(40)):
            array = np.asarray(row[pixels])
            expected = array[None] if array.ndim == 2 else array.transpose(2, 0, 1)
            np.testing.assert_array_equal(part.pixels[index].numpy(), expected)
            assert int(part.labels[index]) == row.get("fine_label", row.get("label"))


@pytest.mark.slow
def test_real_cifar100_has_its_classes_evenly_and_a_crab(real_cache, monkeypatch):
    root = _real("cifar100")
    monkeypatch.setenv("OPL_CACHE", real_cache)
    splits = Cifar100(root=root, stratified=True).load(0)
    assert splits.class_names[26] == "crab"
    assert len(set(splits.class_names)) == 100
    assert splits.train.labels.bincount().tolist() == [500] * 100
    assert splits.test.labels.bincount().tolist() == [100] * 100
    assert splits.val.labels[splits.val.rows].bincount().tolist() == [50] * 100
    decoded = serve.load("cifar100", root)
    assert decoded.parts["train"].labels["coarse_label"].bincount().tolist() == [2500] * 20
    start = time.monotonic()
    Cifar100(root=root).load(0)
    assert time.monotonic() - start < 2  # about 0.1 s on an idle machine


def test_cifar100_is_augmented_as_in_the_papers_code():
    assert Cifar100().augment == (PadCrop(4), Flip(0.5), ColorJitter(0.4, 0.4, 0.4))
    assert Cifar100(jitter=0, padding=0, flip=0).augment == ()


def test_cifar10_is_read_in_the_layout_of_the_hub(tmp_path):
    names = list(CATALOG["cifar10"].names)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    for name in ("train", "test"):
        file = tmp_path / f"datasets--uoft-cs--cifar10/plain_text/{name}-00000-of-00001.parquet"
        write(file, pixels, list(range(10)) * 2, names, image="img")
    splits = Cifar10(root=str(tmp_path / "datasets--uoft-cs--cifar10"), val=5).load(0)
    assert splits.class_names == tuple(names)
    assert (len(splits.train), len(splits.val), len(splits.test)) == (15, 5, 20)
    np.testing.assert_array_equal(splits.test.pixels, pixels.transpose(0, 3, 1, 2))
    assert Cifar10().augment == (PadCrop(4), Flip(0.5))


def test_superclasses_are_selected_whole_and_their_classes_renumbered(tmp_path):
    names = [f"class{number}" for number in range(100)]
    coarse = [(7 * number) % 20 for number in range(100)]
    pixels = np.zeros((100, 32, 32, 3), dtype=np.uint8)
    pixels[:, 0, 0, 0] = np.arange(100)
    for name in ("train", "test"):
        file = tmp_path / f"{name}-00000-of-00001.parquet"
        write(file, pixels, list(range(100)), names, image="img", coarse_label=coarse)
    settings = Cifar100(root=str(tmp_path), val=0, superclasses=(3, 11))
    splits, expected = settings.load(0), [number for number in range(100) if coarse[number] in (3, 11)]
    assert settings.num_classes == 10
    assert splits.class_names == tuple(names[number] for number in expected)
    assert splits.groups == tuple(coarse[number] for number in expected)
    for part in (splits.train, splits.test):
        chosen, labels = part.take(torch.arange(len(part)))
        assert chosen[:, 0, 0, 0].tolist() == expected
        assert labels.tolist() == list(range(10))
    unseen, others = settings.novel_classes()
    assert others == tuple(names[number] for number in range(100) if number not in expected)[:10]
    assert unseen.take(torch.arange(10))[1].tolist() == list(range(10))
    for wrong in (
        Cifar100(root=str(tmp_path), superclasses=(3, 20)),
        Cifar100(root=str(tmp_path), superclasses=(3, 3)),
        Cifar100(root=str(tmp_path), superclasses=(3,), classes=2),
    ):
        with pytest.raises(OptionError, match="from 0 to 19"):
            wrong.load(0)


def test_the_hubs_spelling_of_crab_is_corrected(tmp_path):
    names = [f"class{number}" for number in range(100)]
    names[26] = "cra"
    for name in ("train", "test"):
        pixels = np.zeros((100, 32, 32, 3), dtype=np.uint8)
        write(tmp_path / f"cifar100/{name}-00000-of-00001.parquet", pixels, list(range(100)), names)
    assert Cifar100(root=str(tmp_path), val=0).load(0).class_names[26] == "crab"


COUNT, SIZE = 24, 12


def batches(**options):
    pixels = torch.randint(
        0, 256, (COUNT, 3, SIZE, SIZE), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    part = Images(pixels, torch.arange(COUNT), torch.arange(COUNT))
    given = {"seed": 3, "augment": (), "mean": (0.0,) * 3, "std": (1.0,) * 3, "device": "cpu", **options}
    return Batches(part, 8, **given), pixels.float() / 255


def by_row(made, epoch):
    return {int(row): image for batch in made.epoch(epoch) for row, image in zip(batch.rows, batch.images, strict=True)}


def test_every_image_is_flipped_in_every_second_epoch():
    made, pixels = batches(alternate_flip=True)
    epochs = [by_row(made, epoch) for epoch in range(3)]
    flipped = {row: torch.equal(image, pixels[row].flip(2)) for row, image in epochs[0].items()}
    assert 0 < sum(flipped.values()) < COUNT
    for row, first in flipped.items():
        for epoch, seen in enumerate(epochs):
            wanted = pixels[row].flip(2) if first == (epoch % 2 == 0) else pixels[row]
            assert torch.equal(seen[row], wanted)


def test_images_grow_during_training_by_an_antialiased_reduction():
    made, pixels = batches(growing_sizes=((0.25, 6), (0.5, 9)), epochs=4)
    sizes = [[batch.images.shape[2] for batch in made.epoch(epoch)] for epoch in range(4)]
    assert sizes == [[6] * 3, [9] * 3, [12] * 3, [12] * 3]
    row, image = next(iter(by_row(made, 0).items()))
    wanted = F.interpolate(pixels[row : row + 1], 6, mode="bilinear", antialias=True)
    torch.testing.assert_close(image, wanted[0])


def test_two_processes_and_a_resumed_epoch_see_the_same_images():
    options = {"alternate_flip": True, "growing_sizes": ((0.5, 8),), "epochs": 2, "augment": (ReflectCrop(2),)}
    whole = by_row(batches(**options)[0], 0)
    halves = [by_row(batches(**options, rank=rank, world=2)[0], 0) for rank in range(2)]
    assert {**halves[0], **halves[1]}.keys() == whole.keys()
    for row, image in {**halves[0], **halves[1]}.items():
        assert torch.equal(image, whole[row])
    rest = list(batches(**options)[0].epoch(0, start_step=2))
    assert all(torch.equal(image, whole[int(row)]) for row, image in zip(rest[0].rows, rest[0].images, strict=True))


def test_a_crop_of_a_reflected_image_is_a_window_of_it():
    images = torch.rand(5, 3, 8, 8)
    got = ReflectCrop(2)(images, torch.Generator().manual_seed(1))
    padded = F.pad(images, (2,) * 4, mode="reflect")
    for image, around in zip(got, padded, strict=True):
        windows = [around[:, y : y + 8, x : x + 8] for y in range(5) for x in range(5)]
        assert any(torch.equal(image, window) for window in windows)


def test_the_fast_data_sets_have_these_settings():
    for data in (FastCifar10(), FastCifar100()):
        assert data.alternate_flip
        assert data.growing_sizes == ((0.15, 20), (0.5, 24))
        assert data.augment == (ReflectCrop(2),)


def test_the_hubs_spelling_of_a_t_shirt_is_corrected(tmp_path, shelf):
    names = ["T - shirt / top", *CATALOG["fashion-mnist"].names[1:]]
    for name in ("train", "test"):
        pixels = np.zeros((10, 28, 28), dtype=np.uint8)
        write(shelf / f"fashion-mnist/fashion_mnist/{name}-00000-of-00001.parquet", pixels, list(range(10)), names)
    assert FashionMnist(val=0).load(0).class_names == CATALOG["fashion-mnist"].names


def test_superclasses_are_those_of_the_data_set():
    try:
        splits = Cifar100(classes=20).load(0)
    except DataError:
        pytest.skip("CIFAR-100 is not here: set OPL_DATA")
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["aquarium_fish"] != groups["apple"]
    assert groups["baby"] == groups["boy"]
    assert groups["bee"] == groups["beetle"] == groups["butterfly"] == groups["caterpillar"]
    assert groups["bottle"] == groups["bowl"] == groups["can"]


def test_digits_are_scikit_learns_half_for_testing():
    from sklearn.datasets import load_digits

    splits, raw = Digits().load(0), load_digits()
    assert (len(splits.train), len(splits.val), len(splits.test)) == (899, 0, 898)
    everything = torch.cat([splits.train.rows, splits.test.rows])
    assert torch.equal(everything.sort().values, torch.arange(1797))
    np.testing.assert_array_equal(splits.train.pixels[:, 0].numpy(), np.rint(raw.images * 255 / 16))
    shares = splits.test.labels[splits.test.rows].bincount() / torch.from_numpy(raw.target).bincount()
    assert (shares - 0.5).abs().max() < 0.005
    floats = splits.train.pixels / 255
    assert (float(floats.mean()), float(floats.std())) == pytest.approx((*Digits.mean, *Digits.std), abs=1e-4)
    assert torch.equal(Digits().load(1).test.rows, splits.test.rows)
    assert len(Digits(val=99).load(0).val) == 99
