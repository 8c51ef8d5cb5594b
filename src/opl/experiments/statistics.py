"""Means with confidence intervals over seeds, verdicts on the differences of a table, and effects over several tables.

Few seeds say little about the spread of one row, but the rows of a table say something about each other's: `moderate`
shrinks the variance of every row toward the common variance, as limma does (Smyth 2004), and adds degrees of freedom.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LEVEL = 0.95
FLIPS_FROM = 6  # pairs: with fewer, sign flips cannot reach a p-value below 0.05
EXACT_UP_TO = 16  # pairs: with more, flips are drawn at random
MODERATED_FROM = 4  # differences: fewer say too little about how much variances differ
DRAWS = 2000  # resamples of a bootstrap, the same ones every time
MOST_DEGREES = 1e7  # more degrees of freedom count as infinitely many
ROUNDING = 1e-9  # relative to the largest value: a smaller spread is rounding error
ENOUGH = 5  # seeds: with fewer, charts show every seed and no interval
FEW_SEEDS = 3  # with fewer, `opl try` lists the value of each seed instead of an interval
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
    """The possible values: the ends of the interval never lie outside."""
    degrees: float = 0.0
    """Degrees of freedom of the spread; 0 for `size - 1`."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the t distribution behind the interval."""
        return self.degrees or self.size - 1

    @property
    def variance(self) -> float:
        """Variance of the values, which follows from the interval."""
        return (self.half / _quantile(self.freedom)) ** 2 * self.size

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
        """Whether an end was clipped to the possible values."""
        return self.low > self.mean - self.half or self.high < self.mean + self.half


def interval(values: Sequence[float], within: Range = ANY) -> Interval:
    """Compute the mean and 95 % confidence interval of independent values; a spread due to rounding counts as 0.

    Args:
        values: one per seed.
        within: the possible values.

    Example:
        >>> mean = interval([1.0, 2.0, 3.0])
        >>> round(mean.mean, 3), round(mean.half, 3), mean.size
        (2.0, 2.484, 3)
    """
    count = len(values)
    if count < 2:
        return Interval(fmean(values) if values else math.nan, math.nan, count, within)
    spread = stdev(values)
    if spread <= ROUNDING * max(map(abs, values)):
        spread = 0.0
    return Interval(fmean(values), _quantile(count - 1) * spread / math.sqrt(count), count, within)


@cache
def _quantile(degrees: float) -> float:
    """Return the number of standard errors from a mean to an end of its interval; cached, since SciPy is slow."""
    from scipy.stats import t

    return float(t.ppf((1 + LEVEL) / 2, degrees))


def wilson(hits: int, total: int) -> tuple[float, float]:
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

    ends = binomtest(hits, total).proportion_ci(LEVEL, method="wilson")
    return float(ends.low), float(ends.high)


def p_value(difference: Interval) -> float:
    """Compute the two-sided p-value of the t-test that an interval belongs to; NaN for fewer than two values.

    Values that are all equal say nothing about their spread, so they get the p-value of the sign test.

    Example:
        >>> round(p_value(interval([1.0, 2.0, 3.0])), 4)
        0.0742
    """
    if math.isnan(difference.half):
        return math.nan
    if difference.half == 0:
        return 2 * 0.5**difference.size if difference.mean else 1.0
    from scipy.stats import t

    degrees = difference.freedom
    return float(2 * t.sf(abs(difference.mean) / difference.half * _quantile(degrees), degrees))


