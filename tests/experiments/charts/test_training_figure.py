"""Curves over epochs: means, bands and gaps."""

import math

import numpy as np
import pytest
from _figure_values import DRAWN, legend, rng

from opl.experiments.charts import style, training
from opl.experiments.statistics import Range

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_the_band_is_scipys_interval_over_the_seeds_that_are_there():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = rng().normal(size=(4, 3))
    values[3, 1] = np.nan
    values[1:, 2] = np.nan
    mean, low, high = training.band(training.Curve("CE", (1, 2, 3), (0, 1, 2, 3), values))
    for epoch, seeds in ((0, values[:, 0]), (1, values[:3, 1])):
        expected = stats.t.interval(0.95, len(seeds) - 1, loc=seeds.mean(), scale=stats.sem(seeds))
        assert (low[epoch], high[epoch]) == pytest.approx(expected)
        assert mean[epoch] == pytest.approx(seeds.mean())
    assert mean[2] == low[2] == high[2] == values[0, 2]


def test_an_epoch_that_no_seed_has_is_left_out():
    gap = training.Curve("CE", (1, 2, 3), (0,), np.array([[1.0, np.nan, 3.0]]))
    assert math.isnan(training.band(gap)[0][1])
    [line] = training.draw({"s": [gap]}).axes[0].get_lines()
    assert line.get_xdata().tolist() == [1, 3]


def test_there_is_a_panel_for_each_measure_and_one_legend():
    figure = DRAWN["training"]()
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["s", "d"]
    assert [(len(axes.get_lines()), len(axes.collections)) for axes in figure.axes] == [(8, 0), (8, 0)]
    assert legend(figure) == ["CE", "CE+OPL"]
    shown = [line.get_color() for line in figure.axes[1].get_lines()]
    assert shown == [style.PALETTE[0]] * 4 + [style.ACCENT] * 4  # a mean and three seeds each, and no band


def test_five_seeds_or_more_have_a_band_that_ends_where_nothing_is_possible():
    values = np.array([[0.9], [1.0], [1.0], [1.0], [1.0]])
    few, many = (training.Curve("CE", (1,), tuple(range(n)), values[:n], Range(0, 1)) for n in (4, 5))
    assert [len(training.draw({"d": [each]}).axes[0].collections) for each in (few, many)] == [0, 1]
    mean, low, high = training.band(many)
    assert (float(mean[0]), float(high[0])) == (pytest.approx(0.98), 1.0)
    assert low[0] < 0.98
