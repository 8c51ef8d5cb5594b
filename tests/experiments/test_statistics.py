"""Means, intervals and paired differences against SciPy and values by hand."""

import doctest
import math

import pytest
from scipy import stats

from opl.experiments import statistics
from opl.experiments.statistics import Interval, interval, paired_difference, verdict, wilson


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


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(statistics) == (0, 5)


def test_the_interval_is_wilsons():
    for hits, total in ((0, 20), (3, 20), (50, 200), (200, 200)):
        expected = stats.binomtest(hits, total).proportion_ci(method="wilson")
        assert wilson(hits, total) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 1000)[0] == 0.0
    assert wilson(1000, 1000)[1] == 1.0
