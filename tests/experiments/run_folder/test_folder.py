"""The run folder: `done` comes last and lists every file, damage is noticed, and a folder has one owner at a time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from _finished_runs import write_finished
from _vouched import metric_lines, sha256
from opl.errors import DamagedError, FolderError
from opl.experiments import cli
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder

RESULT = {"test/top1": 61.0}
RECORDS = [{"epoch": epoch, "train/loss": 1.5 / (epoch + 1), "val/top1": 40.0 + epoch} for epoch in range(4)]


@pytest.fixture
def started(tmp_path) -> RunFolder:
    """A run that has just started."""
    folder = RunFolder.of(tmp_path, "r", 0)
    folder.start({"name": "r", "seed": 0}, {"commit": "abc"})
    return folder


@pytest.fixture
def logged(started) -> RunFolder:
    """A run with the records of four epochs."""
    for record in RECORDS:
        started.log(record)
    return started


@pytest.fixture
def finished(tmp_path) -> RunFolder:
    """A finished run with every kind of file."""
    folder = RunFolder.of(tmp_path / "finished", "r", 0)
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


def test_done_comes_last_and_other_settings_are_refused(started, tmp_path):
    assert started.begun
    assert not started.done
    with pytest.raises(FolderError, match=r"other settings \(seed\)"):
        started.start({"name": "r", "seed": 1}, {})
    started.finish({"w": torch.ones(2)}, RESULT)
    assert started.done
    assert started.result() == RESULT
    assert torch.equal(started.weights()["w"], torch.ones(2))
    assert [run.path for run in RunFolder.below(tmp_path)] == [started.path]


def test_done_lists_the_sha256_of_every_file(finished):
    listed = json.loads((finished.path / "done").read_text())["files"]
    files = {name for name in READERS if name != "done"}
    assert set(listed) == files
    assert {name: sums[-1] for name, sums in listed.items()} == {name: sha256(finished.path / name) for name in files}
    assert finished.faults() == {}
    assert finished.weights_sum() == sha256(finished.path / "model.safetensors")


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_is_ever_used(finished, tmp_path, damage):
    for index, (name, read) in enumerate(READERS.items()):
        path = tmp_path / str(index) / "r" / "seed-0"
        shutil.copytree(finished.path, path)
        folder = RunFolder(path)
        read(folder)  # as it is
        DAMAGES[damage](path / name)
        if (name, damage) == ("done", "longer"):  # white space after JSON says the same
            assert folder.result()["test/top1"] == 61.0
            continue
        with pytest.raises(DamagedError):
            read(folder)
        assert name in folder.faults()
        (run,) = read_runs(tmp_path / str(index))
        assert run.state == ("done" if name == "model.safetensors" else "damaged"), name  # tables read no weights
        assert name in run.sentence or run.state == "done"


def test_check_names_the_damaged_files_and_no_others(finished, tmp_path, capsys):
    assert cli.main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 run checked, all files intact\n"
    DAMAGES["cut"](finished.path / "model.safetensors")
    DAMAGES["cut"](finished.path / "checkpoint.pt")
    assert cli.main(["check", str(tmp_path)]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        "model.safetensors is not what the run wrote",
        "checkpoint.pt is not what the run wrote",
    ]
    assert last == "1 run checked, 2 damaged files"


def test_a_file_that_was_damaged_during_the_run_gets_no_checksum(started):
    started.write_splits({"train": 5})
    (started.path / "splits.json").write_text('{"train": 6}')
    with pytest.raises(DamagedError, match=r"splits.json is not what the run wrote"):
        started.finish({"w": torch.ones(2)}, RESULT)
    assert not started.done


def test_a_run_without_settings_is_not_resumed(started):
    started.save({"epoch": 1, "model": {}})
    (started.path / "recipe.json").unlink()
    with pytest.raises(DamagedError, match=r"recipe.json cannot be read"):
        started.start({"name": "r", "seed": 0}, {})


def test_a_process_killed_at_any_rename_leaves_nothing_that_looks_damaged(tmp_path, monkeypatch):
    def write(folder):
        folder.start({"name": "r"}, {})
        for value in (1, 2):
            folder.write_splits({"train": value})
            folder.log({"epoch": value - 1})
        folder.finish({"w": torch.ones(1)}, RESULT)
        folder.write_measure("x", {"numbers": {}}, {})

    real, completed = os.replace, False
    for stop in range(1, 100):
        calls = iter(range(1, 100))

        def replace(source, target, calls=calls, stop=stop):
            if next(calls) == stop:
                raise KeyboardInterrupt
            real(source, target)

        folder = RunFolder.of(tmp_path / str(stop), "r", 0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", replace)
            try:
                write(folder)
                completed = True
            except KeyboardInterrupt:
                pass
        if not folder.begun:
            folder.start({"name": "r"}, {})
        faults = folder.faults()
        assert all(fault == "is missing" for fault in faults.values()), faults  # listed, and killed before the write
        assert not faults or not folder.done or set(faults) <= {"measures/x.json", "measures/x.npz"}
        if completed:
            assert stop > 10
            return
    pytest.fail("the renames never ended")


def test_temporary_files_of_killed_processes_are_deleted(finished):
    left = finished.path / ".result.json.0123.tmp"
    left.write_text("half")
    finished.sweep()
    assert not left.exists()


def test_an_unwritable_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match="choose another folder with --out"):
        RunFolder.of(tmp_path / "file", "r", 0).start({}, {})
    with pytest.raises(FolderError, match="choose another folder with --out"), RunFolder(tmp_path / "file").owned():
        pytest.fail("the folder is a file")


def test_measures_behind_a_link_are_neither_written_nor_read(started, tmp_path):
    started.finish({"w": torch.ones(2)}, RESULT)
    outside = tmp_path / "outside"
    outside.mkdir()
    (started.path / "measures").symlink_to(outside)
    with pytest.raises(DamagedError, match="is behind a link"):
        started.write_measure("m", {"numbers": {}}, {})
    assert list(outside.iterdir()) == []
    (outside / "m.json").write_text('{"numbers": {}}')
    with pytest.raises(DamagedError, match="is behind a link"):
        started.result()


# metrics.jsonl


def test_lines_are_json_with_a_crc_and_are_read_back(logged):
    text = (logged.path / "metrics.jsonl").read_text()
    assert text == metric_lines(RECORDS, (logged.path / "recipe.json").read_bytes())
    assert [json.loads(line)["val/top1"] for line in text.splitlines()] == [40.0, 41.0, 42.0, 43.0]
    assert logged.metrics() == RECORDS


def test_an_incomplete_last_line_is_ignored(logged):
    with (logged.path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 4, "tr')
    assert logged.metrics() == RECORDS


CHANGES = {
    "a number": lambda text: text.replace("41.0", "91.0"),
    "the first line deleted": lambda text: "".join(text.splitlines(keepends=True)[1:]),
    "the last line repeated": lambda text: text + text.splitlines(keepends=True)[-1],
    "two lines joined": lambda text: text.replace("\n", "", 1),
    "a brace deleted": lambda text: text.replace("}", "", 1),
    "no end of the last line": lambda text: text[:-1],
    "another end of the last line": lambda text: text[:-1] + "\x0b",
    "an empty line": lambda text: "\n" + text,
    "deeply nested JSON": lambda text: "[" * 100_000 + "\n" + text,
}


def test_changed_deleted_and_repeated_lines_are_noticed(logged):
    file = logged.path / "metrics.jsonl"
    text = file.read_text()
    for name, change in CHANGES.items():
        file.write_text(change(text))
        with pytest.raises(DamagedError, match=r"is not what the run wrote|has no end of line"):
            pytest.fail(f"not noticed: {name}, {logged.metrics()}")


def test_deleted_metrics_are_missing_once_there_is_a_checkpoint(logged):
    (logged.path / "metrics.jsonl").unlink()
    assert logged.faults() == {}  # as before the first epoch
    logged.save({"epoch": 4})
    assert logged.faults() == {"metrics.jsonl": "is missing"}
    with pytest.raises(DamagedError, match=r"metrics.jsonl is missing"):
        logged.metrics()


def test_a_checkpoint_restores_lost_records_and_drops_later_ones(logged):
    for content in (b"", b"\xff\xfe\n", (logged.path / "metrics.jsonl").read_bytes()):
        (logged.path / "metrics.jsonl").write_bytes(content)
        logged.restore_metrics(RECORDS[:3])
        assert logged.metrics() == RECORDS[:3]
        logged.log(RECORDS[3])
        assert logged.metrics() == RECORDS


def test_records_behind_a_link_are_noticed(logged, tmp_path):
    file = logged.path / "metrics.jsonl"
    for target in (tmp_path / "elsewhere.jsonl", file):  # of another run, and a link to itself
        (tmp_path / "elsewhere.jsonl").write_text(metric_lines(RECORDS[:2]))
        file.unlink()
        file.symlink_to(target)
        assert logged.faults() == {"metrics.jsonl": "cannot be read (Too many levels of symbolic links)"}
        with pytest.raises(OSError, match="Too many levels"):
            logged.log(RECORDS[3])


def test_the_records_of_another_run_are_noticed(logged, tmp_path):
    other = RunFolder.of(tmp_path, "r", 1)
    other.start({"name": "r", "seed": 1}, {})
    (other.path / "metrics.jsonl").write_bytes((logged.path / "metrics.jsonl").read_bytes())
    assert other.faults() == {"metrics.jsonl": "is not what the run wrote (line 1)"}


# The owner

OWN = """
import sys, time
from opl.errors import FolderError
from opl.experiments.run_folder import RunFolder
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))
try:
    with RunFolder(sys.argv[1]).owned():
        print("owned", flush=True)
        time.sleep(float(sys.argv[3]))
