"""Batches with as many images of each domain, and batches followed by their mirror images."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from opl.errors import OptionError
from opl.experiments.data import Batches
from opl.experiments.data.batches import append_mirror_images, balanced_order
from opl.experiments.types import Images


def synthetic(sizes=(20, 5, 9)) -> Images:
    domains = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    count = len(domains)
    pixels = torch.arange(count, dtype=torch.uint8)[:, None, None, None] + torch.arange(4, dtype=torch.uint8)
    return Images(pixels, domains % 2, torch.arange(count).flip(0), domains)


def batches(part: Images, size: int = 6, **more) -> Batches:
    settings = {"seed": 3, "augment": (), "mean": (0.0,), "std": (1.0,), "device": "cpu", **more}
    return Batches(part, size, **settings)


@pytest.mark.parametrize("size", [6, 7, 4])
def test_balanced_batches_have_as_many_of_each_domain(size):
    part = synthetic()
    seen = Counter()
    data = batches(part, size, balance_domains=True)
    for batch in data.epoch(0):
        counts = torch.bincount(part.domains[part.rows[batch.rows]], minlength=3)
        assert counts.max() - counts.min() <= 1
        assert torch.equal(batch.labels, part.labels[part.rows[batch.rows]])
        seen.update(batch.rows.tolist())
    assert data.steps == -(-34 // size)
    assert sum(seen.values()) == 34
    by_domain = [[seen[row] for row in range(34) if part.domains[part.rows[row]] == domain] for domain in range(3)]
    assert all(max(counts) - min(counts) <= 1 for counts in by_domain)  # nobody twice before everybody once
    assert [sum(counts) for counts in by_domain] == [12, 11, 11]


def test_balanced_order_is_a_function_of_seed_and_epoch_and_shared_out_without_gaps():
    part = synthetic()
    orders = {
        (seed, epoch): tuple(
            torch.cat([b.rows for b in batches(part, seed=seed, balance_domains=True).epoch(epoch)]).tolist()
        )
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert len(set(orders.values())) == 4
    middle = torch.cat([b.rows for b in batches(part, seed=1, balance_domains=True).epoch(1, start_step=2)])
    assert tuple(middle.tolist()) == orders[1, 1][12:]
    shares = [
        batches(part, seed=1, balance_domains=True, mirror_batches=True, rank=rank, world=4).epoch(1)
        for rank in range(4)
    ]
    for step, whole in enumerate(batches(part, seed=1, balance_domains=True).epoch(1)):
        result = [next(share) for share in shares]
        firsts = torch.cat([batch.rows[: len(batch.rows) // 2] for batch in result])
        assert torch.equal(firsts, whole.rows), step
        assert all(batch.sample_weight == pytest.approx(4 / (2 * len(whole.rows))) for batch in result)
    with pytest.raises(OptionError, match="no domains to balance"):
        batches(replace(part, domains=None), balance_domains=True)


def test_the_union_is_drawn_as_without_domains():
    part = synthetic()
    plain = [batch.rows.tolist() for batch in batches(replace(part, domains=None)).epoch(0)]
    assert [batch.rows.tolist() for batch in batches(part).epoch(0)] == plain


def test_a_doubled_batch_is_followed_by_its_mirror_image_and_weighs_the_same():
    part = synthetic()
    for batch, plain in zip(batches(part, mirror_batches=True).epoch(0), batches(part).epoch(0), strict=True):
        count = len(plain.labels)
        assert torch.equal(batch.images[:count], plain.images)
        np.testing.assert_array_equal(batch.images[count:].numpy(), plain.images.numpy()[..., ::-1])
        assert batch.labels.tolist() == plain.labels.tolist() * 2
        assert batch.sample_weight * len(batch.labels) == pytest.approx(plain.sample_weight * count)
    images = torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    assert append_mirror_images(plain._replace(images=images)).images.is_contiguous(memory_format=torch.channels_last)
    assert len(next(batches(part, mirror_batches=True).plain(5)).labels) == 5  # never at test


def test_a_single_domain_is_shuffled():
    assert sorted(balanced_order(torch.full((5,), 2), torch.Generator().manual_seed(0)).tolist()) == [0, 1, 2, 3, 4]
