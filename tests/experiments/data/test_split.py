"""Validation splits and subsets, by seed and by class."""

import pytest
import torch

from opl.errors import OptionError
from opl.experiments.data.split import split, subset


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
