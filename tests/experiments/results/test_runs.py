"""Runs as values: read once, with OPL and the baseline as data."""

import json

from _recipe_json import rewrite
from _runs import opl, write_run
from _vouched import vouch
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.run_folder import RunFolder


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
    vouch(old.parent)
    runs = {run.name: run for run in read_runs(tmp_path)}
    assert runs["opl"].opl == {"weight": 0.5, "gamma": 0.5, "form": "mean_abs"}
    assert runs["opl"].baseline_method == runs["ce"].baseline_method == {"kind": "CrossEntropy"}
    assert [name for name, run in runs.items() if run.projects] == ["opl"]  # no name of a kind is looked at
    assert (runs["old"].opl, runs["old"].baseline_method) == (None, {"kind": "Truncated"})