def equivalence_p_value(difference: Interval) -> float:
    """Compute the p-value of two one-sided t-tests: that the true difference is not within ± the margin.

    It is below 0.05 exactly when the 90 % interval lies inside ± the margin. NaN without an interval or a margin.
    Equal values inside the margin get the p-value of a one-sided sign test.

    Example:
        >>> round(equivalence_p_value(interval([0.1, 0.0, 0.2, 0.1], within=Range(margin=0.5))), 4)
        0.0011
    """
    margin, degrees = difference.within.margin, difference.freedom
    if math.isnan(difference.half) or math.isnan(margin):
        return math.nan
    distance = margin - abs(difference.mean)
    if difference.half == 0:
        return 0.5**difference.size if distance > 0 else 1.0
    from scipy.stats import t

    return float(t.sf(distance / difference.half * _quantile(degrees), degrees))


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
    order = sorted((index for index, value in enumerate(p_values) if not math.isnan(value)), key=p_values.__getitem__)
    adjusted, highest = [math.nan] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def sign_flip(differences: Sequence[float]) -> float:
    """Compute the two-sided p-value of a paired sign-flip test, which assumes no distribution.

    It is exact up to 16 pairs. Below `FLIPS_FROM` pairs the smallest possible value is above 0.05: NaN is returned.
    The exact test is written here because SciPy's loops over the signs in Python, 100 times slower.

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
    test = permutation_test((values,), np.mean, permutation_type="samples", n_resamples=2**16, rng=generator)
    return float(test.pvalue)


class Decision(NamedTuple):
    """The verdict on a paired difference, given all comparisons of its family."""

    p: float
    """Two-sided p-value of the t-test, with the moderated variance if the difference has it."""
    adjusted: float
    """The same after Holm's adjustment for all comparisons of the family."""
    comparisons: int
    """Number of comparisons in the family."""
    flips: float
    """p-value of the sign-flip test; NaN below `FLIPS_FROM` seeds."""
    verdict: str
    """`a gain` or `a loss`, otherwise `equivalent within ±x`, `undecided` or `too few seeds to tell`."""
    equivalence: float = math.nan
    """p-value of the two one-sided tests, after the same adjustment; NaN without a margin."""
    alone: float = math.nan
    """p-value of the t-test with the variance of this difference alone; NaN without its values."""

    @property
    def equivalent(self) -> bool:
        """Whether the verdict is that there is no difference above the margin."""
        return self.verdict.startswith(EQUIVALENT.split("±")[0])


def decide(
    differences: Sequence[Interval], pairs: Sequence[Sequence[float]], families: Sequence[str] = ()
) -> list[Decision]:
    """Decide several comparisons together: test each for a difference, then for equivalence.

    Args:
        differences: the paired difference of each comparison; `within` has its margin of equivalence.
        pairs: its differences seed by seed, or an empty sequence where they are not known.
        families: the family of each comparison, inside which p-values are adjusted; one family if empty.

    Example:
        >>> one, two = decide([interval([1.0, 1.1, 0.9]), interval([1.0, 2.0, 3.0])], [(), ()])
        >>> one.verdict, two.verdict
        ('a gain', 'undecided')
        >>> [alike] = decide([interval([0.1, 0.0, 0.2], within=Range(margin=0.5))], [()])
        >>> alike.verdict
        'equivalent within ±0.5'
    """
    families = families or [""] * len(differences)
    decisions: dict[int, Decision] = {}
    for family in dict.fromkeys(families):
        members = [index for index, name in enumerate(families) if name == family]
        values = [p_value(differences[index]) for index in members]
        equivalences = holm([equivalence_p_value(differences[index]) for index in members])
        count = sum(not math.isnan(value) for value in values)
        for index, value, adjusted, equivalence in zip(members, values, holm(values), equivalences, strict=True):
            verdict = _verdict(differences[index], adjusted, equivalence)
            alone = p_value(interval(pairs[index]))
            flips = sign_flip(pairs[index])
            decisions[index] = Decision(value, adjusted, count, flips, verdict, equivalence, alone)
    return [decisions[index] for index in range(len(differences))]


def _verdict(difference: Interval, adjusted: float, equivalence: float) -> str:
    if math.isnan(adjusted):
        return TOO_FEW
    if adjusted < 1 - LEVEL:
        return GAIN if difference.mean > 0 else LOSS
    return EQUIVALENT.format(difference.within.margin) if equivalence < 1 - LEVEL else UNDECIDED


