"""Values of `hostile_values` in the files of runs: a sample in `make test-all`, 20,000 with `pytest -m nightly`."""

import os
import random

import pytest
from hostile_values import FILES, fuzz_runs, write_base

from opl.experiments.paper import item
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base") / "runs"
    write_base(folder)
    return folder


@pytest.fixture(autouse=True)
def _without_sync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda number: None)  # thousands of folders that nobody keeps


@pytest.mark.slow
def test_without_a_changed_value_every_run_is_comparable_and_has_every_file(base):
    runs = screen(read_runs(base), [item("demo")])
    assert [run.state for run in runs] == ["done"] * 20
    assert all((run.folder.path / name).exists() for run in runs for name in FILES)


@pytest.mark.slow
def test_a_sample_of_values_ends_no_command_with_a_defect(base, tmp_path):
    assert fuzz_runs(base, tmp_path, 100, random.Random(0)) == []


@pytest.mark.nightly
def test_20_000_values_end_no_command_with_a_defect(base, tmp_path):
    assert fuzz_runs(base, tmp_path, 20_000, random.Random(1)) == []
