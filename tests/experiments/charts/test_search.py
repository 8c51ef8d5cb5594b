"""Accuracy over a setting: sweeps and baselines as they are drawn."""

import numpy as np
import pytest
from _figure_values import DRAWN, legend, sweep

from opl.experiments.charts import search

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


FEW, MANY = (70.0, 71.0, 72.0, 73.0), (70.0, 71.0, 72.0, 73.0, 74.5)


def band_at(x, collection):
    """The lower and upper end of a band at one value of the setting."""
    ys = [y for place, y in collection.get_paths()[0].vertices if place == x]
    return min(ys), max(ys)


def test_sweeps_and_the_baseline_have_the_intervals_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    seeds = tuple(value + 3 for value in MANY)
    [axes] = search.draw({"lambda": [search.Sweep("CE+OPL", "lambda", (0.5, 1.0), (MANY, seeds), MANY)]}).axes
    level, means, _ = axes.get_lines()
    assert level.get_ydata() == pytest.approx([np.mean(MANY)] * 2)
    assert means.get_ydata() == pytest.approx([np.mean(MANY), np.mean(seeds)])
    expected = [stats.t.interval(0.95, 4, loc=np.mean(some), scale=stats.sem(some)) for some in (MANY, seeds)]
    [band] = axes.collections
    assert [band_at(x, band) for x in (0.5, 1.0)] == [pytest.approx(ends) for ends in expected]
    [level_band] = axes.patches
    assert (level_band.get_y(), level_band.get_y() + level_band.get_height()) == pytest.approx(expected[0])


def test_a_baseline_of_few_seeds_has_no_band():
    [axes] = search.draw({"lambda": [sweep()]}).axes
    assert axes.get_lines()[0].get_ydata() == pytest.approx([70.5, 70.5])
    assert not axes.patches


def test_baselines_that_are_the_same_are_drawn_once():
    one, other = (70.0, 71.0), (60.0, 61.0)
    assert legend(search.draw({"lambda": [sweep("a", one), sweep("b", one), sweep("c", None)]})) == [
        *("baseline", "a", "b", "c")
    ]
    assert legend(search.draw({"lambda": [sweep("a", one), sweep("b", other)]})) == [
        *("baseline of a", "baseline of b", "a", "b")
    ]


def test_values_of_five_seeds_or_more_are_a_band_alone():
    [axes] = search.draw({"batch size": [search.Sweep("CE", "batch size", (64, 128), (FEW, MANY), None)]}).axes
    means, dots = axes.get_lines()
    assert means.get_xdata().tolist() == [64, 128]
    assert dots.get_xydata().tolist() == [[64, value] for value in FEW]
    assert {x for path in axes.collections[0].get_paths() for x, _ in path.vertices} == {128}


def test_the_axes_are_logarithmic_with_the_values_that_were_tried():
    batches = search.Sweep("CE", "batch size", (512, 64, 128), ((70.0,), (71.0,), (np.nan,)), None)
    left, right = search.draw({"lambda": [sweep()], "batch size": [batches]}).axes
    assert (left.get_xscale(), left.xaxis.get_transform().base, right.xaxis.get_transform().base) == ("log", 10, 2)
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.1", "1", "2"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["64", "128", "512"]
    assert right.get_lines()[0].get_xdata().tolist() == [64, 512]  # in order, and nothing where there is no number
    assert (left.get_xlabel(), right.get_xlabel()) == ("lambda", "batch size")


def test_the_sweeps_in_print_have_the_baseline_in_the_legend():
    figure = DRAWN["search"]()
    assert legend(figure) == ["baseline", "CE+OPL", "CE", "CE+OPL"]
    assert [len(axes.collections) for axes in figure.axes] == [1, 2]  # a band for each sweep
