"""Means, intervals and paired differences against SciPy and values by hand."""

import doctest
import math

import pytest

from opl.experiments import statistics
from opl.experiments.item import Item, Row
from opl.experiments.results import tables
from opl.experiments.statistics import Interval, interval, paired_difference, verdict


def test_the_interval_is_scipys():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = [72.1, 73.4, 72.8, 71.9]
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    got = interval(values)
    assert (got.low, got.high) == pytest.approx((low, high))
    assert stats.ttest_rel([1.0, 2.0, 4.0], [0.5, 2.5, 1.0]).confidence_interval().low == pytest.approx(
        paired_difference({0: 1.0, 1: 2.0, 2: 4.0}, {0: 0.5, 1: 2.5, 2: 1.0}).low
    )


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert math.isnan(interval([3.0]).half)
    assert interval([3.0]).mean == 3
    assert math.isnan(interval([]).mean)


def test_only_seeds_that_both_have_are_compared():
    assert paired_difference({0: 1.0, 5: 2.0}, {5: 1.5, 7: 0.0}) == pytest.approx((0.5, math.nan, 1), nan_ok=True)


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (Interval(1.0, 0.5, 3), "a gain"),
        (Interval(-1.0, 0.5, 3), "a loss"),
        (Interval(0.2, 0.5, 3), "no difference at this scale"),
        (Interval(0.2, math.nan, 1), "too few seeds to tell"),
    ],
)
def test_a_gain_is_claimed_only_above_zero(difference, words):
    assert verdict(difference) == words


def test_the_table_shows_paper_and_ours():
    item = Item("t", "title", "data", {"test/top1": "top-1 %"}, (Row("CE", "ce", {"test/top1": 99.27}),))
    line = tables.Line("CE", "ce", (0, 1), {"test/top1": Interval(98.5, 0.25, 2)}, {}, {"test/top1": 99.27}, {}, "")
    text = tables.markdown(item, [line])
    assert "| CE | 2 | 98.50 ± 0.25 | 99.27 |" in text


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(statistics) == (0, 5)
