"""Batches: every row once per epoch, for any number of processes; by domain, mirrored, in views, and growing."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from opl.errors import OptionError
from opl.experiments.data import (
    Batches,
    ColorJitter,
    FastCifar10,
    FastCifar100,
    Flip,
    Grayscale,
    PadCrop,
    RandomResizedCrop,
    SyntheticTwoViews,
    TwoViewsCifar10,
)
from opl.experiments.data.augment import ReflectCrop
from opl.experiments.data.batches import append_mirror_images, balanced_order
from opl.experiments.types import Images

STEPS = (PadCrop(2), Flip(), ColorJitter())


def part(count: int = 53, size: int = 8) -> Images:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (count + 5, 3, size, size), dtype=torch.uint8, generator=generator)
    return Images(pixels, torch.arange(count + 5) % 7, torch.arange(count + 4, 4, -1))


def with_domains(sizes=(20, 5, 9)) -> Images:
    images = part(sum(sizes) - 5)
    domains = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    return replace(images, rows=torch.arange(sum(sizes)).flip(0), domains=domains)


def batches(images: Images, size: int = 8, **options) -> Batches:
    given = {"seed": 0, "augment": STEPS, "mean": (0.5,) * 3, "std": (0.3,) * 3, "device": "cpu"}
    return Batches(images, size, **{**given, **options})


def plain(images: Images, size: int = 8, **options) -> Batches:
    """Batches of images in [0, 1] that are neither augmented nor normalized."""
    return batches(images, size, **{"augment": (), "mean": (0.0,) * 3, "std": (1.0,) * 3, **options})


def test_an_epoch_has_every_row_once_with_its_label():
    images = part()
    served = list(batches(images).epoch(0))
    assert [len(batch.rows) for batch in served] == [8] * 6 + [5]
    assert len(served) == batches(images).steps
    rows = torch.cat([batch.rows for batch in served])
    assert torch.equal(rows.sort().values, torch.arange(53))
    assert torch.equal(torch.cat([batch.labels for batch in served]), images.labels[images.rows[rows]])


def test_epochs_and_seeds_differ_and_calls_do_not():
    images = part()
    first, again = (list(batches(images).epoch(3)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.rows, other.rows)
    orders = [next(batches(images, 53, seed=seed).epoch(epoch)).rows for seed, epoch in ((0, 3), (0, 4), (1, 3))]
    assert not any(torch.equal(orders[i], orders[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


VARIANTS = {
    "usual": {},
    "balanced": {"balance_domains": True},
    "views": {"views": 2},
    "fast": {"alternate_flip": True, "growing_sizes": ((0.5, 6),), "epochs": 2, "augment": (ReflectCrop(2),)},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_epoch_resumed_in_the_middle_yields_the_same_batches(variant):
    images, options = with_domains(), VARIANTS[variant]
    whole, rest = list(batches(images, **options).epoch(2)), list(batches(images, **options).epoch(2, start_step=3))
    assert len(rest) == len(whole) - 3
    for one, other in zip(whole[3:], rest, strict=True):
        assert all(torch.equal(one[k], other[k]) for k in range(3))
        assert one.sample_weight == other.sample_weight


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("world", [2, 3, 7])
def test_the_shards_of_all_processes_are_the_batch_of_a_single_process(variant, world):
    images, options, views = with_domains(), VARIANTS[variant], VARIANTS[variant].get("views", 1)
    alone = batches(images, **options).epoch(1)
    shared = zip(*(batches(images, rank=rank, world=world, **options).epoch(1) for rank in range(world)), strict=True)
    for whole, shares in zip(alone, shared, strict=True):
        sizes = [len(share.rows) for share in shares]
        assert max(sizes) - min(sizes) <= views
        for k in range(3):
            of_views = [[share[k].chunk(views)[view] for share in shares if len(share.rows)] for view in range(views)]
            assert torch.equal(torch.cat([shard for shards in of_views for shard in shards]), whole[k])
        averaged = sum(float(share.rows.sum()) * share.sample_weight for share in shares) / world
        assert averaged == pytest.approx(float(whole.rows.float().mean()))


def test_plain_batches_are_in_order_and_only_normalized_and_shared_without_gaps():
    images = part()
    served = list(batches(images).plain(10))
    assert torch.equal(torch.cat([batch.rows for batch in served]), torch.arange(53))
    expected = (images.pixels[images.rows].float() / 255 - 0.5) / 0.3
    torch.testing.assert_close(torch.cat([batch.images for batch in served]), expected)
    shared = [batch.rows for rank in range(3) for batch in batches(images, rank=rank, world=3).plain(10)]
    assert torch.equal(torch.cat(shared), torch.arange(53))


def test_images_have_the_given_memory_layout():
    images = part()
    assert next(batches(images).epoch(0)).images.is_contiguous(memory_format=torch.channels_last)
    assert next(batches(images, channels_last=False).epoch(0)).images.is_contiguous()


def test_an_empty_part_has_no_batches():
    empty = replace(part(), rows=torch.zeros(0, dtype=torch.long))
    assert list(batches(empty).epoch(0)) == list(batches(empty).plain(4)) == []


def test_an_incomplete_last_batch_can_be_dropped_unless_it_is_the_only_one():
    images = part()
    kept, dropped = batches(images), batches(images, drop_last=True)
    assert (kept.steps, dropped.steps) == (7, 6)
    for one, two in zip(list(kept.epoch(0))[:6], dropped.epoch(0), strict=True):
        assert torch.equal(one.images, two.images)
    assert batches(part(48), drop_last=True).steps == batches(part(48)).steps == 6
    assert [len(batch.rows) for batch in batches(part(5), drop_last=True).epoch(0)] == [5]


# Domains and mirror images


@pytest.mark.parametrize("size", [6, 7, 4])
def test_balanced_batches_have_as_many_of_each_domain(size):
    images = with_domains()
    seen = Counter()
    data = batches(images, size, balance_domains=True)
    for batch in data.epoch(0):
        counts = torch.bincount(images.domains[images.rows[batch.rows]], minlength=3)
        assert counts.max() - counts.min() <= 1
        assert torch.equal(batch.labels, images.labels[images.rows[batch.rows]])
        seen.update(batch.rows.tolist())
    assert data.steps == -(-34 // size)
    assert sum(seen.values()) == 34
    by_domain = [[seen[row] for row in range(34) if images.domains[images.rows[row]] == domain] for domain in range(3)]
    assert all(max(counts) - min(counts) <= 1 for counts in by_domain)  # no image twice before every image once
    assert [sum(counts) for counts in by_domain] == [12, 11, 11]


def test_the_balanced_order_depends_on_seed_and_epoch_and_needs_domains():
    images = with_domains()
    orders = {
        tuple(torch.cat([b.rows for b in batches(images, seed=seed, balance_domains=True).epoch(epoch)]).tolist())
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 4
    assert sorted(balanced_order(torch.full((5,), 2), torch.Generator().manual_seed(0)).tolist()) == [0, 1, 2, 3, 4]
    bare = replace(images, domains=None)
    with pytest.raises(OptionError, match="no domains to balance"):
        batches(bare, balance_domains=True)
    for with_them, without in zip(batches(images).epoch(0), batches(bare).epoch(0), strict=True):
        assert torch.equal(with_them.rows, without.rows)  # drawn from all domains together


@pytest.mark.parametrize("world", [1, 4])
def test_a_mirrored_batch_is_followed_by_its_mirror_images_and_weighs_the_same(world):
    images, options = with_domains(), {"rank": world - 1, "world": world, "balance_domains": True}
    mirrored = plain(images, mirror_batches=True, **options)
    for batch, once in zip(mirrored.epoch(0), plain(images, **options).epoch(0), strict=True):
        count = len(once.labels)
        assert torch.equal(batch.images[:count], once.images)
        np.testing.assert_array_equal(batch.images[count:].numpy(), once.images.numpy()[..., ::-1])
        assert batch.labels.tolist() == once.labels.tolist() * 2
        assert batch.rows.tolist() == once.rows.tolist() * 2
        assert batch.sample_weight == pytest.approx(once.sample_weight / 2)
    images = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert append_mirror_images(once._replace(images=images)).images.is_contiguous(memory_format=torch.channels_last)
    assert len(next(batches(part(), mirror_batches=True).plain(5)).labels) == 5  # never at test


# Two views


def test_a_batch_with_two_views_has_every_image_twice_with_its_label_and_row():
    for twice, once in zip(batches(part(), views=2).epoch(1), batches(part()).epoch(1), strict=True):
        count = len(once.rows)
        assert torch.equal(twice.rows, once.rows.repeat(2))
        assert torch.equal(twice.labels, once.labels.repeat(2))
        assert twice.sample_weight == pytest.approx(once.sample_weight / 2)
        assert torch.equal(twice.images[:count], once.images)  # the first view is that of ordinary batches


def test_the_views_differ_only_in_their_augmentation():
    images = part(23)
    batch = next(plain(images, 23, views=2, augment=(Flip(0.5),)).epoch(0))
    first, second = batch.images.chunk(2)
    expected = images.pixels[images.rows[batch.rows[:23]]] / 255
    for row, image in zip([*first, *second], [*expected, *expected], strict=True):
        assert torch.equal(row, image) or torch.equal(row, image.flip(2))
    assert 0 < sum(torch.equal(one, two) for one, two in zip(first, second, strict=True)) < 23


def test_data_with_two_views_has_the_augmentations_of_simclr():
    for data in (TwoViewsCifar10(), SyntheticTwoViews(like="cifar10")):
        assert data.views == 2
        assert [type(step) for step in data.augment] == [RandomResizedCrop, Flip, ColorJitter, Grayscale]
        assert not data.alternate_flip


# Few epochs


def by_row(made, epoch):
    return {int(row): image for batch in made.epoch(epoch) for row, image in zip(batch.rows, batch.images, strict=True)}


def test_every_image_is_flipped_in_every_second_epoch():
    images = part(24)
    pixels = images.pixels[images.rows] / 255
    epochs = [by_row(plain(images, alternate_flip=True), epoch) for epoch in range(3)]
    flipped = {row: torch.equal(image, pixels[row].flip(2)) for row, image in epochs[0].items()}
    assert 0 < sum(flipped.values()) < 24
    for row, first in flipped.items():
        for epoch, seen in enumerate(epochs):
            assert torch.equal(seen[row], pixels[row].flip(2) if first == (epoch % 2 == 0) else pixels[row])


def test_images_grow_during_training_by_an_antialiased_reduction():
    images = part(24, size=12)
    made = plain(images, growing_sizes=((0.25, 6), (0.5, 9)), epochs=4)
    sizes = [[batch.images.shape[2] for batch in made.epoch(epoch)] for epoch in range(4)]
    assert sizes == [[6] * 3, [9] * 3, [12] * 3, [12] * 3]
    row, image = next(iter(by_row(made, 0).items()))
    expected = F.interpolate(images.pixels[images.rows[row]][None] / 255, 6, mode="bilinear", antialias=True)
    torch.testing.assert_close(image, expected[0])


def test_the_fast_data_sets_have_these_settings():
    for data in (FastCifar10(), FastCifar100()):
        assert data.alternate_flip
        assert data.growing_sizes == ((0.15, 20), (0.5, 24))
        assert data.augment == (ReflectCrop(2),)
