"""`--dry-run` says what would be trained and what it costs, and trains nothing."""

import pytest

from _finished_runs import write_finished
from opl.experiments import cli
from opl.experiments.cli.plan import announce
from opl.experiments.paper import recipe
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.jobs import Job
from opl.experiments.runner.placement import Placement


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
    left = 30 * (epochs + epochs + epochs - 4) / 2  # two at a time, by the one run whose epochs are known
    minutes = round(max(left, 30 * epochs) / 60)
    assert lines[5] == f"1/4 runs done, 3 to train: about {minutes} min with 2 at a time, by earlier epochs here"
    assert lines[6] == "data: built in"
    assert path.exists()


def test_dry_run_says_which_data_is_here_and_what_is_left_out(apart, tmp_path, capfd):
    words = ["reproduce", "table-3", "--scale", "small", "--out", str(tmp_path / "runs"), "--dry-run"]
    assert cli.main(words) == 0
    heard = capfd.readouterr()
    assert heard.err == "left out: 12 rows that need cifar10, which is not here: see opl data\n"
    absent = "not here (opl data NAME says how to get it)"
    assert f"data: cifar10 {absent}, cifar100 {absent}, mnist {absent}" in heard.out
    assert "0/72 runs done, 72 to train: about 2 h 0 min with 1 at a time, by the cost of a run" in heard.out
    assert "opl evaluate measures each run" in heard.out
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_without_any_data_asks_no_network(apart, tmp_path, capfd):
    assert cli.main(["reproduce", "table-2", "--out", str(tmp_path / "runs"), "--dry-run"]) == 0
    assert "pacs not here" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("cost", "place", "said"),
    [
        (30.0, Placement(jobs=2), ["2 runs to train, about 30 s with 2 at a time, by the cost of a run"]),
        (0.0, Placement(), ["2 runs to train, no time is known before the first epoch"]),
        (
            7200.0,
            Placement(on="slurm"),
            ["2 runs to train, about 4 h 0 min with one after another; on slurm many at once, by the cost of a run"],
        ),
    ],
)
def test_long_work_says_its_cost_before_it_starts(tmp_path, cost, place, said):
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=cost) for seed in (0, 1)]
    assert announce(jobs, place) == said


def test_what_is_done_has_no_cost(tmp_path):
    write_finished(tmp_path, "digits-ce", 0)
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=30.0) for seed in (0, 1)]
    assert announce(jobs, Placement())[0].startswith("1 run to train (1 of 2 are done), about ")
    assert announce(jobs[:1], Placement()) == []