except FolderError:
    print("refused")
"""


def own(folder: RunFolder, seconds: float, start: float = 0.0) -> subprocess.Popen:
    """Another process that owns a folder for some seconds."""
    command = [sys.executable, "-c", OWN, str(folder.path), str(start), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_living_owner_is_named_and_the_folder_of_a_dead_one_is_free(started):
    process = own(started, 600)
    try:
        assert process.stdout.readline() == "owned\n"
        named = rf"in use by process {process.pid} on .* since .*: wait until it ends, or choose another folder"
        with pytest.raises(FolderError, match=named), started.owned():
            pytest.fail("two owners")
        os.kill(process.pid, signal.SIGSTOP)  # a stopped process is alive
        with pytest.raises(FolderError, match=named), started.owned(wait=0.2):
            pytest.fail("two owners")
    finally:
        process.kill()
        process.wait()
    assert (started.path / "owner.json").exists()
    with started.owned():
        assert json.loads((started.path / "owner.json").read_text())["process"] == os.getpid()
    assert not (started.path / "owner.json").exists()


def test_one_of_many_processes_gets_the_folder_of_a_dead_owner(started):
    process = own(started, 600)
    assert process.stdout.readline() == "owned\n"
    process.kill()
    process.wait()
    start = time.time() + 2
    contenders = [own(started, 2, start) for _ in range(6)]
    answers = [process.communicate(timeout=60)[0].strip() for process in contenders]
    assert sorted(answers) == ["owned", *["refused"] * 5]


def test_a_second_owner_waits_for_the_first(started):
    process = own(started, 1.0)
    assert process.stdout.readline() == "owned\n"
    with started.owned(wait=60.0):
        assert process.wait(10) == 0


def test_a_second_owner_in_the_same_process_is_refused(started):
    with started.owned(), pytest.raises(FolderError, match="in use by process"), started.owned():
        pytest.fail("two owners")


def test_a_forked_child_does_not_keep_the_lock_of_its_parent(started):
    """A loader worker may outlive its trainer for a moment."""
    reader, writer = os.pipe()
    owner = os.fork()
    if owner == 0:
        with started.owned():
            child = os.fork()
            if child == 0:
                time.sleep(600)
            os.write(writer, f"{child}\n".encode())
            os._exit(0)
    child = int(os.read(reader, 100))
    os.waitpid(owner, 0)
    try:
        with started.owned():
            assert json.loads((started.path / "owner.json").read_text())["process"] == os.getpid()
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_note_of_an_owner_that_died_after_its_last_write_is_deleted(started):
    child = os.fork()
    if child == 0:
        owned = started.owned()
        owned.__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    assert (started.path / "owner.json").exists()
    started.finish({}, {})
    started.sweep()
    assert not (started.path / "owner.json").exists()
    with started.owned():
        started.sweep()
        assert (started.path / "owner.json").exists()


@pytest.mark.parametrize(
    "owner", [b"", b"{", b"[]", b"\xff", b'{"process": 1e999, "host": "h", "since": "s"}', b"[" * 100_000]
)
def test_a_lock_blocks_nobody_but_while_it_is_held_whatever_its_time_and_content(owner, started):
    for name, content in ((".owner.lock", owner), (".manifest.lock", owner), ("owner.json", owner)):
        (started.path / name).write_bytes(content)
        os.utime(started.path / name, (4e9, 4e9))
    with started.owned():
        started.manifest.write("file", b"content")
        with pytest.raises(FolderError, match="in use by process"), started.owned():
            pass
        (started.path / "owner.json").write_bytes(owner)
        with pytest.raises(FolderError, match="in use by another process"), started.owned():
            pass


@pytest.mark.parametrize("link", ["digits-ce", "digits-ce/seed-0"])
def test_no_run_starts_behind_a_link_below_the_output_folder(link, tmp_path):
    (tmp_path / "outside").mkdir()
    place = tmp_path / "runs" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "outside")
    folder = RunFolder.of(tmp_path / "runs", "digits-ce", 0)
    with pytest.raises(FolderError, match="is a link"), folder.owned():
        pass
    with pytest.raises(FolderError, match="is a link"):
        folder.start({"name": "digits-ce"}, {})
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("path", [".", "..", "seed-0", "a/seed-0", "/tmp"])
def test_every_folder_has_a_place(path):
    root, *names = RunFolder(path)._root_and_names()
    assert root.joinpath(*names) == RunFolder(path).path


@pytest.mark.parametrize("link", ["", "digits-ce", "digits-ce/seed-0"])
def test_nothing_is_deleted_from_a_finished_run_behind_a_link_below_the_output_folder(link, tmp_path):
    left = write_finished(tmp_path / "outside") / ".left.0123.tmp"
    left.touch()
    place = tmp_path / "runs" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(tmp_path / "outside" / link)  # the output folder itself may be a link: the user has named it
    RunFolder.of(tmp_path / "runs", "digits-ce", 0).sweep()
    assert left.exists() == bool(link)
