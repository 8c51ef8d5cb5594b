"""The run folder: whole or not at all, and never the wrong bytes."""

import os

import pytest
import torch

from opl.errors import FolderError
from opl.experiments.run_folder import BEFORE, CHECKPOINT, NEW, RunFolder


def folder_with(tmp_path, epochs):
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r", "seed": 0}, {"commit": "abc"})
    for epoch in range(1, epochs + 1):
        folder.save({"epoch": epoch, "model": {"w": torch.full((3,), float(epoch))}})
    return folder


def test_the_newest_checkpoint_is_loaded_and_the_one_before_it_kept(tmp_path):
    folder = folder_with(tmp_path, 3)
    assert folder.load()["epoch"] == 3
    (folder.path / CHECKPOINT).unlink()
    assert folder.load()["epoch"] == 2


@pytest.mark.parametrize("place", [0, -1, 100])
def test_a_flipped_byte_is_noticed_and_the_one_before_taken(tmp_path, place):
    folder = folder_with(tmp_path, 2)
    data = bytearray((folder.path / CHECKPOINT).read_bytes())
    data[place] ^= 1
    (folder.path / CHECKPOINT).write_bytes(data)
    assert folder.load()["epoch"] == 1


def test_a_stop_at_any_rename_leaves_a_checkpoint(tmp_path, monkeypatch):
    """`os.replace` fails at its k-th call, for every k: as if the process had been killed there."""
    for stop in range(1, 20):
        folder = folder_with(tmp_path / str(stop), 2)
        real, calls = os.replace, 0

        def replace(source, target, real=real, stop=stop):
            nonlocal calls
            calls += 1
            if calls == stop:
                raise KeyboardInterrupt
            real(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                folder.save({"epoch": 3, "model": {}})
            except KeyboardInterrupt:
                pass
            else:
                assert stop > 5  # all renames were tried
                return
        assert folder.load()["epoch"] in (2, 3)
        folder.save({"epoch": 4, "model": {}})
        assert folder.load()["epoch"] == 4
    pytest.fail("the renames never ended")


def test_nothing_but_tensors_and_plain_values_is_loaded(tmp_path):
    folder = folder_with(tmp_path, 1)
    state = torch.load(folder.path / CHECKPOINT, weights_only=True)
    assert state["epoch"] == 1
    assert not (folder.path / NEW).exists()
    assert not (folder.path / BEFORE).exists()


def test_a_line_cut_short_is_no_record_and_later_epochs_are_forgotten(tmp_path):
    folder = folder_with(tmp_path, 0)
    for epoch in range(4):
        folder.log({"epoch": epoch})
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "tr')
    assert [record["epoch"] for record in folder.metrics()] == [0, 1, 2, 3]
    folder.keep_epochs(2)
    assert [record["epoch"] for record in folder.metrics()] == [0, 1]


def test_done_comes_last_and_other_settings_are_refused(tmp_path):
    folder = folder_with(tmp_path, 1)
    assert folder.begun
    assert not folder.done
    with pytest.raises(FolderError, match=r"other settings \(seed\)"):
        folder.start({"name": "r", "seed": 1}, {})
    folder.finish({"w": torch.ones(2)}, {"test/top1": 1.0})
    assert folder.done
    assert folder.result() == {"test/top1": 1.0}
    assert torch.equal(folder.weights()["w"], torch.ones(2))
    assert [run.path for run in RunFolder.below(tmp_path)] == [folder.path]


def test_an_unwritable_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="give another folder with --out"):
        RunFolder.of(tmp_path / "file", "r", 0).start({}, {})
