"""Means with confidence intervals over seeds, and what the paired differences of a table show together."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev
from typing import NamedTuple

LEVEL = 0.95
FLIPS_FROM = 6  # pairs: with fewer, flipping signs cannot give a p-value below 0.05
EXACT_UP_TO = 16  # pairs: with more, flips are drawn at random
GAIN = "a gain"


class Interval(NamedTuple):
    """A mean and the half-width of its 95% confidence interval (t distribution); NaN for fewer than two values."""

    mean: float
    half: float
    size: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Compute the mean and confidence interval of independent values.

    Example:
        >>> mean, half, count = interval([1.0, 2.0, 3.0])
        >>> round(mean, 3), round(half, 3), count
        (2.0, 2.484, 3)
    """
    count = len(values)
    if count < 2:
        return Interval(fmean(values) if values else math.nan, math.nan, count)
    return Interval(fmean(values), _quantile(level, count - 1) * stdev(values) / math.sqrt(count), count)


@cache
def _quantile(level: float, degrees: int) -> float:
    """How many standard errors a two-sided interval reaches; kept, since SciPy takes longer than all the rest."""
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, degrees))


def wilson(hits: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """Compute Wilson's confidence interval of a proportion: `hits` out of `total` independent trials, from 0 to 1.

    Unlike `proportion ± 2 std`, it stays inside [0, 1] and keeps its level for few trials and for proportions near 0.

    Example:
        >>> low, high = wilson(50, 200)
        >>> round(low, 3), round(high, 3)
        (0.195, 0.314)
    """
    if total < 1:
        return 0.0, 1.0
    from scipy.stats import binomtest

    found = binomtest(hits, total).proportion_ci(level, method="wilson")
    return float(found.low), float(found.high)


def p_value(difference: Interval) -> float:
    """Compute the two-sided p-value of the t-test that an interval belongs to; NaN for fewer than two values.

    Example:
        >>> round(p_value(interval([1.0, 2.0, 3.0])), 4)
        0.0742
    """
    if math.isnan(difference.half):
        return math.nan
    if difference.half == 0:
        return 0.0 if difference.mean else 1.0
    from scipy.stats import t

    degrees = difference.size - 1
    return float(2 * t.sf(abs(difference.mean) / difference.half * _quantile(LEVEL, degrees), degrees))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for the number of comparisons by Holm's step-down method; NaN stays NaN and is not counted.

    Written here because SciPy has no Holm adjustment.

    Example:
        >>> holm([0.01, math.nan, 0.04, 0.03])
        [0.03, nan, 0.06, 0.06]
    """
    order = sorted((place for place, value in enumerate(p_values) if not math.isnan(value)), key=p_values.__getitem__)
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def sign_flip(differences: Sequence[float]) -> float:
    """Compute the two-sided p-value of a paired sign-flip test, which assumes no distribution.

    It is exact up to 16 pairs. Below `FLIPS_FROM` pairs the smallest possible value is above 0.05: NaN is returned.
    The exact one is written here: SciPy's goes through the same signs in Python, 100 times slower.

    Example:
        >>> sign_flip([1.0, 2.0, 1.5, 0.5, 1.0, 3.0])
        0.03125
    """
    if len(differences) < FLIPS_FROM:
        return math.nan
    import numpy as np

    values = np.asarray(differences, dtype=float)
    if len(values) <= EXACT_UP_TO:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        rounding = 1e-12 * np.abs(values).sum()
        return min(1.0, 2 * float(np.mean(sums >= abs(values.sum()) - rounding)))
    from scipy.stats import permutation_test

    generator = np.random.default_rng(0)
    found = permutation_test((values,), np.mean, permutation_type="samples", n_resamples=2**16, rng=generator)
    return float(found.pvalue)


class Decision(NamedTuple):
    """What a paired difference shows, given all comparisons of its table."""

    p: float
    """Two-sided p-value of the paired t-test."""
    adjusted: float
    """The same after Holm's adjustment for all comparisons of the table."""
    comparisons: int
    """Number of comparisons in the table."""
    flips: float
    """p-value of the sign-flip test; NaN below `FLIPS_FROM` seeds."""
    verdict: str
    """`a gain` or `a loss` after the adjustment, otherwise `undecided` or `too few seeds to tell`."""


def decide(differences: Sequence[Interval], pairs: Sequence[Sequence[float]]) -> list[Decision]:
    """Decide several comparisons together.

    Args:
        differences: the paired difference of each comparison.
        pairs: its differences seed by seed, or an empty sequence where they are not known.

    Example:
        >>> one, two = decide([interval([1.0, 1.1, 0.9]), interval([1.0, 2.0, 3.0])], [(), ()])
        >>> one.verdict, two.verdict
        ('a gain', 'undecided')
    """
    values = [p_value(difference) for difference in differences]
    count = sum(not math.isnan(value) for value in values)
    return [
        Decision(value, adjusted, count, sign_flip(own), _verdict(difference.mean, adjusted))
        for difference, own, value, adjusted in zip(differences, pairs, values, holm(values), strict=True)
    ]


def _verdict(mean: float, adjusted: float) -> str:
    if math.isnan(adjusted):
        return "too few seeds to tell"
    if adjusted >= 1 - LEVEL:
        return "undecided"
    return GAIN if mean > 0 else "a loss"
