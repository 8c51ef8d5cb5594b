"""`--dry-run` prints what would be trained and its cost, and trains nothing."""

import pytest

from _finished_runs import write_finished
from opl.experiments import cli
from opl.experiments.cli.reproduce import announce
from opl.experiments.paper import recipe
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.executor import Placement
from opl.experiments.runner.jobs import Job


def test_dry_run_shows_the_settings_and_the_cost(capfd):
    assert cli.main(["train", "digits-opl", "--scale", "small", "--method.weight", "0.3", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert '"weight": 0.3' in out
    assert "cost:" in out


def test_dry_run_of_an_item_lists_the_runs_and_which_are_done(tmp_path, capfd):
    home = tmp_path / "small" / "demo"
    path = write_finished(home, "digits-ce", 0)
    half = RunFolder.of(home, "digits-opl", 1)
    half.start({"name": "digits-opl", "seed": 1}, {})
    for epoch in range(4):
        half.log({"epoch": epoch, "seconds": 30.0, "images_per_second": 9.0})
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["reproduce", "demo", "--out", str(tmp_path), "--seeds", "2", "--jobs", "2", "--dry-run"]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    heard = capfd.readouterr()
    lines = heard.out.splitlines()
    assert lines[0].startswith("demo: ")
    epochs = recipe("digits-opl", "small").epochs
    assert lines[2].split("  ")[-1].strip() == "seed 0 done, seed 1 to train"
    assert lines[3].split("  ")[-1] == f"seed 0 to train, seed 1 epoch 4/{epochs}"
    left = 30 * (epochs + epochs + epochs - 4) / 2  # two in parallel, by the run whose epochs are known
    minutes = round(max(left, 30 * epochs) / 60)
    assert lines[5] == f"1/4 runs done, 3 to train: about {minutes} min (2 in parallel)"
    assert lines[6] == "data: built in"
    assert path.exists()


def test_dry_run_prints_missing_data_sets_and_omitted_rows(apart, tmp_path, capfd):
    words = ["reproduce", "table-3", "--scale", "small", "--out", str(tmp_path / "runs"), "--dry-run"]
    assert cli.main(words) == 0
    heard = capfd.readouterr()
    assert heard.err == "left out: 12 rows that need cifar10, which is missing (see opl data)\n"
    absent = "missing (opl data NAME explains how to get it)"
    assert f"data: cifar10 {absent}, cifar100 {absent}, mnist {absent}" in heard.out
    assert "0/72 runs done, 72 to train: about 2 h 0 min (1 in parallel)" in heard.out
    assert "opl evaluate measures each run" in heard.out
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_without_any_data_asks_no_network(apart, tmp_path, capfd):
    assert cli.main(["reproduce", "table-2", "--out", str(tmp_path / "runs"), "--dry-run"]) == 0
    assert "pacs missing" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("cost", "placement", "lines"),
    [
        (30.0, Placement(jobs=2), ["2 runs, about 30 s (2 in parallel)"]),
        (0.0, Placement(), ["2 runs, estimating time…"]),
        (7200.0, Placement(on="slurm"), ["2 runs, about 4 h 0 min (less if slurm runs several)"]),
    ],
)
def test_the_expected_time_is_printed_before_runs_start(tmp_path, cost, placement, lines):
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=cost) for seed in (0, 1)]
    assert announce(jobs, placement) == lines


def test_finished_runs_take_no_time(tmp_path):
    write_finished(tmp_path, "digits-ce", 0)
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=30.0) for seed in (0, 1)]
    assert announce(jobs, Placement())[0].startswith("1 run left (1 of 2 done), about ")
    assert announce(jobs[:1], Placement()) == []
