"""Validation splits and subsets, by seed and by class."""

import itertools

import pytest
import torch

from opl.errors import OptionError
from opl.experiments.data import SyntheticLongTail
from opl.experiments.data.small_images import long_tail_counts
from opl.experiments.data.split import keep_counts, split, subset


def test_a_split_gives_every_row_to_one_side():
    labels = torch.randint(7, (103,))
    train, val = split(labels, 20, seed=3)
    assert len(val) == 20
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(103))
    again, other = split(labels, 20, seed=3)[1], split(labels, 20, seed=4)[1]
    assert torch.equal(val, again)
    assert not torch.equal(val, other)


def test_a_stratified_split_follows_the_largest_remainders():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 3)[torch.randperm(20)]
    val = split(labels, 9, seed=0, stratified=True)[1]
    assert labels[val].bincount().tolist() == [5, 3, 1]  # 4.5, 3.15, 1.35: the one left over goes to class 0
    even = torch.arange(1000) % 10
    assert even[split(even, 250, seed=1, stratified=True)[1]].bincount().tolist() == [25] * 10


def test_a_split_that_leaves_nothing_is_refused():
    with pytest.raises(OptionError, match="val=5 of 5"):
        split(torch.zeros(5).long(), 5, seed=0)


def test_a_subset_has_the_first_classes_with_the_given_number_of_images():
    labels = torch.arange(600) % 6
    rows = subset(labels, classes=4, per_class=30, seed=2)
    assert labels[rows].bincount().tolist() == [30] * 4
    assert len(rows.unique()) == 120
    assert not torch.equal(rows, subset(labels, classes=4, per_class=30, seed=3))
    assert torch.equal(subset(labels), torch.arange(600))


# Long tail


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


def test_training_images_have_the_tail_and_the_other_parts_are_balanced():
    data = SyntheticLongTail(like="cifar100", classes=10, rows=1500, val=40, test=50, largest=120)
    splits = data.load(0)
    train, val, test = (part.labels[part.rows].bincount(minlength=10).tolist() for part in splits[:3])
    assert train == long_tail_counts(10, 120, 100)
    assert (val, test) == ([4] * 10, [5] * 10)
    assert torch.equal(splits.train.rows, data.load(7).train.rows)
