"""One measure of all runs below a folder."""

import torch

from _instant import Instant
from opl.experiments import cli
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner import local
from opl.experiments.runner.placement import Placement


def test_all_finished_runs_below_a_folder_are_measured_and_one_failure_stops_none(tmp_path, monkeypatch, capsys):
    for seed in range(3):
        folder = RunFolder.of(tmp_path, "digits-ce", seed)
        folder.start({"name": "digits-ce"}, {})
        if seed < 2:
            folder.finish({"x": torch.zeros(1)}, {})
    commands = []

    def execute(argv, log):
        commands.append(argv)
        return int("seed-0" in argv[1])

    monkeypatch.setattr(local, "Local", lambda parallel, warm: Instant(parallel, execute))
    assert cli.main(["evaluate", str(tmp_path), "attack", "--jobs", "2", "--eps", "8/255", "--images", "10"]) == 1
    flags = ("attack", "--eps", "8/255", "--images", "10")
    paths = [str(RunFolder.of(tmp_path, "digits-ce", seed).path) for seed in (0, 1)]
    assert sorted(commands) == [("evaluate", path, *flags) for path in paths]
    assert "1 of 2 runs measured" in capsys.readouterr().out
    assert Placement().jobs == 1


def test_runs_with_equal_recipe_and_seed_in_two_folders_are_both_measured(tmp_path, monkeypatch, capsys):
    folders = [RunFolder.of(tmp_path / part, "digits-ce", 0) for part in ("a", "b")]
    for folder in folders:
        folder.start({"name": "digits-ce"}, {})
        folder.finish({"x": torch.zeros(1)}, {})
    measured = []

    def execute(argv, log):
        measured.append(argv[1])
        return 0

    monkeypatch.setattr(local, "Local", lambda parallel, warm: Instant(parallel, execute))
    assert cli.main(["evaluate", str(tmp_path), "geometry"]) == 0
    assert sorted(measured) == [str(folder.path) for folder in folders]
    assert "2 of 2 runs measured" in capsys.readouterr().out


def test_wrong_words_for_many_runs_are_found_before_any_is_measured(tmp_path, monkeypatch):
    folder = RunFolder.of(tmp_path, "digits-ce", 0)
    folder.start({"name": "digits-ce"}, {})
    folder.finish({"x": torch.zeros(1)}, {})
    monkeypatch.setattr(local, "Local", lambda parallel, warm: Instant(parallel, lambda argv, log: 0))
    try:
        code = cli.main(["evaluate", str(tmp_path), "attack", "--no-such-flag", "1"])
    except SystemExit as end:
        code = end.code
    assert code == 2
