"""The run folder: `done` comes last and vouches for every file."""

import json
import os

import numpy as np
import pytest
import torch

from _vouched import sha256
from opl.errors import DamagedError, FolderError
from opl.experiments import cli
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder

RESULT = {"test/top1": 61.0}


@pytest.fixture
def finished(tmp_path) -> RunFolder:
    """A finished run with every kind of file."""
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r", "seed": 0, "epochs": 2}, {"commit": "abc"})
    folder.write_splits({"train": 5, "val": [1], "test": 2, "class_names": ["a", "b"]})
    folder.write_noise({"matrix": [[1.0]]}, {"labels": np.arange(3)})
    for epoch in range(2):
        folder.log({"epoch": epoch})
        folder.save({"epoch": epoch + 1, "model": {}, "best": 0.0})
    folder.save_best({"model": {}})
    folder.write_outputs({"labels": np.arange(4)})
    folder.finish({"w": torch.ones(2)}, RESULT)
    folder.write_measure("episodes", {"numbers": {"episodes/x": 1.0}}, {"each": np.ones(2)})
    folder.write_part("attack", {"each": np.zeros(2)})
    return folder


READERS = {
    "recipe.json": RunFolder.about,
    "splits.json": RunFolder.splits,
    "noise.json": RunFolder.noise,
    "noise.npz": lambda folder: folder.outputs("noise"),
    "metrics.jsonl": RunFolder.metrics,
    "model.safetensors": RunFolder.weights,
    "test.npz": RunFolder.outputs,
    "result.json": RunFolder.result,
    "measures/episodes.json": RunFolder.result,
    "measures/episodes.npz": lambda folder: folder.measure_arrays("episodes"),
    "measures/attack.part.npz": lambda folder: folder.part("attack"),
    "done": RunFolder.result,
}
DAMAGES = {
    "flipped": lambda file: file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:]),
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-2]),
    "emptied": lambda file: file.write_bytes(b""),
    "longer": lambda file: file.write_bytes(file.read_bytes() + b" "),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
    "a pipe": lambda file: (file.unlink(), os.mkfifo(file)),
    "gone": lambda file: file.unlink(),
}


def test_done_comes_last_and_other_settings_are_refused(tmp_path):
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r", "seed": 0}, {"commit": "abc"})
    assert folder.begun
    assert not folder.done
    with pytest.raises(FolderError, match=r"other settings \(seed\)"):
        folder.start({"name": "r", "seed": 1}, {})
    folder.finish({"w": torch.ones(2)}, RESULT)
    assert folder.done
    assert folder.result() == RESULT
    assert torch.equal(folder.weights()["w"], torch.ones(2))
    assert [run.path for run in RunFolder.below(tmp_path)] == [folder.path]


def test_done_lists_the_sha256_of_every_file(finished):
    listed = json.loads((finished.path / "done").read_text())["files"]
    files = {name for name in READERS if name != "done"}
    assert set(listed) == files
    assert {name: sums[-1] for name, sums in listed.items()} == {name: sha256(finished.path / name) for name in files}
    assert finished.faults() == {}
    assert finished.weights_sum() == sha256(finished.path / "model.safetensors")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_ever_used(finished, name, damage):
    READERS[name](finished)  # as it is
    DAMAGES[damage](finished.path / name)
    if (name, damage) == ("done", "longer"):  # white space after JSON says the same
        assert finished.result()["test/top1"] == 61.0
        return
    with pytest.raises(DamagedError):
        READERS[name](finished)
    assert name in finished.faults()
    (run,) = read_runs(finished.path.parents[1])
    assert run.state == ("done" if name == "model.safetensors" else "damaged")  # tables read no weights
    assert name in run.sentence or run.state == "done"


def test_check_names_each_damaged_file_and_nothing_else(finished, tmp_path, capsys):
    assert cli.main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 runs, 0 files that are not what a run wrote\n"
    DAMAGES["cut"](finished.path / "model.safetensors")
    DAMAGES["cut"](finished.path / "checkpoint.pt")
    assert cli.main(["check", str(tmp_path)]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        "model.safetensors is not what the run wrote",
        "checkpoint.pt is not what the run wrote",
    ]
    assert last == "1 runs, 2 files that are not what a run wrote"
    assert cli.main(["check", str(tmp_path / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_file_that_was_damaged_during_the_run_is_not_vouched_for(tmp_path):
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r"}, {})
    folder.write_splits({"train": 5})
    (folder.path / "splits.json").write_text('{"train": 6}')
    with pytest.raises(DamagedError, match=r"splits.json is not what the run wrote"):
        folder.finish({"w": torch.ones(2)}, RESULT)
    assert not folder.done


def test_a_run_without_settings_is_not_continued_with_others(tmp_path):
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r"}, {})
    folder.save({"epoch": 1, "model": {}})
    (folder.path / "recipe.json").unlink()
    with pytest.raises(DamagedError, match=r"recipe.json cannot be read"):
        folder.start({"name": "r"}, {})


@pytest.mark.parametrize("stop", range(1, 40))
def test_a_process_killed_at_any_rename_leaves_nothing_that_looks_damaged(tmp_path, monkeypatch, stop):
    real, calls = os.replace, 0

    def replace(source, target):
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        real(source, target)

    def write(folder):
        folder.start({"name": "r"}, {})
        for value in (1, 2):
            folder.write_splits({"train": value})
            folder.log({"epoch": value - 1})
        folder.finish({"w": torch.ones(1)}, RESULT)
        folder.write_measure("x", {"numbers": {}}, {})

    folder = RunFolder.of(tmp_path, "r", 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        try:
            write(folder)
        except KeyboardInterrupt:
            pass
        else:
            assert stop > 10  # all renames were tried
    if not folder.begun:
        folder.start({"name": "r"}, {})
    faults = folder.faults()
    assert all(fault == "is missing" for fault in faults.values()), faults  # listed, and killed before it was written
    assert not faults or not folder.done or set(faults) <= {"measures/x.json", "measures/x.npz"}


def test_temporary_files_of_killed_processes_are_swept(finished):
    left = finished.path / ".result.json.0123.tmp"
    left.write_text("half")
    finished.sweep()
    assert not left.exists()


def test_an_unwritable_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="give another folder with --out"):
        RunFolder.of(tmp_path / "file", "r", 0).start({}, {})
    with pytest.raises(FolderError, match="give another folder with --out"):
        RunFolder.of(tmp_path / "file", "r", 0).owned()
