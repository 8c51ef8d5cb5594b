"""Checkpoints: complete or absent, never the wrong bytes, and a fallback is announced."""

import os
import shutil

import pytest
import torch

from opl.errors import DamagedError, OplWarning
from opl.experiments.run_folder import BEFORE, CHECKPOINT, NEW, RunFolder


def folder_with(tmp_path, epochs):
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r", "seed": 0}, {"commit": "abc"})
    folder.restore_metrics([])  # as training does
    for epoch in range(1, epochs + 1):
        folder.save({"epoch": epoch, "model": {"w": torch.full((3,), float(epoch))}})
    return folder


def flip(file, index):
    data = bytearray(file.read_bytes())
    data[index] ^= 1
    file.write_bytes(data)


def test_the_newest_checkpoint_is_loaded_and_the_one_before_it_kept(tmp_path):
    folder = folder_with(tmp_path, 3)
    assert folder.load()["epoch"] == 3
    (folder.path / CHECKPOINT).unlink()
    with pytest.warns(OplWarning, match=r"checkpoint.pt in .*: resuming from a checkpoint after 2 epochs"):
        assert folder.load()["epoch"] == 2


def test_inside_an_epoch_the_later_step_is_the_newer_one(tmp_path):
    folder = folder_with(tmp_path, 1)
    for step in (7, 9):
        folder.save({"epoch": 1, "step": step, "model": {}})
    assert folder.load()["step"] == 9
    flip(folder.path / CHECKPOINT, 50)
    with pytest.warns(OplWarning, match="after 1 epochs and 7 steps"):
        assert folder.load()["step"] == 7


@pytest.mark.parametrize("index", [0, -1, 100])
def test_a_flipped_byte_is_noticed_and_the_one_before_used(tmp_path, index):
    folder = folder_with(tmp_path, 2)
    flip(folder.path / CHECKPOINT, index)
    with pytest.warns(OplWarning, match="after 1 epochs"):
        assert folder.load()["epoch"] == 1


def test_starting_over_without_any_valid_checkpoint_is_announced(tmp_path):
    folder = folder_with(tmp_path, 2)
    for name in (CHECKPOINT, BEFORE):
        (folder.path / name).write_bytes(b"")
    with pytest.warns(OplWarning, match=r"checkpoint.pt and checkpoint-before.pt in .* starting over"):
        assert folder.load() is None


def test_the_checkpoint_of_another_run_is_not_taken_even_with_its_checksum(tmp_path):
    folder = folder_with(tmp_path, 2)
    other = RunFolder.of(tmp_path, "r", 1)
    other.start({"name": "r", "seed": 1}, {"commit": "abc"})
    other.save({"epoch": 7, "model": {}})
    for name in (CHECKPOINT, f"{CHECKPOINT}.sha256"):
        shutil.copy(other.path / name, folder.path / name)
    assert CHECKPOINT in folder.faults()
    with pytest.warns(OplWarning, match="cannot be used"):
        state = folder.load()
    assert state is None or state["epoch"] == 1


def test_a_new_folder_gives_no_warning(tmp_path):
    assert folder_with(tmp_path, 0).load() is None


def test_a_run_that_was_stopped_before_its_first_checkpoint_gives_no_warning(tmp_path):
    folder = folder_with(tmp_path, 0)
    assert folder.load() is None
    folder.log({"epoch": 0})
    assert folder.load() is None
    folder.log({"epoch": 1})  # the checkpoint of the first epoch comes before
    with pytest.warns(OplWarning, match=r"checkpoint.pt in .* cannot be used: starting over"):
        assert folder.load() is None


def test_nothing_but_tensors_and_plain_values_is_loaded(tmp_path):
    folder = folder_with(tmp_path, 1)
    state = torch.load(folder.path / CHECKPOINT, weights_only=True)
    assert state["epoch"] == 1
    assert not (folder.path / NEW).exists()
    assert not (folder.path / BEFORE).exists()


def test_best_weights_are_verified_and_damaged_ones_mean_starting_over(tmp_path):
    folder = folder_with(tmp_path, 0)
    for value in (1.0, 2.0):
        folder.save_best({"model": {"w": torch.full((3,), value)}})
    folder.save({"epoch": 2, "model": {}, "best": 50.0})
    assert folder.load_best()["model"]["w"].tolist() == [2.0, 2.0, 2.0]
    assert folder.load()["epoch"] == 2
    flip(folder.path / "best.pt", -1)
    with pytest.raises(DamagedError, match=r"best.pt is not what the run wrote"):
        folder.load_best()
    assert folder.faults() == {"best.pt": "is not what the run wrote"}
    with pytest.warns(OplWarning, match=r"best.pt in .* starting over"):
        assert folder.load() is None
    (folder.path / "best.pt").unlink()
    with pytest.warns(OplWarning, match=r"best.pt in .* starting over"):
        assert folder.load() is None


def test_wherever_saving_is_killed_a_checkpoint_is_left_and_the_next_process_completes_or_drops_it(
    tmp_path, monkeypatch
):
    """`os.replace` fails at its k-th call: two files are written and four renamed."""
    expected = sorted(file.name for file in folder_with(tmp_path / "whole", 3).path.iterdir())
    real, loaded = os.replace, []
    for moment in range(1, 7):
        folder = folder_with(tmp_path / str(moment), 2)
        calls = iter(range(1, 100))

        def killed(source, target, calls=calls, moment=moment):
            if next(calls) == moment:
                raise KeyboardInterrupt
            real(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                folder.save({"epoch": 3, "model": {"w": torch.full((3,), 3.0)}})
        loaded.append(folder.load()["epoch"])  # without a warning
        folder.sweep()
        assert folder.load()["epoch"] == loaded[-1]
        assert folder.faults() == {}
        assert sorted(file.name for file in folder.path.iterdir()) == expected
        folder.save({"epoch": 4, "model": {}})
        assert folder.load()["epoch"] == 4
    assert loaded == [2, 2, 3, 3, 3, 3]
