"""Intervals, tests and adjustments vs SciPy, and vs their definitions by brute force."""

import math
from itertools import combinations, product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from opl.experiments.statistics import FLIPS_FROM, decide, holm, interval, p_value, sign_flip, wilson

VALUES = st.floats(-100, 100).map(lambda value: round(value, 3))
SAMPLES = st.lists(VALUES, min_size=2, max_size=12)
WHOLE = st.lists(st.integers(-20, 20).map(float), min_size=FLIPS_FROM, max_size=9)
P = st.one_of(st.floats(0, 1), st.floats(0, 0.05), st.just(math.nan))


@given(SAMPLES)
def test_the_interval_is_scipys(values):
    assume(len(set(values)) > 1)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=sum(values) / len(values), scale=stats.sem(values))
    found = interval(values)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-7, abs=1e-9)
    assert found.size == len(values)


@given(SAMPLES)
def test_the_p_value_is_that_of_scipys_t_test(values):
    assume(len(set(values)) > 1)
    assert p_value(interval(values)) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-6, abs=1e-12)


@given(SAMPLES, st.permutations(range(12)), st.floats(-50, 50), st.floats(0.01, 100))
def test_intervals_move_and_stretch_with_their_values_in_any_order(values, order, shift, factor):
    before = interval(values)
    moved = interval([factor * values[place] + shift for place in order if place < len(values)])
    assert moved.mean == pytest.approx(factor * before.mean + shift, rel=1e-7, abs=1e-7)
    assert moved.half == pytest.approx(factor * before.half, rel=1e-6, abs=1e-6)


@given(st.lists(P, max_size=7))
def test_holm_is_the_closed_test_of_bonferroni(values):
    """A hypothesis is rejected at a level if every set of hypotheses with it in is, by its least p times its size."""
    real = [place for place, value in enumerate(values) if not math.isnan(value)]
    sets = [each for size in range(1, len(real) + 1) for each in combinations(real, size)]
    for place, found in enumerate(holm(values)):
        if math.isnan(values[place]):
            assert math.isnan(found)
            continue
        tests = [min(1.0, len(each) * min(values[one] for one in each)) for each in sets if place in each]
        assert found == pytest.approx(max(tests), rel=1e-12)


@given(st.lists(P, max_size=9), st.randoms())
def test_holm_does_not_depend_on_the_order_of_the_rows(values, chance):
    order = chance.sample(range(len(values)), len(values))
    found = holm([values[place] for place in order])
    assert found == pytest.approx([holm(values)[place] for place in order], nan_ok=True)


@given(WHOLE)
def test_flipped_signs_are_counted_one_by_one(values):
    """Whole numbers, so that sums that are equal are equal."""
    total = abs(sum(values))
    sums = [sum(map(math.prod, zip(signs, values, strict=True))) for signs in product((1, -1), repeat=len(values))]
    above, below = (sum(sign * each >= total for each in sums) / len(sums) for sign in (1, -1))
    assert sign_flip(values) == pytest.approx(min(1.0, above + below))


@given(WHOLE, st.randoms(), st.sampled_from([-8.0, -1.0, 0.25, 2.0]))
def test_flipped_signs_do_not_depend_on_order_unit_or_direction(values, chance, factor):
    moved = [factor * value for value in chance.sample(values, len(values))]
    assert sign_flip(moved) == pytest.approx(sign_flip(values))


@given(st.integers(1, 3000), st.floats(0, 1))
def test_the_ends_of_wilsons_interval_solve_its_equation(total, share):
    """The share lies z standard errors of p away from both ends p."""
    hits = round(share * total)
    low, high = wilson(hits, total)
    assert 0 <= low <= hits / total <= high <= 1
    z = stats.norm.ppf(0.975)
    for end in (low, high):
        assert abs(hits / total - end) == pytest.approx(z * math.sqrt(end * (1 - end) / total), abs=1e-7)


@given(st.lists(st.lists(VALUES, max_size=8), max_size=6), st.randoms())
def test_a_comparison_does_not_depend_on_its_position_in_the_table(samples, chance):
    order = chance.sample(range(len(samples)), len(samples))
    pairs = [samples[place] for place in order]
    before = decide([interval(each) for each in samples], samples)
    after = decide([interval(each) for each in pairs], pairs)
    for place, found in zip(order, after, strict=True):
        assert found.verdict == before[place].verdict
        assert found[:4] == pytest.approx(before[place][:4], nan_ok=True)


@given(st.lists(SAMPLES, min_size=1, max_size=6), st.sampled_from([-1.0, 1.0]))
def test_a_gain_is_an_adjusted_p_below_a_twentieth_in_the_direction_of_the_mean(samples, sign):
    samples = [[sign * value for value in each] for each in samples]
    differences = [interval(each) for each in samples]
    for difference, found in zip(differences, decide(differences, samples), strict=True):
        assert found.adjusted >= found.p - 1e-15
        assert (found.verdict in ("a gain", "a loss")) == (found.adjusted < 0.05)
        if found.verdict != "undecided":
            assert (found.verdict == "a gain") == (difference.mean > 0)
            assert difference.low > -1e-12 or difference.high < 1e-12