class Prior(NamedTuple):
    """What the rows of a table say together about the variance of one row."""

    variance: float
    degrees: float
    """The degrees of freedom that it is worth; infinite if the rows do not differ in their variances."""


def fit_prior(variances: Sequence[float], degrees: Sequence[float]) -> Prior:
    """Fit the prior of limma: variances are scaled inverse chi-squared over the rows (Smyth 2004, section 6.2).

    The few rows of a table say little about how much variances differ. The estimate is raised by one standard
    error, so that the family error stays near its level where rows differ in their spread (`benchmarks/power.py`).

    Args:
        variances: one per row.
        degrees: the degrees of freedom of each variance.
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import digamma, polygamma

    observed, freedom = np.asarray(variances, dtype=float), np.asarray(degrees, dtype=float)
    typical = np.median(observed) or np.median(observed[observed > 0])
    observed = np.maximum(observed, 1e-5 * typical)  # a row of equal values has a variance of 0
    logs = np.log(observed) - digamma(freedom / 2) + np.log(freedom / 2)
    spread = float(logs.var(ddof=1))
    excess = spread * (1 + math.sqrt(2 / (len(logs) - 1))) - float(polygamma(1, freedom / 2).mean())
    if excess <= polygamma(1, MOST_DEGREES):
        return Prior(float((freedom * observed).sum() / freedom.sum()), math.inf)
    half = brentq(lambda value: polygamma(1, value) - excess, 1e-6, MOST_DEGREES)
    return Prior(float(np.exp(logs.mean() + digamma(half) - np.log(half))), 2 * half)


def moderate(differences: Sequence[Interval], families: Sequence[str] = ()) -> list[Interval]:
    """Shrink the variance of each difference toward the variances of its group: the same range of values and family.

    A difference without an interval, or in a group below `MODERATED_FROM`, is left unchanged.

    Example:
        >>> plain = [interval([1.0, 1.1, 0.9]), *(interval([0.0, 1.0, spread]) for spread in (2.0, 2.2, 2.4))]
        >>> [round(difference.half, 2) for difference in plain]
        [0.25, 2.48, 2.74, 2.99]
        >>> [round(difference.half, 2) for difference in moderate(plain)]
        [0.36, 1.7, 1.87, 2.04]
    """
    moderated = list(differences)
    groups: dict[tuple[Range, str], list[int]] = {}
    for index, (difference, family) in enumerate(zip(differences, families or [""] * len(differences), strict=True)):
        if not math.isnan(difference.half):
            groups.setdefault((difference.within, family), []).append(index)
    for rows in groups.values():
        if len(rows) >= MODERATED_FROM and any(differences[index].half for index in rows):
            prior = fit_prior([differences[index].variance for index in rows], [differences[i].freedom for i in rows])
            total = sum(differences[index].freedom for index in rows)
            for index in rows:
                moderated[index] = _shrink(differences[index], prior, total)
    return moderated


def _shrink(difference: Interval, prior: Prior, most: float) -> Interval:
    """Return the difference with its posterior variance; its degrees of freedom are at most those of all rows."""
    degrees = min(prior.degrees + difference.freedom, most)
    share = difference.freedom / (prior.degrees + difference.freedom)
    variance = share * difference.variance + (1 - share) * prior.variance
    half = _quantile(degrees) * math.sqrt(variance / difference.size)
    return difference._replace(half=half, degrees=degrees)


def bartlett(samples: Sequence[Sequence[float]]) -> float:
    """Compute the p-value of Bartlett's test that all samples have one variance; NaN for fewer than two that vary."""
    from scipy.stats import bartlett as bartlett_test

    varied = [values for values in samples if len(set(values)) > 1]
    return float(bartlett_test(*varied).pvalue) if len(varied) > 1 else math.nan


