"""Which picture is in which part."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opl.experiments.tryout.parts import divide, remove_copies, remove_small_classes, sample


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.integers(0, 3))
def test_a_made_split_has_every_class_in_every_part_and_near_its_share(labels, seed):
    labels = np.repeat(np.array(labels, np.int32), 3)  # at least three of each class
    parts, said = divide([""] * len(labels), labels, seed)
    for label in np.unique(labels):
        counts = np.bincount(parts[labels == label], minlength=3)
        whole = counts.sum()
        assert counts.min() >= 1
        assert abs(counts[2] - 0.2 * whole) <= 1
        assert abs(counts[1] - 0.1 * whole) <= 1
    assert (divide([""] * len(labels), labels, seed)[0] == parts).all()
    assert f"seed {seed}" in said


@pytest.mark.parametrize(
    ("given_parts", "tested", "moved"),
    [
        (("train", "validation", "test"), "test", 0),
        (("train", "test"), "test", 2),
        (("train", "validation"), "validation", 2),
    ],
)
def test_given_parts_are_kept_and_the_missing_validation_part_is_taken_from_training(given_parts, tested, moved):
    parts = [part for part in given_parts for _ in range(20)]
    labels = np.array([0, 1] * (len(parts) // 2), np.int32)
    found, _ = divide(parts, labels, 0)
    assert {parts[row] for row in np.flatnonzero(found == 2)} == {tested}
    assert np.count_nonzero(found == 2) == 20
    assert np.count_nonzero(found == 0) == 20 - moved


def test_a_training_part_alone_is_split_as_if_it_were_none():
    labels = np.repeat(np.arange(2, dtype=np.int32), 10)
    assert np.bincount(divide(["train"] * 20, labels, 0)[0]).tolist() == [14, 2, 4]


def test_a_class_that_is_only_tested_is_left_out():
    pictures = (
        [(row, "train", "a") for row in range(4)] + [(9, "test", "a")] + [(row, "test", "b") for row in range(5, 8)]
    )
    kept, said = remove_small_classes(pictures)
    assert kept == [0, 1, 2, 3, 9]
    assert said == ["Left out: 1 class without a picture to train on (b)."]


def test_of_three_copies_one_is_kept_and_of_contradicting_ones_none():
    pictures = [
        (0, "", "a", "x"),
        (1, "", "a", "x"),
        (2, "", "a", "x"),
        (3, "", "a", "y"),
        (4, "", "b", "y"),
        (5, "", "b", "z"),
    ]
    kept, said = remove_copies(pictures)
    assert kept == [0, 5]
    assert len(said) == 2


def test_a_sample_keeps_at_least_three_of_a_small_class():
    groups = [("", "large")] * 1000 + [("", "small")] * 4
    rows = sample(groups, 100, 0)
    assert sum(groups[row][1] == "small" for row in rows) == 3
    assert rows == sorted(rows)
    assert sample(groups, 0, 0) == list(range(1004)) == sample(groups, 5000, 0)
