"""Digits, MNIST and CIFAR: selected classes, validation images, augmentation, class names, superclasses."""

import numpy as np
import pytest
import torch

from _image_files import write, write_mnist
from opl.errors import OptionError
from opl.experiments.data import (
    CATALOG,
    Cifar10,
    Cifar100,
    ColorJitter,
    Digits,
    FashionMnist,
    Flip,
    Mnist,
    PadCrop,
)

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


@pytest.mark.parametrize(
    ("settings", "shape", "index", "spelling", "correct"),
    [
        (Cifar100, (100, 32, 32, 3), 26, "cra", "crab"),
        (FashionMnist, (10, 28, 28), 0, "T - shirt / top", "T-shirt/top"),
    ],
)
def test_the_hubs_spelling_of_a_class_is_corrected(tmp_path, settings, shape, index, spelling, correct):
    names = [spelling if number == index else f"class{number}" for number in range(shape[0])]
    for name in ("train", "test"):
        file = tmp_path / settings.name / f"{name}-00000-of-00001.parquet"
        write(file, np.zeros(shape, dtype=np.uint8), list(range(shape[0])), names)
    class_names = settings(root=str(tmp_path), val=0).load(0).class_names
    assert (class_names[index], class_names[1]) == (correct, "class1")


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
