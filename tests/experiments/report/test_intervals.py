"""The intervals drawn beside the tables of the page."""

import math

from opl.experiments.report.intervals import DifferenceAxis
from opl.experiments.statistics import Interval


def test_the_accent_is_for_gains():
    axis = DifferenceAxis.over([Interval(2.0, 0.5, 3), Interval(0.5, 1.0, 3), Interval(math.nan, math.nan, 0)])
    assert (axis.low, axis.high) == (-0.5, 2.5)
    assert 'class="whisker gain"' in axis.draw(Interval(2.0, 0.5, 3), gain=True)
    assert 'class="whisker"' in axis.draw(Interval(0.5, 1.0, 3), gain=False)
    assert axis.draw(Interval(1.0, math.nan, 1), gain=False).count("<line") == 1  # zero alone: one seed has no interval
    assert DifferenceAxis.over([Interval(math.nan, math.nan, 0)]) is None
