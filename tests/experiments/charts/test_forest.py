"""Differences from a baseline: every seed, means and intervals, and verdicts adjusted over all lines."""

import re

import numpy as np
import pytest
from _chart_values import contrast, rows_with, written

from _runs import ITEM, write_run, write_table
from opl.experiments.charts import forest
from opl.experiments.item import Row
from opl.experiments.results.comparisons import lines
from opl.experiments.results.measures import compare_values
from opl.experiments.results.runs import read_runs
from opl.experiments.statistics import Range, interval, moderate

ROWS = (Row("CE", "ce", {}), Row("CE+OPL", "opl", {}, "ce"), Row("smoothing", "smooth", {}, "ce"))
ACCURACIES = {
    "ce": (70.0, 70.4, 69.8, 70.1, 70.2, 70.3),
    "opl": (71.1, 71.3, 70.9, 71.3, 71.1, 71.5),
    "smooth": (70.1, 70.1, 70.0, 69.8, 70.5, 70.2),
}


def test_every_seed_the_mean_and_the_interval_of_scipy_are_drawn(tmp_path):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    rendered = forest.render(rows_with(tmp_path, ROWS, {"test/top1": ACCURACIES}), "class")
    [axes] = rendered.figures[""].axes
    pairs = np.subtract(ACCURACIES["opl"], ACCURACIES["ce"])
    dots, mean, line = axes.get_lines()[1:4]
    assert sorted(dots.get_xdata()) == pytest.approx(sorted(pairs))
    assert mean.get_xdata() == pytest.approx([pairs.mean()])
    other = np.subtract(ACCURACIES["smooth"], ACCURACIES["ce"])
    drawn = moderate([interval(values.tolist(), within=Range(-100, 100, 0.5)) for values in (pairs, other)])[0]
    assert line.get_xdata() == pytest.approx((drawn.low, drawn.high))
    low, high = stats.t.interval(0.95, 5, loc=pairs.mean(), scale=stats.sem(pairs))
    assert drawn.high - drawn.low == pytest.approx(high - low, rel=0.2)  # of two rows with a similar spread
    assert [label.get_text() for label in axes.get_yticklabels()] == ["CE+OPL", "smoothing"]
    assert any("a gain" in word for word in written(rendered.figures[""]))
    assert rendered.text[0].startswith(f"CE+OPL: +{pairs.mean():.2f} [")


def test_few_seeds_have_dots_and_no_interval():
    [axes] = forest.draw([contrast(seeds=3)]).axes
    assert [len(line.get_xdata()) for line in axes.get_lines()[1:]] == [3, 1]


def page_contrasts(folder):
    return forest.contrasts(ITEM, lines(ITEM, read_runs(folder), "small"))


def test_on_the_page_few_seeds_are_dots_and_five_are_an_interval(tmp_path):
    write_table(tmp_path, seeds=3)
    made = page_contrasts(tmp_path)
    assert [contrast.label for contrast in made] == ["CE+OPL", "Center", "OLE"]
    assert {contrast.versus for contrast in made} == {" vs CE"}
    assert [contrast.has_interval for contrast in made] == [False] * 3
    assert all(contrast.ends == list(contrast.pairs) and len(contrast.pairs) == 3 for contrast in made)
    for name in ("ce", "opl"):
        for seed in (3, 4):
            write_run(tmp_path, f"cifar100-{name}", seed, gain=2.1 if name == "opl" else 0.0)
    made = page_contrasts(tmp_path)
    assert [contrast.has_interval for contrast in made] == [True, False, False]
    assert made[0].ends == [made[0].difference.low, made[0].difference.high, made[0].difference.mean]


def test_all_comparisons_share_an_axis_and_dots_are_at_the_values_of_their_seeds(tmp_path):
    made = page_contrasts(write_table(tmp_path, seeds=3))
    x, margin = forest.axis_of(made), forest.margin_of(made)
    assert margin == 0.5
    positions, values = [], []
    for line in made:
        strip = forest.to_svg(line, x, margin)
        positions += [float(position) for position in re.findall(r'<circle cx="([\d.]+)%"', strip)]
        values += line.pairs
    zero = x.at(0)
    slopes = [(position - zero) / value for position, value in zip(positions, values, strict=True) if abs(value) > 0.2]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=0.03)


def test_the_dots_of_a_measure_are_at_the_differences_of_the_seeds_with_0_in_the_middle():
    change = compare_values("test/nll", {0: 1.0, 1: 1.0, 2: 1.0}, {0: 0.9, 1: 1.05, 2: 0.8})
    x = forest.measure_axis(change)
    assert x.at(0) == pytest.approx(50)
    dots = [float(position) for position in re.findall(r'<circle cx="([\d.]+)%"', forest.measure_strip(change))]
    assert dots == pytest.approx([x.at(pair) for pair in change.pairs], abs=0.01)
    assert forest.measure_strip(compare_values("test/ece", {}, {0: 0.1})) is None
    assert forest.measure_strip(compare_values("test/ece", {0: 0.1}, {0: 0.1}))  # equal values have an axis


def test_a_lower_error_has_the_color_of_a_gain():
    before = {seed: 0.03 + seed / 1e4 for seed in range(5)}
    after = {seed: 0.01 + seed / 2e4 for seed in range(5)}
    for name, values, kind in (
        ("test/ece", (before, after), "strip gain"),
        ("test/ece", (after, before), "strip loss"),
        ("test/nc1", (before, after), "strip"),
    ):
        assert f'class="{kind}"' in forest.measure_strip(compare_values(name, *values))
