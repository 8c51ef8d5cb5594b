"""Means, intervals and paired differences vs SciPy and hand-computed values."""

import doctest
import math
import random
from itertools import product
from operator import mul
from statistics import NormalDist

import numpy as np
import pytest

from opl.experiments import statistics
from opl.experiments.statistics import (
    Interval,
    Range,
    bartlett,
    bootstrap,
    decide,
    equivalence_p_value,
    fit_prior,
    holm,
    improvement,
    interquartile_mean,
    interval,
    moderate,
    p_value,
    random_effects,
    sign_flip,
    sign_test,
    two_way,
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
    ("difference", "verdict"),
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
def test_a_gain_is_claimed_only_above_zero(difference, verdict):
    [decision] = decide([difference], [()])
    assert decision.verdict == verdict


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
    assert [decision.verdict for decision in beside_single_seeds] == ["a gain", "too few seeds to tell"]


def test_adjusted_p_values_reject_the_same_hypotheses_as_holms_steps():
    """Holm's rule by its definition: go up the sorted values and stop at the first above 0.05 / (those left)."""
    chance = random.Random(0)
    for _ in range(200):
        values = [chance.random() ** 4 for _ in range(chance.randrange(1, 9))]
        rejected = set()
        for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
            if values[index] > 0.05 / (len(values) - rank):
                break
            rejected.add(index)
        assert {index for index, value in enumerate(holm(values)) if value <= 0.05} == rejected


def test_sign_flip_p_values_equal_an_enumeration():
    chance = random.Random(1)
    for size in (6, 7, 10):
        values = [chance.gauss(0.6, 1.0) for _ in range(size)]
        sums = [sum(map(mul, signs, values)) for signs in product((1, -1), repeat=size)]
        extreme = sum(abs(total) >= abs(sum(values)) - 1e-9 for total in sums)
        assert sign_flip(values) == pytest.approx(extreme / 2**size)
    assert math.isnan(sign_flip([1.0] * 5))


def test_the_docstrings_examples_are_true():
    assert doctest.testmod(statistics).failed == 0


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
        low, high = stats.t.interval(0.9, size - 1, loc=np.mean(pairs), scale=stats.sem(pairs))
        inside = low > -0.5 and high < 0.5
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
    assert {decision.verdict for decision in together} == {"undecided"}


def test_intervals_are_clipped_to_the_valid_range():
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


# Moderated variances


def moderated_by_hand(variance, degrees, prior_variance, prior_degrees):
    return (prior_degrees * prior_variance + degrees * variance) / (prior_degrees + degrees)


def test_the_prior_is_that_of_the_distribution_the_variances_were_drawn_from():
    """Variances that are scaled inverse chi-squared over rows, as limma assumes, give their own parameters."""
    generator = np.random.default_rng(0)
    true = 4.0 * 6 / generator.chisquare(6, size=20_000)
    observed = true * generator.chisquare(3, size=20_000) / 3
    prior = fit_prior(observed, [3] * len(observed))
    assert prior.variance == pytest.approx(4.0, rel=0.05)
    assert prior.degrees == pytest.approx(6.0, rel=0.1)


def test_equal_variances_are_pooled():
    observed = np.linspace(1.5, 2.5, 12)  # less spread than chance gives with two degrees of freedom
    assert fit_prior(observed, [2] * 12) == (pytest.approx(2.0), math.inf)


def test_a_moderated_interval_has_the_posterior_variance_and_its_degrees_of_freedom():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    generator = np.random.default_rng(2)
    spreads = (0.1, 0.3, 1.0, 3.0, 10.0, 0.2, 5.0)
    plain = [interval((generator.normal(size=4) * spread).tolist()) for spread in spreads]
    prior = fit_prior([difference.variance for difference in plain], [3] * len(plain))
    assert math.isfinite(prior.degrees)
    for before, after in zip(plain, moderate(plain), strict=True):
        variance = moderated_by_hand(before.variance, 3, prior.variance, prior.degrees)
        degrees = min(prior.degrees + 3, 3 * len(plain))
        half = stats.t.ppf(0.975, degrees) * math.sqrt(variance / 4)
        assert (after.mean, after.size, after.degrees) == (before.mean, 4, pytest.approx(degrees))
        assert after.half == pytest.approx(half)
        assert p_value(after) == pytest.approx(2 * stats.t.sf(abs(after.mean) / math.sqrt(variance / 4), degrees))


def test_an_accidentally_small_spread_no_longer_looks_sure():
    """HNC of table 1 had a standard deviation of 0.13, the others of about 2."""
    plain = [interval([-6.5, -6.4, -6.6]), *(interval([0.0, 2.0 + row / 10, 4.1]) for row in range(11))]
    after = moderate(plain)
    assert plain[0].half < 0.3
    assert after[0].half > 1.5
    assert 0.5 < after[0].half / after[1].half < 1


def test_differences_of_other_units_and_single_seeds_are_left_alone():
    alone, one_seed = interval([1.0, 2.0], within=Range(margin=0.01)), interval([3.0])
    others = [interval([1.0, 2.0, 4.0 + row]) for row in range(4)]
    first, second, *rest = moderate([alone, one_seed, *others])
    assert first == alone
    assert all(difference.degrees > 2 for difference in rest)
    assert moderate(others[:3]) == others[:3]
    assert second.mean == 3.0
    assert math.isnan(second.half)


def test_moderated_variances_raise_the_power_at_the_same_family_error():
    """Twelve rows of three seeds: a true effect of 3.6 standard deviations in one row, none in the others."""
    generator = np.random.default_rng(0)
    power, errors = {"plain": 0, "moderated": 0}, {"plain": 0, "moderated": 0}
    for _ in range(200):
        values = generator.normal(size=(12, 3))
        values[0] += 3.6
        plain = [interval(row.tolist()) for row in values]
        for name, differences in (("plain", plain), ("moderated", moderate(plain))):
            adjusted = holm([p_value(difference) for difference in differences])
            power[name] += adjusted[0] < 0.05
            errors[name] += min(adjusted[1:]) < 0.05
    assert power["plain"] < 80
    assert power["moderated"] > 170
    assert errors["moderated"] <= 20


def test_families_are_adjusted_apart():
    differences = [interval([1.0, 1.1, 0.9]), interval([1.0, 2.0, 3.0]), interval([1.0, 1.2, 0.9])]
    together = decide(differences, [(), (), ()])
    apart = decide(differences, [(), (), ()], ["a", "b", "a"])
    assert [decision.comparisons for decision in together] == [3, 3, 3]
    assert [decision.comparisons for decision in apart] == [2, 1, 2]
    assert apart[1].adjusted == apart[1].p


def test_bartletts_test_is_scipys():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rows = [[1.0, 2.0, 4.0], [1.0, 1.1, 0.8, 0.9], [0.0, 9.0, 4.0]]
    assert bartlett(rows) == pytest.approx(stats.bartlett(*rows).pvalue)
    assert math.isnan(bartlett(rows[:1]))


# Effects over settings


def test_random_effects_are_those_of_dersimonian_and_laird_by_hand():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rows = [[1.0, 2.0, 1.5], [3.0, 3.4, 2.9], [-1.0, 0.5, 0.2], [2.0, 2.2, 2.6]]
    means = [sum(row) / 3 for row in rows]
    errors = [np.var(row, ddof=1) / 3 for row in rows]
    weights = [1 / error for error in errors]
    center = sum(map(mul, weights, means)) / sum(weights)
    heterogeneity = sum(weight * (mean - center) ** 2 for weight, mean in zip(weights, means, strict=True))
    scale = sum(weights) - sum(weight**2 for weight in weights) / sum(weights)
    between = max(0.0, (heterogeneity - 3) / scale)
    weights = [1 / (error + between) for error in errors]
    effect = random_effects([interval(row) for row in rows])
    assert effect.mean == pytest.approx(sum(map(mul, weights, means)) / sum(weights))
    assert effect.half == pytest.approx(stats.t.ppf(0.975, 3) / math.sqrt(sum(weights)))
    assert effect.size == 4


def test_improvement_and_interquartile_mean_are_those_of_rliable():
    metrics = pytest.importorskip("rliable.metrics", reason="rliable is not installed")
    generator = np.random.default_rng(3)
    ours, theirs = generator.normal(0.5, 1, size=(5, 7)), generator.normal(0, 1, size=(4, 7))
    ours[0, 0] = theirs[0, 0]  # a tie
    assert improvement(ours.T, theirs.T) == pytest.approx(metrics.probability_of_improvement(ours, theirs))
    assert interquartile_mean(ours.T) == pytest.approx(metrics.aggregate_iqm(ours))


def test_the_stratified_bootstrap_agrees_with_rliable():
    library = pytest.importorskip("rliable.library", reason="rliable is not installed")
    generator = np.random.default_rng(4)
    scores = generator.normal(size=(6, 5))
    _, ends = library.get_interval_estimates(
        {"x": scores},
        lambda runs: np.array([interquartile_mean(runs.T)]),
        reps=2000,
        random_state=np.random.RandomState(0),
    )
    assert bootstrap(interquartile_mean, scores.T) == pytest.approx(tuple(ends["x"][:, 0]), abs=0.08)


def test_the_two_way_analysis_splits_the_sum_of_squares():
    """Effects that are known: the sums of squares of balanced factors, and an error that is the spread in the cells."""
    weights, gammas = np.array([0.0, 1.0, 5.0]), np.array([0.0, 2.0])
    noise = np.array([-0.5, 0.5])
    cells = weights[:, None, None] + gammas[None, :, None] + noise[None, None, :]
    sources = two_way(cells)
    assert sources["first"][:2] == (pytest.approx(4 * ((weights - 2) ** 2).sum()), 2)
    assert sources["second"][:2] == (pytest.approx(6 * 2.0), 1)
    assert sources["interaction"][:2] == (pytest.approx(0.0, abs=1e-9), 2)
    assert sources["error"][:2] == (pytest.approx(12 * 0.25), 6)
    total = ((cells - cells.mean()) ** 2).sum()
    assert sum(source.squares for source in sources.values()) == pytest.approx(total)
    assert sources["first"].p < sources["second"].p < 0.05 < sources["interaction"].p


def test_variances_are_moderated_where_most_rows_have_equal_values():
    equal, spread = interval([0.0, 0.0, 0.0]), interval([0.0, 1.0, 2.0])
    for moderated in moderate([equal, equal, equal, equal, spread]):
        assert math.isfinite(moderated.half)


def test_values_that_differ_by_rounding_alone_have_no_spread():
    differences = [0.1, 0.3 - 0.2, 0.4 - 0.3]
    assert len(set(differences)) > 1  # in the last bits
    assert interval(differences).half == 0
    assert decide([interval(differences)], [()])[0].verdict == "undecided"
