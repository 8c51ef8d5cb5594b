"""Accuracy over a setting: sweeps, baselines and heat maps as they are drawn."""

import numpy as np
import pytest
from _figure_values import DRAWN, legend, sweep

from opl.experiments.figures import search

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_sweeps_have_intervals_and_the_baseline_a_band():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    line, band, points, dots = search.page([sweep()], "lambda", "accuracy")["data"]
    assert line["y"] == [70.5, 70.5]
    half = stats.t.ppf(0.975, 1) * 0.5
    np.testing.assert_allclose(band["y"], [70.5 + half] * 2 + [70.5 - half] * 2, atol=1e-3)
    assert points["y"] == [71.5, 73.25, 70.0]
    np.testing.assert_allclose(points["error_y"]["array"], [half, half / 2, 0], atol=1e-3)
    assert (line["name"], points["name"]) == ("baseline", "CE+OPL")
    assert (dots["x"], dots["y"]) == ([0.1, 0.1, 1.0, 1.0, 2.0], [71.0, 72.0, 73.0, 73.5, 70.0])


def test_baselines_that_are_the_same_are_drawn_once():
    one, other = (70.0, 71.0), (60.0, 61.0)
    names = [
        trace["name"] for trace in search.page([sweep("a", one), sweep("b", one), sweep("c", None)], "", "")["data"]
    ]
    assert names == ["baseline", "baseline", "a", "a", "b", "b", "c", "c"]
    names = [trace["name"] for trace in search.page([sweep("a", one), sweep("b", other)], "", "")["data"]]
    assert names == ["baseline of a", "baseline of a", "baseline of b", "baseline of b", "a", "a", "b", "b"]


def test_the_axes_are_logarithmic_with_the_values_that_were_tried():
    batches = search.Sweep("CE", "batch size", (512, 64, 128), ((70.0,), (71.0,), (np.nan,)), None)
    left, right = search.draw({"lambda": [sweep()], "batch size": [batches]}).axes
    assert (left.get_xscale(), left.xaxis.get_transform().base, right.xaxis.get_transform().base) == ("log", 10, 2)
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.1", "1", "2"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["64", "128", "512"]
    assert right.get_lines()[0].get_xdata().tolist() == [64, 512]  # in order, and nothing where there is no number
    assert (left.get_xlabel(), right.get_xlabel()) == ("lambda", "batch size")
    axis = search.page([batches], "batch size", "")["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"], axis["ticktext"]) == ("log", [64, 128, 512], ["64", "128", "512"])


def test_the_sweeps_in_print_have_the_baseline_in_the_legend():
    figure = DRAWN["search"]()
    assert legend(figure) == ["baseline", "CE+OPL", "CE", "CE+OPL"]
    assert [len(axes.collections) for axes in figure.axes] == [1, 2]  # a band for each sweep


def test_values_of_five_seeds_or_more_are_a_band_alone():
    few, many = ((70.0, 71.0, 72.0, 73.0), (70.0, 71.0, 72.0, 73.0, 74.0))
    drawn = search.page([search.Sweep("CE", "batch size", (64, 128), (few, many), None)], "", "")["data"]
    assert [trace["x"] for trace in drawn] == [[64, 128], [64] * 4]
    assert [len(trace["x"]) for trace in search.page([search.Sweep("CE", "n", (64,), (many,))], "", "")["data"]] == [1]


def test_the_heat_map_writes_its_numbers_and_leaves_gaps_empty():
    [cells] = search.heat([0.1, 1.0], [2.0, 0.5], np.array([[70.126, 71.0], [np.nan, 72.2]]))["data"]
    assert cells["text"] == [["70.13", "71.00"], ["", "72.20"]]
    assert cells["z"] == [[70.126, 71.0], [None, 72.2]]
    assert (cells["y"], cells["x"]) == (["0.1", "1"], ["2", "0.5"])