def random_effects(effects: Sequence[Interval]) -> Interval:
    """Compute the mean effect over settings that differ, by DerSimonian and Laird; settings are the units.

    The interval uses a t distribution with one degree of freedom less than the number of settings. It covers the mean
    effect over such settings, not the effect in each setting.

    Args:
        effects: one per setting, with their intervals; `moderate` them first: few seeds say little about a variance.
    """
    import numpy as np

    means = np.array([effect.mean for effect in effects])
    if len(effects) < 2:
        return effects[0] if effects else interval([])
    errors = np.array([effect.variance / effect.size for effect in effects])
    weights = 1 / errors
    center = (weights * means).sum() / weights.sum()
    excess = (weights * (means - center) ** 2).sum() - (len(effects) - 1)
    between = max(0.0, excess / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1 / (errors + between)
    half = _quantile(len(effects) - 1) / math.sqrt(weights.sum())
    return Interval(float((weights * means).sum() / weights.sum()), half, len(effects))


def improvement(scores: Sequence[Sequence[float]], baselines: Sequence[Sequence[float]]) -> float:
    """Compute the probability of improvement: how often a run is better than a run of the baseline, over settings.

    Args:
        scores: the numbers of all seeds, for each setting.
        baselines: the same for the baselines.

    Example:
        >>> improvement([[1.0, 3.0]], [[2.0, 2.0]]), improvement([[2.0], [5.0]], [[2.0], [1.0]])
        (0.5, 0.75)
    """
    import numpy as np

    chances = []
    for ours, theirs in zip(scores, baselines, strict=True):
        differences = np.asarray(ours)[:, None] - np.asarray(theirs)[None, :]
        chances.append(float((differences > 0).mean() + (differences == 0).mean() / 2))
    return fmean(chances)


def interquartile_mean(values: Sequence[Sequence[float]]) -> float:
    """Compute the mean of the middle half of all values, which a few extreme settings do not move.

    Example:
        >>> interquartile_mean([[1.0, 2.0, 3.0, 100.0]])
        2.5
    """
    import numpy as np

    ordered = np.sort(np.concatenate(values))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap(statistic: Callable[..., float], *samples: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Compute a percentile interval by a stratified bootstrap: seeds are resampled within each setting.

    Args:
        statistic: a function of the samples, such as `improvement` or `interquartile_mean`.
        samples: the values of all seeds, for each setting.
    """
    import numpy as np

    generator = np.random.default_rng(0)
    drawn = [
        [np.asarray(setting)[generator.integers(len(setting), size=(DRAWS, len(setting)))] for setting in sample]
        for sample in samples
    ]
    values = [statistic(*([setting[draw] for setting in sample] for sample in drawn)) for draw in range(DRAWS)]
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


class Source(NamedTuple):
    """A source of variation in an analysis of variance."""

    squares: float
    """Sum of squares."""
    degrees: int
    p: float
    """p-value of the F-test; NaN for the error."""


def two_way(values: "ArrayLike") -> dict[str, Source]:
    """Compute the two-way analysis of variance of a balanced design.

    Args:
        values: (levels of the first factor, levels of the second, repetitions).

    Returns:
        The sources `first`, `second`, `interaction` and `error`.
    """
    import numpy as np
    from scipy.stats import f

    cells = np.asarray(values, dtype=float)
    rows, columns, repetitions = cells.shape
    center, means = cells.mean(), cells.mean(axis=2)
    first = columns * repetitions * ((means.mean(axis=1) - center) ** 2).sum()
    second = rows * repetitions * ((means.mean(axis=0) - center) ** 2).sum()
    between = repetitions * ((means - center) ** 2).sum()
    error, freedom = ((cells - means[:, :, None]) ** 2).sum(), rows * columns * (repetitions - 1)
    parts = {
        "first": (first, rows - 1),
        "second": (second, columns - 1),
        "interaction": (between - first - second, (rows - 1) * (columns - 1)),
    }
    tested = {
        name: Source(float(squares), degrees, float(f.sf(squares / degrees / (error / freedom), degrees, freedom)))
        for name, (squares, degrees) in parts.items()
    }
    return {**tested, "error": Source(float(error), freedom, math.nan)}
