"""`opl search` on tiny digits: stopped and resumed, without the test images; its winner is reproduced."""

import json

import pytest

from _inline import inlined
from opl.experiments import cli
from opl.experiments.run_folder import MODEL, RunFolder
from opl.experiments.training import run as training

OVER = ("--over", "method.weight=0.1,2", "method.gamma=0.5,2")
TINY = ("digits-opl", "--scale", "tiny", "--epochs", "2", "--data.val", "24", *OVER)


def search(monkeypatch, argv, stop_after=1000):
    """Run `opl search` in this process, interrupted after so many runs; return its exit code and the runs."""
    with inlined(monkeypatch, stop_after) as executor:
        return cli.main(["search", *argv]), executor.executed


def arguments(out, by="grid", *more):
    return [*TINY, "--by", by, "--trials", "4", "--batch", "2", "--out", str(out), *more]


@pytest.fixture
def parts(monkeypatch):
    """The sizes of all parts of the data that a run computes numbers of; there are 24 validation and 40 test images."""
    sizes, real = [], training.validate_part

    def validate_part(fabric, recipe, model, part, **more):
        sizes.append(len(part))
        return real(fabric, recipe, model, part, **more)

    monkeypatch.setattr(training, "validate_part", validate_part)
    return sizes


@pytest.mark.parametrize("by", ["grid", pytest.param("optuna", marks=pytest.mark.slow)])
def test_a_search_is_resumed_and_its_winner_trained_again_equals_its_trial(tmp_path, monkeypatch, parts, by, capsys):
    if by == "optuna":
        pytest.importorskip("optuna", reason="Optuna is not installed")
    code, first = search(monkeypatch, arguments(tmp_path, by), stop_after=2)
    assert (code, len(first)) == (1, 2)
    assert "run the same command again to resume" in capsys.readouterr().err
    code, rest = search(monkeypatch, arguments(tmp_path, by))
    assert (code, len(rest)) == (0, 2)
    assert not set(first) & set(rest)
    assert set(parts) == {24}  # nobody looked at the 40 test images
    folder = tmp_path / "search" / "digits-opl"
    summary = json.loads((folder / "trials.json").read_text())
    trials = summary["trials"]
    runs = {trial["number"]: RunFolder.of(folder, f"digits-opl-trial-{trial['number']:03d}", 0) for trial in trials}
    for trial in trials:
        result = runs[trial["number"]].result()
        assert trial["value"] == result["val/top1"]
        assert not [name for name in result if name.startswith("test")]
    assert trials[summary["winner"]]["value"] == max(trial["value"] for trial in trials)
    out = capsys.readouterr().out
    assert f"winner: trial {summary['winner']} " in out
    assert "importance" in out or by == "optuna" or not summary["importance"]
    assert all((folder / name).stat().st_size for name in ("trials.md", "trials.png", "trials.pdf"))
    assert cli.main(["train", "--recipe", str(folder / "winner.json"), "--out", str(tmp_path / "again")]) == 0
    again = RunFolder.of(tmp_path / "again", "digits-opl", 0)
    assert (again.path / MODEL).read_bytes() == (runs[summary["winner"]].path / MODEL).read_bytes()
    assert "test/top1" in again.result()


@pytest.mark.slow
def test_pruned_trials_stop_early_and_continued_trials_are_bit_identical(tmp_path, monkeypatch):
    assert search(monkeypatch, arguments(tmp_path / "pruned", "grid", "--prune-at", "1"))[0] == 0
    assert search(monkeypatch, arguments(tmp_path / "whole"))[0] == 0
    pruned, whole = (tmp_path / name / "search" / "digits-opl" for name in ("pruned", "whole"))
    trials = json.loads((pruned / "trials.json").read_text())["trials"]
    assert sorted(trial["outcome"] for trial in trials) == ["done", "done", "pruned", "pruned"]
    for trial in trials:
        name = f"digits-opl-trial-{trial['number']:03d}"
        folder = RunFolder.of(pruned, name, 0)
        assert len(folder.metrics()) == trial["epochs"] == (2 if trial["outcome"] == "done" else 1)
        if trial["outcome"] == "done":
            assert (folder.path / MODEL).read_bytes() == (RunFolder.of(whole, name, 0).path / MODEL).read_bytes()


def test_another_search_in_the_same_folder_is_refused(tmp_path, monkeypatch, capsys):
    search(monkeypatch, arguments(tmp_path), stop_after=0)
    code, _ = search(monkeypatch, arguments(tmp_path, "grid", "--metric", "val/loss"))
    assert code == 2
    assert "holds a search with another metric: choose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--data.val", "0"], "no validation images"),
        (["--oracle"], "uses the test set"),
        (["--prune-at", "2"], "--prune-at is 2"),
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_invalid_searches_are_refused_before_training(tmp_path, monkeypatch, capsys, more, expected):
    given = arguments(tmp_path, "grid")
    if more[0] in given:  # a flag may be given once
        index = given.index(more[0])
        del given[index : index + len(more)]
    code, runs = search(monkeypatch, [*given, *more])
    assert (code, runs) == (2, [])
    assert expected in capsys.readouterr().err


def test_a_file_without_a_recipe_is_refused_with_a_sentence(tmp_path, capsys):
    (tmp_path / "odd.json").write_text('{"kind": "Recipe"}')
    for file in ("odd.json", "missing.json"):
        assert cli.main(["train", "--recipe", str(tmp_path / file)]) == 2
        assert f"{file} is not a recipe" in capsys.readouterr().err
