"""Runs as values: read once, with OPL and the baseline as data."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from _recipe_json import rewrite
from _runs import opl, write_run
from _vouched import vouch
from opl.experiments.charts.curves import curve
from opl.experiments.results.records import run_of
from opl.experiments.results.runs import Run, read_runs, select_runs
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


def test_records_keep_what_is_a_number_and_drop_the_rest(tmp_path):
    values = {"s": 0.5, "text": "high", "flag": True, "none": None, "huge": 10**400, "undefined": math.nan}
    folder = RunFolder(write_run(tmp_path, "cifar100-ce", done=False))
    epochs = len(folder.metrics())
    folder.log({"epoch": epochs, **values})
    [run] = read_runs(tmp_path)
    assert run.records[-1] == {"epoch": float(epochs), "s": 0.5}
    np.testing.assert_array_equal(run.column("huge"), np.full(epochs + 1, np.nan))
    assert run.column("s")[-1] == 0.5
    assert run.seconds == math.fsum(record["seconds"] for record in run.records[:-1])


SERIES = st.lists(st.none() | st.floats(-9, 9), min_size=1, max_size=40)


def run_with(values: list[float | None], seed: int) -> Run:
    record = {"recipe": {"name": "digits-ce", "seed": seed, "scale": "small"}, "result": {}}
    records = [{"epoch": float(epoch)} | ({} if s is None else {"s": s}) for epoch, s in enumerate(values)]
    return replace(run_of(record, Path("seed-0.json"), "here"), records=records)


@given(st.lists(SERIES, min_size=1, max_size=3), st.integers(0, 12))
def test_a_curve_has_the_values_of_its_epochs_and_is_thinned_to_the_limit(series, most):
    drawn = curve("CE", [run_with(values, seed) for seed, values in enumerate(series)], "s", most)
    known = sorted({epoch for values in series for epoch, value in enumerate(values) if value is not None})
    if not most:
        assert [epoch - 1 for epoch in drawn.epochs] == (known or [0])
    else:
        assert len(drawn.epochs) <= most + 1
        assert set(drawn.epochs) <= {epoch + 1 for epoch in known} or not known
    if known:
        assert (drawn.epochs[0], drawn.epochs[-1]) == (known[0] + 1, known[-1] + 1)
    for row, values in zip(drawn.values, series, strict=True):
        for epoch, value in zip(drawn.epochs, row, strict=True):
            expected = values[epoch - 1] if epoch <= len(values) else None
            assert (math.isnan(value) and expected is None) or value == expected
