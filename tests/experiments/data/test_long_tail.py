"""Long-tailed data: the published counts of CIFAR-100-LT, the same images in all runs, validation and test balanced."""

import itertools
import os
from pathlib import Path

import pytest
import torch

from opl.experiments.data import LongTailedCifar100, SyntheticLongTail
from opl.experiments.data.small_images import long_tail_counts
from opl.experiments.data.split import keep_counts


def test_counts_are_those_of_cifar_100_lt():
    counts = long_tail_counts(100, largest=500, imbalance=100)
    assert sum(counts) == 10_847  # the published size of the data set
    assert counts[0] == 500
    assert counts[-1] == 5
    groups = [sum(count > 100 for count in counts), sum(count < 20 for count in counts)]
    assert groups == [35, 30]  # the published many and few; 35 are between
    ratios = [after / before for before, after in itertools.pairwise(counts)]
    assert max(ratios) <= 1
    assert long_tail_counts(10, largest=40, imbalance=1) == [40] * 10


def test_no_class_keeps_more_than_it_has_and_other_seeds_keep_other_images():
    labels = torch.tensor([0, 1] * 10 + [2] * 3)
    rows = keep_counts(labels, [4, 0, 9], seed=1)
    assert labels[rows].bincount().tolist() == [4, 0, 3]
    assert torch.equal(rows, rows.sort().values)
    assert torch.equal(rows, keep_counts(labels, [4, 0, 9], seed=1))
    assert not torch.equal(rows, keep_counts(labels, [4, 0, 9], seed=2))


def counts_of(part, classes):
    return part.labels[part.rows].bincount(minlength=classes).tolist()


def test_training_images_have_the_tail_and_the_other_parts_are_balanced():
    data = SyntheticLongTail(like="cifar100", classes=10, rows=1500, val=40, test=50, largest=120)
    splits = data.load(0)
    assert counts_of(splits.train, 10) == long_tail_counts(10, 120, 100)
    assert counts_of(splits.val, 10) == [4] * 10
    assert counts_of(splits.test, 10) == [5] * 10
    assert torch.equal(splits.train.rows, data.load(7).train.rows)


@pytest.mark.slow
def test_cifar_100_lt_of_the_real_images():
    root = os.environ.get("OPL_DATA", "")
    if not root or not Path(root, "cifar100").is_dir():
        pytest.skip("OPL_DATA names no folder with 'cifar100'")
    splits = LongTailedCifar100(val=1000).load(0)
    counts = counts_of(splits.train, 100)
    assert counts == [min(490, count) for count in long_tail_counts(100, 500, 100)]
    assert sum(counts) == 10_837  # validation leaves 490 images per class, so the first class lacks 10
    assert counts_of(splits.val, 100) == [10] * 100
    assert counts_of(splits.test, 100) == [100] * 100
    assert not set(splits.train.rows.tolist()) & set(splits.val.rows.tolist())
