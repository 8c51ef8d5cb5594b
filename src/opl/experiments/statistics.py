"""Means with confidence intervals over seeds, and what the paired differences of a table show together."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev
from typing import NamedTuple

LEVEL = 0.95
FLIPS_FROM = 6  # pairs: with fewer, flipping signs cannot give a p-value below 0.05
EXACT_UP_TO = 16  # pairs: with more, flips are drawn at random
ENOUGH = 5  # seeds: with fewer, pictures show every seed and no interval
GAIN, LOSS, UNDECIDED, TOO_FEW = "a gain", "a loss", "undecided", "too few seeds to tell"
EQUIVALENT = "equivalent within ±{:g}"


class Range(NamedTuple):
    """The values that a quantity can have, and how small a difference in it counts as none."""

    lowest: float = -math.inf
    highest: float = math.inf
    margin: float = math.nan
    """Two values are equivalent if they differ by less; NaN if nothing is claimed to be equivalent."""

    @property
    def of_differences(self) -> "Range":
        """The range of the difference of two such values."""
        width = self.highest - self.lowest
        return Range(-width, width, self.margin)


ANY = Range()


class Interval(NamedTuple):
    """A mean and the half-width of its 95% confidence interval (t distribution); NaN for fewer than two values."""

    mean: float
    half: float
    size: int
    within: Range = ANY
    """What is possible: the ends of the interval never lie outside."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return max(self.mean - self.half, min(self.within.lowest, self.mean))

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return min(self.mean + self.half, max(self.within.highest, self.mean))

    @property
    def clipped(self) -> bool:
        """Whether the interval would reach beyond what is possible."""
        return self.low > self.mean - self.half or self.high < self.mean + self.half


def interval(values: Sequence[float], level: float = LEVEL, within: Range = ANY) -> Interval:
    """Compute the mean and confidence interval of independent values.

    Args:
        values: one for each seed.
        level: how often such an interval contains the true mean.
        within: the values that are possible.

    Example:
        >>> found = interval([1.0, 2.0, 3.0])
        >>> round(found.mean, 3), round(found.half, 3), found.size
        (2.0, 2.484, 3)
    """
    count = len(values)
    if count < 2:
        return Interval(fmean(values) if values else math.nan, math.nan, count, within)
    return Interval(fmean(values), _quantile(level, count - 1) * stdev(values) / math.sqrt(count), count, within)


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

    Values that are all equal say nothing about their spread, so theirs is that of the sign test.

    Example:
        >>> round(p_value(interval([1.0, 2.0, 3.0])), 4)
        0.0742
    """
    if math.isnan(difference.half):
        return math.nan
    if difference.half == 0:
        return 2 * 0.5**difference.size if difference.mean else 1.0
    from scipy.stats import t

    degrees = difference.size - 1
    return float(2 * t.sf(abs(difference.mean) / difference.half * _quantile(LEVEL, degrees), degrees))


def equivalence_p_value(difference: Interval) -> float:
    """Compute the p-value of two one-sided t-tests: that the true difference is not within ± the margin.

    It is below 0.05 exactly where the 90 % interval lies inside ± the margin. NaN without an interval or a margin.
    Equal values inside the margin get the p-value of a one-sided sign test.

    Example:
        >>> round(equivalence_p_value(interval([0.1, 0.0, 0.2, 0.1], within=Range(margin=0.5))), 4)
        0.0011
    """
    margin, degrees = difference.within.margin, difference.size - 1
    if math.isnan(difference.half) or math.isnan(margin):
        return math.nan
    room = margin - abs(difference.mean)
    if difference.half == 0:
        return 0.5**difference.size if room > 0 else 1.0
    from scipy.stats import t

    return float(t.sf(room / difference.half * _quantile(LEVEL, degrees), degrees))


def sign_test(wins: int, losses: int) -> float:
    """Compute the two-sided p-value of the exact sign test; 1 if there is neither a win nor a loss.

    Example:
        >>> sign_test(9, 1), sign_test(0, 0)
        (0.021484375, 1.0)
    """
    if wins + losses == 0:
        return 1.0
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue)


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
    """`a gain` or `a loss`, otherwise `equivalent within ±x`, `undecided` or `too few seeds to tell`."""
    equivalence: float = math.nan
    """p-value of the two one-sided tests, after the same adjustment; NaN without a margin."""

    @property
    def equivalent(self) -> bool:
        """Whether the verdict is that there is no difference above the margin."""
        return self.verdict.startswith(EQUIVALENT.split("±")[0])


def decide(differences: Sequence[Interval], pairs: Sequence[Sequence[float]]) -> list[Decision]:
    """Decide several comparisons together: first whether there is a difference, then whether there is none.

    Args:
        differences: the paired difference of each comparison; `within` has its margin of equivalence.
        pairs: its differences seed by seed, or an empty sequence where they are not known.

    Example:
        >>> one, two = decide([interval([1.0, 1.1, 0.9]), interval([1.0, 2.0, 3.0])], [(), ()])
        >>> one.verdict, two.verdict
        ('a gain', 'undecided')
        >>> [alike] = decide([interval([0.1, 0.0, 0.2], within=Range(margin=0.5))], [()])
        >>> alike.verdict
        'equivalent within ±0.5'
    """
    values = [p_value(difference) for difference in differences]
    alike = holm([equivalence_p_value(difference) for difference in differences])
    count = sum(not math.isnan(value) for value in values)
    return [
        Decision(value, adjusted, count, sign_flip(own), _verdict(difference, adjusted, same), same)
        for difference, own, value, adjusted, same in zip(differences, pairs, values, holm(values), alike, strict=True)
    ]


def _verdict(difference: Interval, adjusted: float, alike: float) -> str:
    if math.isnan(adjusted):
        return TOO_FEW
    if adjusted < 1 - LEVEL:
        return GAIN if difference.mean > 0 else LOSS
    return EQUIVALENT.format(difference.within.margin) if alike < 1 - LEVEL else UNDECIDED
