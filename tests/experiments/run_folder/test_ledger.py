"""The list of sums: whatever a writer was doing when it was killed, the folder is as before or as it wanted it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opl.errors import DamagedError
from opl.experiments.run_folder import RunFolder, ledger

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
    whole = ledger.write_whole

    def write(file, data):
        if next(count) != moment:
            return whole(file, data)
        file.with_name(f".{file.name}.0123456789abcdef.tmp").write_bytes(data[: len(data) // 2])
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "write_whole", write)
        with pytest.raises(Killed):
            yield


def left(folder: RunFolder) -> list[str]:
    return [name for place in (folder.path, folder.path / "measures") for name in os.listdir(place) if "tmp" in name]


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
    assert all(len(sums) == 1 and "" not in sums for sums in again.ledger.sums().values())
    again.write_measure("m", NEW, {})
    assert again.faults() == {}
    assert again.measures() == {"m": NEW}


@pytest.mark.parametrize("first", [1, 2, 3, 4])
@pytest.mark.parametrize("second", [1, 2, 3, 4])
def test_a_writer_killed_twice_leaves_nothing_damaged(folder, monkeypatch, first, second):
    folder.write_measure("m", OLD, {})
    for moment, content in ((first, NEW), (second, {"numbers": {"m/x": 3.0}})):
        with killed_at(monkeypatch, moment):
            folder.write_measure("m", content, {})
        assert RunFolder(folder.path).faults() == {}


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
