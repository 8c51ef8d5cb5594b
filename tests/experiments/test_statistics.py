"""Means, intervals and paired differences against SciPy and values by hand."""

import doctest
import math
import random
from itertools import product
from operator import mul
from statistics import NormalDist

import pytest

from opl.experiments import statistics
from opl.experiments.statistics import (
    Interval,
    Range,
    decide,
    equivalence_p_value,
    holm,
    interval,
    p_value,
    sign_flip,
    sign_test,
    wilson,
)


def test_the_interval_is_scipys():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = [72.1, 73.4, 72.8, 71.9]
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    got = interval(values)
    assert (got.low, got.high) == pytest.approx((low, high))
    test = stats.ttest_rel([1.0, 2.0, 4.0], [0.5, 2.5, 1.0])
    assert test.confidence_interval().low == pytest.approx(interval([0.5, -0.5, 3.0]).low)
    assert test.pvalue == pytest.approx(p_value(interval([0.5, -0.5, 3.0])))


def test_one_value_has_no_interval_and_none_has_no_mean():
    assert math.isnan(interval([3.0]).half)
    assert interval([3.0]).mean == 3
    assert math.isnan(interval([]).mean)


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (Interval(1.0, 0.5, 3), "a gain"),
        (Interval(-1.0, 0.5, 3), "a loss"),
        (Interval(0.2, 0.5, 3), "undecided"),
        (Interval(0.2, math.nan, 1), "too few seeds to tell"),
        (Interval(0.0, 0.0, 3), "undecided"),
        (Interval(0.5, 0.0, 3), "undecided"),
        (Interval(0.5, 0.0, 6), "a gain"),
    ],
)
def test_a_gain_is_claimed_only_above_zero(difference, words):
    [decision] = decide([difference], [()])
    assert decision.verdict == words


def test_a_gain_among_many_comparisons_must_survive_their_number():
    gain, nothing = Interval(1.0, 0.9, 3), Interval(0.1, 1.0, 3)
    [alone] = decide([gain], [()])
    assert alone.verdict == "a gain"
    together = decide([gain, *[nothing] * 11], [()] * 12)
    assert together[0].verdict == "undecided"
    assert together[0].p == alone.p
    assert together[0].adjusted == pytest.approx(12 * alone.p)
    assert together[0].comparisons == 12
    beside_single_seeds = decide([gain, Interval(3.0, math.nan, 1)], [(), ()])
    assert [each.verdict for each in beside_single_seeds] == ["a gain", "too few seeds to tell"]


def test_the_adjustment_rejects_what_holms_steps_reject():
    """Holm's rule by its definition: go up the sorted values and stop at the first above 0.05 / (those left)."""
    chance = random.Random(0)
    for _ in range(200):
        values = [chance.random() ** 4 for _ in range(chance.randrange(1, 9))]
        rejected = set()
        for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
            if values[place] > 0.05 / (len(values) - rank):
                break
            rejected.add(place)
        assert {place for place, value in enumerate(holm(values)) if value <= 0.05} == rejected


def test_flipped_signs_are_counted_one_by_one():
    chance = random.Random(1)
    for size in (6, 7, 10):
        values = [chance.gauss(0.6, 1.0) for _ in range(size)]
        sums = [sum(map(mul, signs, values)) for signs in product((1, -1), repeat=size)]
        extreme = sum(abs(each) >= abs(sum(values)) - 1e-9 for each in sums)
        assert sign_flip(values) == pytest.approx(extreme / 2**size)
    assert math.isnan(sign_flip([1.0] * 5))


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(statistics) == (0, 13)


