"""The strips of measures: one dot per seed around 0, colored by the good direction."""

import re

import pytest

from opl.experiments.charts import changes
from opl.experiments.results.measures import compare_values


def test_dots_are_at_the_differences_of_the_seeds_with_0_in_the_middle():
    change = compare_values("test/nll", {0: 1.0, 1: 1.0, 2: 1.0}, {0: 0.9, 1: 1.05, 2: 0.8})
    x = changes.axis_of(change)
    assert x.at(0) == pytest.approx(50)
    dots = [float(position) for position in re.findall(r'<circle cx="([\d.]+)%"', changes.strip(change))]
    assert dots == pytest.approx([x.at(pair) for pair in change.pairs], abs=0.01)


def test_a_lower_error_has_the_color_of_a_gain():
    before = {seed: 0.03 + seed / 1e4 for seed in range(5)}
    after = {seed: 0.01 + seed / 1.1e4 for seed in range(5)}
    assert 'class="strip gain"' in changes.strip(compare_values("test/ece", before, after))
    assert 'class="strip loss"' in changes.strip(compare_values("test/ece", after, before))
    assert 'class="strip"' in changes.strip(compare_values("test/nc1", before, after))


def test_a_measure_without_values_has_no_strip_and_equal_values_have_an_axis():
    assert changes.strip(compare_values("test/ece", {}, {0: 0.1})) is None
    assert changes.strip(compare_values("test/ece", {0: 0.1}, {0: 0.1}))
