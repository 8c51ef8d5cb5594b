"""Two views: both show the same images, differ in their augmentation, and are the same for any number of shards."""

import pytest
import torch

from opl.experiments.data import Batches, Flip, SyntheticTwoViews, TwoViewsCifar10
from opl.experiments.data.augment import ColorJitter, Grayscale, RandomResizedCrop
from opl.experiments.types import Images

PART = Images(
    torch.randint(256, (23, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)),
    torch.arange(23) % 4,
    torch.arange(22, -1, -1),
)


def batches(size=10, **options):
    settings = {"augment": (Flip(), ColorJitter()), "mean": (0.0,) * 3, "std": (1.0,) * 3, "device": "cpu", "seed": 0}
    return Batches(PART, size, **{**settings, **options})


def test_a_batch_has_every_image_twice_with_its_label_and_row():
    for twice, once in zip(batches(views=2).epoch(1), batches().epoch(1), strict=True):
        count = len(once.rows)
        assert torch.equal(twice.rows, once.rows.repeat(2))
        assert torch.equal(twice.labels, once.labels.repeat(2))
        assert twice.sample_weight == pytest.approx(once.sample_weight / 2)
        assert torch.equal(twice.images[:count], once.images)  # the first view is that of ordinary batches


def test_the_views_differ_only_in_their_augmentation():
    batch = next(batches(23, views=2, augment=(Flip(0.5),)).epoch(0))
    first, second = batch.images.chunk(2)
    plain = PART.pixels[PART.rows[batch.rows[:23]]] / 255
    for view in (first, second):
        assert all(
            torch.equal(row, image) or torch.equal(row, image.flip(2)) for row, image in zip(view, plain, strict=True)
        )
    assert 0 < sum(torch.equal(one, two) for one, two in zip(first, second, strict=True)) < 23


@pytest.mark.parametrize("world", [2, 3])
def test_shards_have_the_views_of_a_single_process(world):
    ranks = [batches(views=2, rank=rank, world=world).epoch(2) for rank in range(world)]
    for whole, *shards in zip(batches(views=2).epoch(2), *ranks, strict=True):
        for view in range(2):
            parts = [shard.images.chunk(2)[view] for shard in shards]
            assert torch.equal(torch.cat(parts), whole.images.chunk(2)[view])
        assert sum(shard.sample_weight * len(shard.rows) for shard in shards) / world == pytest.approx(1)


def test_data_with_two_views_has_the_augmentations_of_simclr():
    for data in (TwoViewsCifar10(), SyntheticTwoViews(like="cifar10")):
        assert data.views == 2
        assert [type(step) for step in data.augment] == [RandomResizedCrop, Flip, ColorJitter, Grayscale]
        assert not data.alternate_flip
