"""Sweeps and grids: runs grouped by the settings they differ in, each with its baseline, and both renderers."""

from dataclasses import replace

import numpy as np
import pytest
from _chart_values import legend, sweep

from _recipe_json import rewrite
from _runs import opl, write_run
from opl.experiments import paper
from opl.experiments.charts import sweeps
from opl.experiments.charts.figure import draw_item
from opl.experiments.item import Item, Row
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.training.run import run


def test_a_sweep_has_the_baseline_of_its_own_method_and_recipe(tmp_path):
    truncated = {"kind": "Truncated", "quantile": 0.7}
    for name, method, weight, gain in (
        ("ce", {"kind": "CrossEntropy"}, None, 0.0),
        ("tl", truncated, None, 5.0),
        ("other-tl", {**truncated, "quantile": 0.5}, None, 9.0),
        ("tl-1", truncated, 1.0, 6.0),
        ("tl-2", truncated, 2.0, 7.0),
    ):
        path = write_run(tmp_path, name, method={**method, "auxiliary": weight}, gain=gain)
        settings = {"weight": weight, "gamma": 0.5, "form": "mean_abs"} if weight else None
        rewrite(path, opl=settings, baseline=method)
    results = {run.name: run.result["test/top1"] for run in read_runs(tmp_path)}
    [sweep] = sweeps.sweeps(read_runs(tmp_path))["weight"]
    assert (sweep.label, sweep.xs) == ("Truncated+OPL", (1.0, 2.0))
    assert sweep.values == ((results["tl-1"],), (results["tl-2"],))
    assert sweep.baseline == (results["tl"],)


def test_runs_of_one_sweep_are_equal_in_all_other_settings(tmp_path):
    for place, (weight, form, depth) in enumerate(
        [(1.0, "mean_abs", 8), (2.0, "mean_abs", 8), (1.0, "mean", 8), (2.0, "mean", 8), (4.0, "mean_abs", 20)]
    ):
        path = write_run(tmp_path, f"run-{place}", method=opl(weight))
        model = {"kind": "CifarResNet", "depth": depth}
        rewrite(path, opl={"weight": weight, "gamma": 0.5, "form": form}, model=model)
    found = sweeps.sweeps(read_runs(tmp_path))
    assert {sweep.label: sweep.xs for sweep in found["weight"]} == {
        "CE+OPL, form mean_abs": (1.0, 2.0),
        "CE+OPL, form mean": (1.0, 2.0),
    }
    assert set(found) == {"weight"}


def test_a_sweep_of_the_batch_size_has_its_baseline_as_a_separate_sweep(tmp_path):
    for size in (64, 128):
        rewrite(write_run(tmp_path, f"opl-{size}", method=opl(1.0)), batch_size=size)
    for size in (128, 256):
        rewrite(write_run(tmp_path, f"center-{size}", method={"kind": "Center"}), batch_size=size)
    write_run(tmp_path, "ce")
    write_run(tmp_path, "ole", method={"kind": "OLE"})
    found = sweeps.sweeps(read_runs(tmp_path))
    drawn = {sweep.label: (sweep.xs, sweep.baseline) for sweep in found["batch size"]}
    assert drawn == {"CE": ((128,), None), "Center": ((128, 256), None), "CE+OPL": ((64, 128), None)}
    assert list(drawn)[-1] == "CE+OPL"  # after those without it


def test_sweeps_of_the_batch_size_are_split_by_the_rule_for_the_learning_rate(tmp_path):
    for size, lr in ((64, 0.1), (128, 0.1), (64, 0.05), (256, 0.2)):
        path = write_run(tmp_path, f"ce-{size}-{lr}")
        rewrite(path, batch_size=size, optimizer={"kind": "SGD", "lr": lr})
    found = sweeps.sweeps(read_runs(tmp_path))
    assert {name: [sweep.xs for sweep in some] for name, some in found.items()} == {
        "batch size": [(64, 128)],
        "scaled batch size": [(64, 128, 256)],
    }
    assert found["batch size"][0].setting == "batch size, constant learning rate"
    assert found["batch size"][0].values[1] == found["scaled batch size"][0].values[1]


def test_a_grid_needs_two_weights_and_two_gammas(tmp_path):
    for weight, gamma in ((0.5, 0.5), (1.0, 0.5), (1.0, 2.0)):
        assert not sweeps.grids(read_runs(tmp_path))
        write_run(tmp_path, f"opl-{weight}-{gamma}", method=opl(weight, gamma))
    [grid] = sweeps.grids(read_runs(tmp_path))
    assert (grid.weights, grid.gammas) == ((0.5, 1.0), (0.5, 2.0))
    assert np.isnan(grid.means).tolist() == [[False, True], [False, False]]


@pytest.mark.slow
def test_sweeps_come_from_the_recipes_of_finished_runs(tmp_path):
    opl = paper.recipe("digits-opl", "tiny")
    settings = {"a": {}, "b": {"batch_size": 32}, "c": {"method": replace(opl.method, weight=0.1)}}
    for name, changes in settings.items():
        run(replace(opl, name=name, **{"batch_size": 128, **changes}), tmp_path)
    run(replace(paper.recipe("digits-ce", "tiny"), batch_size=128), tmp_path)
    read = read_runs(tmp_path)
    runs = [run for name in (*settings, "digits-ce") for run in select_runs(read, name, "tiny")]
    made = sweeps.sweeps(runs)
    [weights] = made["weight"]
    assert weights.xs == (0.1, 1.0)
    assert weights.baseline == (runs[-1].result["test/top1"],)
    assert {each.label: each.xs for each in made["batch size"]} == {"CE": (128,), "CE+OPL": (32, 128)}
    item = Item(
        "x", "x", "digits", {}, tuple(Row(name, name, {}) for name in (*settings, "digits-ce")), figure="sweeps"
    )
    files, _ = draw_item(item, read, tmp_path, "tiny")
    assert len(files) == 3


