"""Runs as values: read once, with OPL and the baseline as data, and grouped by what they differ in."""

import json
from importlib import import_module

import numpy as np
import pytest

from _runs import ITEM, opl, write_run, write_table
from opl.errors import FolderError
from opl.experiments.figures import lda, similarity
from opl.experiments.figures.search import grids, sweeps
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.results.tables import lines
from opl.experiments.run_folder import RunFolder
from opl.experiments.tables import ITEMS


def rewrite(path, **changes):
    """Change `recipe.json`: `batch_size` of the recipe, everything else beside it."""
    about = json.loads((path / "recipe.json").read_text())
    about["recipe"] |= {name: changes.pop(name) for name in ("batch_size", "model") if name in changes}
    (path / "recipe.json").write_text(json.dumps(about | changes))


def test_arrays_are_read_at_most_once(tmp_path, monkeypatch):
    write_run(tmp_path, "cifar100-ce", outputs=True)
    write_run(tmp_path, "cifar100-ce", 1)
    calls = []
    real = RunFolder.outputs

    def outputs(folder, name="test"):
        calls.append((folder.path.name, name))
        return real(folder, name)

    monkeypatch.setattr(RunFolder, "outputs", outputs)
    first, second = select_runs(read_runs(tmp_path), "cifar100-ce", "small")
    assert not calls
    for _ in range(3):
        assert first.arrays()["similarity"].shape == (20, 20)
        assert second.arrays() == first.arrays("novel") == {}
        assert first.measure_arrays("episodes/5-way-1-shot") == {}
    assert len(calls) == len(set(calls)) == 4


def test_seeds_are_in_the_order_of_their_numbers(tmp_path):
    for seed in (10, 2, 0):
        write_run(tmp_path, "cifar100-ce", seed)
    write_run(tmp_path, "cifar100-ce", 3, done=False)
    assert [run.seed for run in select_runs(read_runs(tmp_path), "cifar100-ce", "small")] == [0, 2, 10]


def test_opl_and_the_baseline_are_what_the_run_says(tmp_path):
    write_run(tmp_path, "ce")
    write_run(tmp_path, "opl", method=opl(0.5))
    rewrite(write_run(tmp_path, "tl", method={"kind": "Truncated", "auxiliary": [{"kind": "OPL"}]}), opl=None)
    old = write_run(tmp_path, "old", method={"kind": "Truncated"}) / "recipe.json"
    old.write_text(json.dumps({"recipe": json.loads(old.read_text())["recipe"]}))  # says neither
    runs = {run.name: run for run in read_runs(tmp_path)}
    assert runs["opl"].opl == {"weight": 0.5, "gamma": 0.5, "form": "mean_abs"}
    assert runs["opl"].baseline_method == runs["ce"].baseline_method == {"kind": "CrossEntropy"}
    assert [name for name, run in runs.items() if run.projects] == ["opl"]  # no name of a kind is looked at
    assert (runs["old"].opl, runs["old"].baseline_method) == (None, {"kind": "Truncated"})


def test_a_damaged_run_is_said_in_its_row_and_loses_no_other(tmp_path):
    write_table(tmp_path, seeds=2)
    (tmp_path / "cifar100-opl" / "seed-1" / "result.json").write_text("{")
    found = lines(ITEM, read_runs(tmp_path), "small")
    assert [line.seeds for line in found] == [(0, 1), (0,), (0, 1), (0, 1)]
    assert found[1].missing == "seed 1 damaged"


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


def test_a_grid_needs_two_weights_and_two_gammas(tmp_path):
    for weight, gamma in ((0.5, 0.5), (1.0, 0.5), (1.0, 2.0)):
        assert not grids(read_runs(tmp_path))
        write_run(tmp_path, f"opl-{weight}-{gamma}", method=opl(weight, gamma))
    [grid] = grids(read_runs(tmp_path))
    assert (grid.weights, grid.gammas) == ((0.5, 1.0), (0.5, 2.0))
    assert np.isnan(grid.means).tolist() == [[False, True], [False, False]]


def test_a_figure_says_which_arrays_it_lacks_and_how_to_get_them(tmp_path):
    path = write_run(tmp_path, "cifar100-ce", outputs=True)
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable novel.npz: write it with opl evaluate {path} novel"):
        lda.panel("CE", run, "novel")
    (path / "test.npz").write_bytes(b"broken")
    [run] = read_runs(tmp_path)
    with pytest.raises(FolderError, match=f"no readable test.npz: write it with opl evaluate {path} geometry"):
        similarity.matrix("CE", [run])


@pytest.mark.parametrize("name", sorted({item.figure for item in ITEMS.values() if item.figure}))
def test_every_figure_of_the_paper_is_a_module(name):
    module = import_module(f"opl.experiments.figures.{name}")
    assert callable(module.render)
    assert set(module.NEEDS) <= {"test", "novel"}
