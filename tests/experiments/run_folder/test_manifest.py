"""The manifest: wherever a writer is killed, the folder holds the old or the new files, and nothing looks damaged."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest

from opl.errors import DamagedError
from opl.experiments.run_folder import RunFolder, manifest

OLD, NEW = {"numbers": {"m/x": 1.0}}, {"numbers": {"m/x": 2.0}}


class Killed(BaseException):
    """What a killed process does not catch."""


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    """A finished run."""
    made = RunFolder.of(tmp_path, "r", 0)
    made.start({"name": "r", "seed": 0}, {})
    made.finish({}, {"test/top1": 61.0})
    return made


@contextmanager
def killed_at(monkeypatch, moment: int) -> Iterator[None]:
    """The writer dies in its `moment`-th write, before the file has its name, which leaves the temporary one."""
    count = iter(range(1, 100))
    whole = manifest.write_whole

    def write(file, data):
        if next(count) != moment:
            return whole(file, data)
        file.with_name(f".{file.name}.0123456789abcdef.tmp").write_bytes(data[: len(data) // 2])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "write_whole", write)
        with pytest.raises(Killed):
            yield


def left(folder: RunFolder) -> list[str]:
    return [name for parent in (folder.path, folder.path / "measures") for name in os.listdir(parent) if "tmp" in name]


@pytest.mark.parametrize("before", [{}, OLD], ids=["new", "again"])
@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_killed_writer_leaves_nothing_damaged_and_what_it_leaves_is_swept(folder, monkeypatch, before, moment):
    if before:
        folder.write_measure("m", before, {})
    with killed_at(monkeypatch, moment):
        folder.write_measure("m", NEW, {})
    again = RunFolder(folder.path)
    assert again.faults() == {}
    assert again.measures() == ({"m": NEW} if moment == 4 else {"m": before} if before else {})
    assert left(again)
    again.sweep()
    assert left(again) == []
    assert all(len(sums) == 1 and "" not in sums for sums in again.manifest.sums().values())
    again.write_measure("m", NEW, {})
    assert again.faults() == {}
    assert again.measures() == {"m": NEW}


def test_a_writer_killed_twice_leaves_nothing_damaged(folder, monkeypatch):
    for first, second in product((1, 2, 3, 4), repeat=2):
        folder.write_measure("m", OLD, {})
        for moment, content in ((first, NEW), (second, {"numbers": {"m/x": 3.0}})):
            with killed_at(monkeypatch, moment):
                folder.write_measure("m", content, {})
            assert RunFolder(folder.path).faults() == {}, (first, second)


@pytest.mark.parametrize("moment", [1, 2])
def test_a_part_whose_deletion_was_killed_is_whole_or_gone(folder, monkeypatch, moment):
    folder.write_part("m", {})
    with killed_at(monkeypatch, moment):
        folder.drop_part("m")
    again = RunFolder(folder.path)
    assert again.faults() == {}
    assert (again.part("m") is None) == (moment == 2)
    again.sweep()
    assert again.faults() == {}


def test_once_a_file_is_written_an_older_one_is_not_taken_for_it(folder):
    folder.write_measure("m", OLD, {})
    before = (folder.path / "measures" / "m.json").read_bytes()
    folder.write_measure("m", NEW, {})
    (folder.path / "measures" / "m.json").write_bytes(before)
    with pytest.raises(DamagedError, match=r"m\.json is not what the run wrote"):
        folder.measures()


def test_a_run_that_was_killed_in_its_last_write_can_be_finished(tmp_path, monkeypatch):
    made = RunFolder.of(tmp_path, "r", 0)
    made.start({"name": "r", "seed": 0}, {})
    for moment in (1, 2, 3, 4, 5):
        with killed_at(monkeypatch, moment):
            made.finish({}, {"test/top1": 61.0})
        made = RunFolder(made.path)
        assert not made.done
        assert made.faults() == {}
    made.finish({}, {"test/top1": 61.0})
    assert json.loads((made.path / "done").read_text())["files"].keys() == {
        "recipe.json", "model.safetensors", "result.json"
    }  # fmt: skip
    assert [name for name in os.listdir(made.path) if "tmp" in name] == []


def list_in_done(folder: RunFolder, name: str) -> None:
    """Add a name to `done`, with a valid checksum of the list."""
    content = json.loads((folder.path / "done").read_text())
    sums = {**content["files"], name: ["0" * 64]}
    total = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    (folder.path / "done").write_text(json.dumps({"files": sums, "sha256": total}))


def test_names_outside_of_the_folder_are_refused_and_nothing_there_is_touched(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".x.tmp").write_text("not ours")
    before = (folder.path / "done").read_bytes()
    for name in (str(outside / "x"), "../../outside/x", "measures/../../../outside/x", "/x", "", "a\0b"):
        (folder.path / "done").write_bytes(before)
        list_in_done(folder, name)
        for act in (RunFolder.sweep, RunFolder.result, RunFolder.weights):
            with pytest.raises(DamagedError, match="done is not a valid list of checksums"):
                act(RunFolder(folder.path))
        assert "done" in RunFolder(folder.path).faults()
    assert [file.name for file in outside.iterdir()] == [".x.tmp"]


def test_a_listed_name_behind_a_link_is_refused(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".x.tmp").write_text("not ours")
    (folder.path / "link").symlink_to(outside)
    list_in_done(folder, "link/x")
    with pytest.raises(DamagedError, match="is behind a link"):
        RunFolder(folder.path).sweep()
    assert RunFolder(folder.path).faults() == {"link/x": "is not what the run wrote"}
    assert [file.name for file in outside.iterdir()] == [".x.tmp"]
