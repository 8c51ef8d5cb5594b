"""Synthetic data in the shape of real data sets."""

import pytest
import torch

from opl.errors import OptionError
from opl.experiments.data import (
    Cifar10,
    Cifar100,
    CifarFS,
    Digits,
    FashionMnist,
    MiniImageNet,
    Mnist,
    Synthetic,
    SyntheticDomains,
    TieredImageNet,
)

pytestmark = pytest.mark.usefixtures("apart")


REALS = {data.name: data for data in (Mnist(), FashionMnist(), Cifar10(), Cifar100(), Digits())}


@pytest.mark.parametrize("like", REALS)
def test_synthetic_data_has_the_shape_of_the_copied_data_set_and_is_learnable(like):
    made, real = Synthetic(like, rows=400), REALS[like]
    splits = made.load(0)
    assert splits.train.pixels.shape[1:] == (real.channels, real.size, real.size)
    assert (made.num_classes, made.mean, made.std, made.augment) == (
        real.num_classes,
        real.mean,
        real.std,
        real.augment,
    )
    assert (len(splits.train), len(splits.val), len(splits.test)) == (400, 64, 128)
    assert len(splits.class_names) == real.num_classes
    assert torch.equal(splits.train.pixels, made.load(9).train.pixels)
    train, labels = splits.train.take(torch.arange(400))
    test, expected = splits.test.take(torch.arange(128))
    nearest = labels[torch.cdist(test.float().flatten(1), train.float().flatten(1)).argmin(1)]
    assert (nearest == expected).float().mean() > 0.9


@pytest.mark.parametrize("settings", [CifarFS(), MiniImageNet(), TieredImageNet()])
def test_synthetic_data_like_a_few_shot_data_set_has_novel_classes(settings):
    made = Synthetic(settings.name, classes=4, rows=8, val=0, test=0)
    assert (made.mean, made.std, made.augment) == (settings.mean, settings.std, settings.augment)
    assert (made.num_classes, Synthetic(settings.name).num_classes) == (4, settings.num_classes)
    for name, count in (("train", 0), ("val", 16), ("test", 20)):
        result, names = made.novel_classes(name) if count else (made.load(0).train, ())
        assert result.pixels[result.rows].shape == (20 * count or 8, 3, settings.size, settings.size)
        assert not count or result.labels[result.rows].bincount().tolist() == [20] * len(names) == [20] * count


def test_synthetic_novel_classes_are_novel_and_separable():
    made = Synthetic("cifar-fs", classes=4)
    base = made.load(0).train.pixels[:4].float().flatten(1)
    for name, count in (("val", 16), ("test", 20)):
        result, _ = made.novel_classes(name)
        flat = result.pixels.float().flatten(1)
        means = torch.stack([flat[result.labels == label][:5].mean(0) for label in range(count)])
        query = torch.cat([flat[result.labels == label][5:] for label in range(count)])
        nearest = torch.cdist(query, means).argmin(1)
        assert (nearest == torch.arange(count).repeat_interleave(15)).float().mean() > 0.95
        assert torch.cdist(means, base).min() > torch.cdist(query, means).min(1).values.median()
    assert torch.equal(result.pixels, made.novel_classes("test")[0].pixels)
    assert not torch.equal(result.pixels[0], made.novel_classes("val")[0].pixels[0])


def test_synthetic_data_like_other_data_sets_has_no_novel_classes():
    with pytest.raises(OptionError, match="no novel classes: use data like 'cifar-fs'"):
        Synthetic("mnist").novel_classes()
    for like, channels, size, classes in (("digits", 1, 8, 10), ("mnist", 1, 28, 10), ("cifar100", 3, 32, 100)):
        chance = torch.Generator().manual_seed(0)
        coarse = torch.rand(classes, channels, 4, 4, generator=chance)
        patterns = torch.nn.functional.interpolate((coarse + coarse.flip(3)) / 2, size=(size, size), mode="bilinear")
        noise = torch.randn(448, channels, size, size, generator=chance) * 0.1
        expected = (patterns[torch.arange(448) % classes] + noise).clamp(0, 1).mul(255).round().to(torch.uint8)
        assert torch.equal(Synthetic(like).load(0).train.pixels, expected)


def test_another_size_keeps_classes_and_patterns():
    small, usual = (Synthetic(like="mini-imagenet", classes=4, rows=8, val=4, test=4, noise=0.0, pixels=pixels)
                    for pixels in (21, 0))  # fmt: skip
    assert (small.size, usual.size) == (21, 84)
    ours, theirs = small.load(0).train, usual.load(0).train
    assert ours.pixels.shape[1:] == (3, 21, 21)
    assert small.novel_classes()[0].pixels.shape[1:] == (3, 21, 21)
    assert torch.equal(ours.labels, theirs.labels)
    means = torch.nn.functional.avg_pool2d(theirs.pixels.float(), 4)  # four pixels to one
    assert (means - ours.pixels.float()).abs().mean() < 2
    with pytest.raises(OptionError, match="pixels is -1"):
        Synthetic(pixels=-1).load(0)


@pytest.mark.parametrize("target", ["art_painting", "cartoon", "photo", "sketch"])
def test_synthetic_domains_exclude_their_target_from_training(target):
    splits = SyntheticDomains(target=target).load(0)
    assert [len(part) for part in splits[:3]] == [3 * 42, 3 * 14, 56]
    number = splits.domain_names.index(target)
    assert (splits.test.domains[splits.test.rows] == number).all()
    for part in (splits.train, splits.val):
        assert (part.domains[part.rows] != number).all()
        assert set(part.labels[part.rows].tolist()) == set(range(7))
    with pytest.raises(OptionError, match="domain 'paint' does not exist"):
        SyntheticDomains(target="paint").load(0)
