"""Means with confidence intervals over seeds, and paired differences between runs with the same seeds."""

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple


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


def interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Compute the mean and confidence interval of independent values.

    Example:
        >>> mean, half, count = interval([1.0, 2.0, 3.0])
        >>> round(mean, 3), round(half, 3), count
        (2.0, 2.484, 3)
    """
    count = len(values)
    if count < 2:
        return Interval(fmean(values) if values else math.nan, math.nan, count)
    from scipy.stats import t

    return Interval(fmean(values), float(t.ppf((1 + level) / 2, count - 1)) * stdev(values) / math.sqrt(count), count)


def wilson(hits: int, total: int, level: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's confidence interval of a proportion: `hits` out of `total` independent trials, from 0 to 1.

    Unlike `proportion ± 2 std`, it stays inside [0, 1] and keeps its level for few trials and for proportions near 0.

    Example:
        >>> low, high = wilson(50, 200)
        >>> round(low, 3), round(high, 3)
        (0.195, 0.314)
    """
    if total < 1:
        return 0.0, 1.0
    z, share = NormalDist().inv_cdf((1 + level) / 2), hits / total
    middle, spread = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    scale = 1 + z * z / total
    low, high = (middle - spread) / scale, (middle + spread) / scale
    return (low if hits else 0.0), (high if hits < total else 1.0)  # exact limits, which rounding would miss


def paired_difference(ours: dict[int, float], theirs: dict[int, float]) -> Interval:
    """Compute the difference `ours - theirs` over the seeds that both have.

    Example:
        >>> paired_difference({0: 2.0, 1: 3.0}, {0: 1.0, 1: 2.5, 2: 9.0}).mean
        0.75
    """
    return interval([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def verdict(difference: Interval) -> str:
    """Summarize a paired difference in words: a gain only if the whole interval is above zero."""
    if math.isnan(difference.half):
        return "too few seeds to tell"
    if difference.low > 0:
        return "a gain"
    if difference.high < 0:
        return "a loss"
    return "no difference at this scale"