def test_at_the_ends_of_wilsons_interval_the_share_is_z_standard_errors_away():
    """Wilson's definition: |share - p| = z sqrt(p (1 - p) / n), with p's own standard error."""
    z = NormalDist().inv_cdf(0.975)
    for hits, total in ((0, 20), (3, 20), (50, 200), (200, 200)):
        for end in wilson(hits, total):
            assert abs(hits / total - end) == pytest.approx(z * math.sqrt(end * (1 - end) / total), abs=1e-9)
    assert wilson(3, 20)[0] < 3 / 20 < wilson(3, 20)[1]
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 1000)[0] == 0.0
    assert wilson(1000, 1000)[1] == 1.0


def test_equivalence_is_that_of_two_one_sided_tests_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    chance = random.Random(2)
    for size in (2, 3, 5, 9):
        one = [chance.gauss(70, 1) for _ in range(size)]
        other = [value + chance.gauss(0.1, 0.2) for value in one]
        pairs = [b - a for a, b in zip(one, other, strict=True)]
        difference = interval(pairs, within=Range(margin=0.5))
        above = stats.ttest_rel(other, [value - 0.5 for value in one], alternative="greater").pvalue
        below = stats.ttest_rel(other, [value + 0.5 for value in one], alternative="less").pvalue
        assert equivalence_p_value(difference) == pytest.approx(max(above, below))
        ninety = interval(pairs, level=0.9)
        inside = ninety.low > -0.5 and ninety.high < 0.5
        assert (equivalence_p_value(difference) < 0.05) == inside


def test_equivalence_needs_a_margin_an_interval_and_survives_the_number_of_comparisons():
    margin = Range(margin=0.5)
    alike, vague = Interval(0.1, 0.4, 5, margin), Interval(0.1, 3.0, 5, margin)
    assert decide([alike], [()])[0].verdict == "equivalent within ±0.5"
    assert decide([Interval(0.1, 0.4, 5)], [()])[0].verdict == "undecided"  # without a margin
    assert decide([Interval(0.1, math.nan, 1, margin)], [()])[0].verdict == "too few seeds to tell"
    assert decide([Interval(0.4, 0.1, 5, margin)], [()])[0].verdict == "a gain"  # small, and there
    assert decide([Interval(0.0, 0.0, 5, margin)], [()])[0].verdict == "equivalent within ±0.5"
    together = decide([alike, *[vague] * 9], [()] * 10)
    assert together[0].equivalence == pytest.approx(10 * equivalence_p_value(alike))
    assert {each.verdict for each in together} == {"undecided"}


def test_intervals_end_where_nothing_is_possible():
    accuracy = Range(0, 100)
    near = interval([99.0, 100.0], within=accuracy)
    assert (near.high, near.clipped) == (100, True)
    assert near.low == pytest.approx(99.5 - near.half)
    assert interval([50.0, 51.0], within=accuracy).clipped is False
    assert interval([1.0, 40.0], within=accuracy).low == 0
    assert accuracy.of_differences == Range(-100, 100)._replace(margin=accuracy.of_differences.margin)
    assert math.isnan(interval([99.0], within=accuracy).high)
    assert interval([101.0, 103.0], within=accuracy).high == 102  # the mean is what it is


def test_the_sign_test_counts_all_outcomes():
    for wins, losses in ((31, 24), (5, 0), (3, 3), (0, 7)):
        total = wins + losses
        at_least = sum(math.comb(total, k) for k in range(max(wins, losses), total + 1)) / 2**total
        assert sign_test(wins, losses) == pytest.approx(min(1.0, 2 * at_least))
    assert sign_test(0, 0) == 1


def test_equal_differences_of_few_seeds_decide_nothing():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for count, verdict in ((2, "undecided"), (5, "undecided"), (6, "a gain")):
        [decision] = decide([interval([1.5] * count)], [()])
        assert decision.p == pytest.approx(stats.binomtest(count, count).pvalue)
        assert decision.verdict == verdict
    for count, verdict in ((4, "undecided"), (5, "equivalent within ±0.5")):
        [decision] = decide([interval([0.1] * count, within=Range(margin=0.5))], [()])
        assert decision.verdict == verdict
