"""What the numbers of a run can be, and how small a difference in them counts as none."""

import math

from ..statistics import ANY, Range

PERCENT = Range(0.0, 100.0, margin=0.5)  # half a percentage point
SHARE = Range(0.0, 1.0, margin=0.01)
COSINE = Range(-1.0, 1.0, margin=0.01)
LOSS = Range(0.0, math.inf)
_BY_NAME = {
    "top1": PERCENT,
    "top5": PERCENT,
    "s": COSINE,
    "d": SHARE,
    "class_cosine": COSINE,
    "loss": LOSS,
    "kept": SHARE,
    "kept/clean": SHARE,
    "train/without_positive": SHARE,
}


def range_of(name: str, title: str = "") -> Range:
    """The range of a number by its name in a result or record, or by the percent sign in its title.

    Example:
        >>> range_of("test/d").highest, range_of("episodes/1-shot", "1-shot %").highest, range_of("seconds").lowest
        (1.0, 100.0, -inf)
    """
    if "%" in title:
        return PERCENT
    return _BY_NAME.get(name, _BY_NAME.get(name.rpartition("/")[2], ANY))
