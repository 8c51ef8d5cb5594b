"""Batches: every row once an epoch, and the same for any number of processes."""

import pytest
import torch

from opl.experiments.data import Batches, ColorJitter, Flip, PadCrop
from opl.experiments.types import Images


def part(count: int = 53, channels: int = 3) -> Images:
    pixels = torch.randint(256, (count + 5, channels, 8, 8), dtype=torch.uint8)
    return Images(pixels, torch.arange(count + 5) % 7, torch.arange(count + 4, 4, -1))


def batches(images: Images, size: int = 8, **options) -> Batches:
    given = {"seed": 0, "augment": (PadCrop(2), Flip(), ColorJitter()), "mean": (0.5,) * 3, "std": (0.3,) * 3}
    return Batches(images, size, **{**given, "device": "cpu", **options})


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


def test_an_epoch_resumed_in_the_middle_yields_the_same_batches():
    images = part()
    whole, rest = list(batches(images).epoch(2)), list(batches(images).epoch(2, start_step=4))
    assert len(rest) == len(whole) - 4
    for one, other in zip(whole[4:], rest, strict=True):
        assert all(torch.equal(one[k], other[k]) for k in range(3))
        assert one.sample_weight == other.sample_weight


@pytest.mark.parametrize("world", [2, 3, 7])
def test_gradients_of_all_shards_equal_a_single_process(world):
    images = part()
    alone = list(batches(images).epoch(1))
    shared = zip(*(batches(images, rank=rank, world=world).epoch(1) for rank in range(world)), strict=True)
    for whole, shares in zip(alone, shared, strict=True):
        sizes = [len(share.rows) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        for k in range(3):
            assert torch.equal(torch.cat([share[k] for share in shares]), whole[k])


@pytest.mark.parametrize("world", [1, 2, 7])
def test_sums_times_each_averaged_over_processes_are_the_mean_of_the_batch(world):
    images = part()
    shared = zip(*(batches(images, rank=rank, world=world).epoch(0) for rank in range(world)), strict=True)
    for shares in shared:
        averaged = sum(float(share.rows.sum()) * share.sample_weight for share in shares) / world
        assert averaged == pytest.approx(float(torch.cat([share.rows for share in shares]).float().mean()))


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
    empty = Images(part().pixels, part().labels, torch.zeros(0, dtype=torch.long))
    assert list(batches(empty).epoch(0)) == list(batches(empty).plain(4)) == []


def test_an_incomplete_last_batch_can_be_dropped_unless_it_is_the_only_one():
    images = part()
    kept, dropped = batches(images), batches(images, drop_last=True)
    assert (kept.steps, dropped.steps) == (7, 6)
    for one, two in zip(list(kept.epoch(0))[:6], dropped.epoch(0), strict=True):
        assert torch.equal(one.images, two.images)
    assert batches(part(48), drop_last=True).steps == batches(part(48)).steps == 6
    assert [len(batch.rows) for batch in batches(part(5), drop_last=True).epoch(0)] == [5]
