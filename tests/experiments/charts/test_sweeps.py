"""Sweeps and grids: runs grouped by what they differ in, each with its baseline."""

from dataclasses import replace

import numpy as np

from _recipe_json import rewrite
from _runs import opl, write_run
from opl.experiments import paper
from opl.experiments.charts.paper import draw
from opl.experiments.charts.search import grids, sweeps
from opl.experiments.charts.search import sweeps as sweeps_of
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
    [sweep] = sweeps(read_runs(tmp_path))["weight"]
    assert (sweep.label, sweep.xs) == ("Truncated+OPL", (1.0, 2.0))
    assert sweep.values == ((results["tl-1"],), (results["tl-2"],))
    assert sweep.baseline == (results["tl"],)


def test_only_runs_that_are_equal_in_the_rest_are_in_one_sweep(tmp_path):
    for place, (weight, form, depth) in enumerate(
        [(1.0, "mean_abs", 8), (2.0, "mean_abs", 8), (1.0, "mean", 8), (2.0, "mean", 8), (4.0, "mean_abs", 20)]
    ):
        path = write_run(tmp_path, f"run-{place}", method=opl(weight))
        model = {"kind": "CifarResNet", "depth": depth}
        rewrite(path, opl={"weight": weight, "gamma": 0.5, "form": form}, model=model)
    found = sweeps(read_runs(tmp_path))
    assert {sweep.label: sweep.xs for sweep in found["weight"]} == {
        "CE+OPL, form mean_abs": (1.0, 2.0),
        "CE+OPL, form mean": (1.0, 2.0),
    }
    assert set(found) == {"weight"}


def test_a_sweep_of_the_batch_size_has_its_baseline_beside_it(tmp_path):
    for size in (64, 128):
        rewrite(write_run(tmp_path, f"opl-{size}", method=opl(1.0)), batch_size=size)
    for size in (128, 256):
        rewrite(write_run(tmp_path, f"center-{size}", method={"kind": "Center"}), batch_size=size)
    write_run(tmp_path, "ce")
    write_run(tmp_path, "ole", method={"kind": "OLE"})
    found = sweeps(read_runs(tmp_path))
    drawn = {sweep.label: (sweep.xs, sweep.baseline) for sweep in found["batch size"]}
    assert drawn == {"CE": ((128,), None), "Center": ((128, 256), None), "CE+OPL": ((64, 128), None)}
    assert list(drawn)[-1] == "CE+OPL"  # after those without it


def test_batch_sizes_are_swept_by_one_rule_for_the_learning_rate_at_a_time(tmp_path):
    for size, lr in ((64, 0.1), (128, 0.1), (64, 0.05), (256, 0.2)):
        path = write_run(tmp_path, f"ce-{size}-{lr}")
        rewrite(path, batch_size=size, optimizer={"kind": "SGD", "lr": lr})
    found = sweeps(read_runs(tmp_path))
    assert {name: [sweep.xs for sweep in some] for name, some in found.items()} == {
        "batch size": [(64, 128)],
        "scaled batch size": [(64, 128, 256)],
    }
    assert found["batch size"][0].setting == "batch size, constant learning rate"
    assert found["batch size"][0].values[1] == found["scaled batch size"][0].values[1]


def test_a_grid_needs_two_weights_and_two_gammas(tmp_path):
    for weight, gamma in ((0.5, 0.5), (1.0, 0.5), (1.0, 2.0)):
        assert not grids(read_runs(tmp_path))
        write_run(tmp_path, f"opl-{weight}-{gamma}", method=opl(weight, gamma))
    [grid] = grids(read_runs(tmp_path))
    assert (grid.weights, grid.gammas) == ((0.5, 1.0), (0.5, 2.0))
    assert np.isnan(grid.means).tolist() == [[False, True], [False, False]]


def test_sweeps_are_read_off_the_recipes_of_finished_runs(tmp_path):
    opl = paper.recipe("digits-opl", "tiny")
    settings = {"a": {}, "b": {"batch_size": 32}, "c": {"method": replace(opl.method, weight=0.1)}}
    for name, changes in settings.items():
        run(replace(opl, name=name, **{"batch_size": 128, **changes}), tmp_path)
    run(replace(paper.recipe("digits-ce", "tiny"), batch_size=128), tmp_path)
    read = read_runs(tmp_path)
    runs = [run for name in (*settings, "digits-ce") for run in select_runs(read, name, "tiny")]
    sweeps = sweeps_of(runs)
    [weights] = sweeps["weight"]
    assert weights.xs == (0.1, 1.0)
    assert weights.baseline == (runs[-1].result["test/top1"],)
    assert {each.label: each.xs for each in sweeps["batch size"]} == {"CE": (128,), "CE+OPL": (32, 128)}
    item = Item(
        "x", "x", "digits", {}, tuple(Row(name, name, {}) for name in (*settings, "digits-ce")), figure="search"
    )
    files, _ = draw(item, read, tmp_path, "tiny")
    assert len(files) == 3