FEW, MANY = (70.0, 71.0, 72.0, 73.0), (70.0, 71.0, 72.0, 73.0, 74.5)


def band_at(x, collection):
    """The lower and upper end of a band at one value of the setting."""
    ys = [y for place, y in collection.get_paths()[0].vertices if place == x]
    return min(ys), max(ys)


def test_sweeps_and_the_baseline_have_the_intervals_of_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    seeds = tuple(value + 3 for value in MANY)
    [axes] = sweeps.draw({"lambda": [sweeps.Sweep("CE+OPL", "lambda", (0.5, 1.0), (MANY, seeds), MANY)]}).axes
    level, means, _ = axes.get_lines()
    assert level.get_ydata() == pytest.approx([np.mean(MANY)] * 2)
    assert means.get_ydata() == pytest.approx([np.mean(MANY), np.mean(seeds)])
    expected = [stats.t.interval(0.95, 4, loc=np.mean(some), scale=stats.sem(some)) for some in (MANY, seeds)]
    [band] = axes.collections
    assert [band_at(x, band) for x in (0.5, 1.0)] == [pytest.approx(ends) for ends in expected]
    [level_band] = axes.patches
    assert (level_band.get_y(), level_band.get_y() + level_band.get_height()) == pytest.approx(expected[0])


def test_equal_baselines_are_drawn_once():
    one, other = (70.0, 71.0), (60.0, 61.0)
    assert legend(sweeps.draw({"lambda": [sweep("a", one), sweep("b", one), sweep("c", None)]})) == [
        *("baseline", "a", "b", "c")
    ]
    assert legend(sweeps.draw({"lambda": [sweep("a", one), sweep("b", other)]})) == [
        *("baseline of a", "baseline of b", "a", "b")
    ]


def test_five_seeds_or_more_are_a_band_without_dots():
    [axes] = sweeps.draw({"batch size": [sweeps.Sweep("CE", "batch size", (64, 128), (FEW, MANY), FEW)]}).axes
    baseline, means, dots = axes.get_lines()
    assert baseline.get_ydata() == pytest.approx([71.5, 71.5])
    assert not axes.patches  # the baseline has few seeds
    assert means.get_xdata().tolist() == [64, 128]
    assert dots.get_xydata().tolist() == [[64, value] for value in FEW]
    assert {x for path in axes.collections[0].get_paths() for x, _ in path.vertices} == {128}


def test_the_axes_are_logarithmic_with_ticks_at_the_values_of_the_runs():
    batches = sweeps.Sweep("CE", "batch size", (512, 64, 128), ((70.0,), (71.0,), (np.nan,)), None)
    left, right = sweeps.draw({"lambda": [sweep()], "batch size": [batches]}).axes
    assert (left.get_xscale(), left.xaxis.get_transform().base, right.xaxis.get_transform().base) == ("log", 10, 2)
    assert [label.get_text() for label in left.get_xticklabels()] == ["0.1", "1", "2"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["64", "128", "512"]
    assert right.get_lines()[0].get_xdata().tolist() == [64, 512]  # in order, and nothing where there is no number
    assert (left.get_xlabel(), right.get_xlabel()) == ("lambda", "batch size")


def test_means_and_dots_of_a_sweep_use_its_finite_seeds():
    made = sweeps.Sweep("CE", "batch size", (128, 64), (MANY, (*FEW, np.nan)), None)
    assert [(x, mean.mean, mean.size) for x, mean in made.means()] == [(64, 71.5, 4), (128, np.mean(MANY), 5)]
    assert made.dots() == []  # five seeds each, although a seed has no result
    few = sweeps.Sweep("CE", "batch size", (64,), (FEW,), None)
    assert few.dots() == [(64, value) for value in FEW]


def test_the_label_and_the_table_of_the_chart_have_every_mean():
    panel = [sweep("a"), sweep("b", None)]
    chart = sweeps.to_svg(panel, "top-1 % over lambda", sweeps.PERCENT)
    assert "top-1 % over lambda: a 0.1: 71.50, 1: 73.25, 2: 70.00; b 0.1: 71.50" in chart
    assert sweeps.first_color(panel) == 1
    table = sweeps.data_table(panel, "x", sweeps.PERCENT)
    assert table.rows[:3] == [("a", "0.1", "71.50", 2), ("a", "1", "73.25", 2), ("a", "2", "70.00", 1)]


def test_the_shares_of_a_grid_run_from_its_lowest_to_its_highest_mean():
    grid = sweeps.Grid((0.5, 1.0), (0.5, 1.0), np.array([[70.0, 72.0], [71.0, np.nan]]))
    assert grid.shares(0) == [0, 1]
    assert grid.shares(1)[0] == 0.5
    assert np.isnan(grid.shares(1)[1])
