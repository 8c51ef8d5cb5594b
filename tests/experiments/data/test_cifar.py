"""CIFAR-10 and CIFAR-100: augmentation, names of the classes, super-classes."""

import numpy as np
import pytest
import torch

from _image_files import write
from opl.errors import OptionError
from opl.experiments.data import CATALOG, Cifar10, Cifar100, ColorJitter, Flip, PadCrop

pytestmark = pytest.mark.usefixtures("apart")


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


def test_super_classes_are_chosen_whole_and_their_classes_numbered_anew(tmp_path):
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
