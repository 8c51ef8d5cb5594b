"""Numbers, differences and decisions as text."""

import math

from ..statistics import Decision, Interval


def number(value: Interval) -> str:
    """`mean ± half` with 2 decimals, or 3 if |mean| < 2; both ends if what is possible cuts one off; `-` if empty.

    Example:
        >>> from opl.experiments.statistics import Range
        >>> number(Interval(97.5, 0.25, 3)), number(Interval(99.5, 1.0, 3, Range(0, 100)))
        ('97.50 ± 0.25', '99.50 [98.50, 100.00]')
    """
    if value.size == 0:
        return "-"
    digits = 2 if abs(value.mean) >= 2 else 3
    mean = f"{value.mean:.{digits}f}"
    if math.isnan(value.half):
        return mean
    if value.clipped:
        return f"{mean} [{value.low:.{digits}f}, {value.high:.{digits}f}]"
    return f"{mean} ± {value.half:.{digits}f}"


def describe_difference(difference: Interval) -> str:
    """A difference with its sign, and its interval if it has one.

    Example:
        >>> describe_difference(Interval(1.5, 0.25, 3)), describe_difference(Interval(-2.0, math.nan, 1))
        ('+1.50 [+1.25, +1.75]', '-2.00')
    """
    if difference.size == 0:
        return "-"
    ends = "" if math.isnan(difference.half) else f" [{difference.low:+.2f}, {difference.high:+.2f}]"
    return f"{difference.mean:+.2f}{ends}"


def describe_tests(decision: Decision) -> str:
    """The p-values behind a decision; empty if there are none.

    Example:
        >>> describe_tests(Decision(0.029, 0.35, 12, 0.046875, "undecided"))
        'p 0.029, Holm 0.35 of 12, sign flips 0.047'
    """
    if math.isnan(decision.p):
        return ""
    parts = [f"p {_probability(decision.p)}"]
    if decision.comparisons > 1:
        parts.append(f"Holm {_probability(decision.adjusted)} of {decision.comparisons}")
    if decision.equivalent:
        parts.append(f"two one-sided tests {_probability(decision.equivalence)}")
    if not math.isnan(decision.flips):
        parts.append(f"sign flips {_probability(decision.flips)}")
    return ", ".join(parts)


def describe_decision(difference: Interval, decision: Decision) -> str:
    """A difference, what it shows, and the tests behind that.

    Example:
        >>> describe_decision(Interval(1.5, 0.25, 3), Decision(0.0015, 0.0015, 1, math.nan, "a gain"))
        '+1.50 [+1.25, +1.75], a gain (p 0.0015)'
    """
    tests = describe_tests(decision)
    return f"{describe_difference(difference)}, {decision.verdict}" + (f" ({tests})" if tests else "")


def _probability(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"
