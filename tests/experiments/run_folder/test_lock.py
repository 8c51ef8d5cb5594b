"""One owner for a folder: among threads, processes, machines, and where there are no hard links."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opl.errors import FolderError
from opl.experiments.run_folder import RunFolder, lock
from opl.experiments.run_folder.lock import FileLock, Owner

HOLD = "import sys, time; from pathlib import Path; from opl.experiments.run_folder.lock import FileLock\n"


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "owner.json"


@pytest.fixture(params=["hard links", "no hard links"])
def links(request, monkeypatch):
    """A file system with hard links, and one without."""
    if request.param == "no hard links":
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError(1, "not permitted")))


def holder(file: Path) -> subprocess.Popen:
    """Another process that holds the lock until it is killed."""
    code = f"{HOLD}\nwith FileLock(Path({str(file)!r})):\n    print('held', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    return process


@pytest.mark.usefixtures("links")
def test_a_living_owner_is_named_and_a_dead_one_replaced(file):
    process = holder(file)
    try:
        with (
            pytest.raises(FolderError, match=rf"in use by process {process.pid} on .* wait until it ends"),
            FileLock(file),
        ):
            pytest.fail("two owners")
        os.kill(process.pid, signal.SIGSTOP)  # one that is stopped lives
        with pytest.raises(FolderError, match="in use"), FileLock(file):
            pytest.fail("two owners")
    finally:
        process.kill()
        process.wait()
    assert file.exists()
    with FileLock(file) as own:
        assert json.loads(file.read_text())["process"] == os.getpid()
        assert own.is_held()
    assert not file.exists()
    assert list(file.parent.iterdir()) == []


@pytest.mark.usefixtures("links")
def test_of_many_that_want_a_dead_owners_lock_one_gets_it(file):
    process = holder(file)
    process.kill()
    process.wait()
    code = (
        f"{HOLD}\nfrom opl.errors import FolderError\n"
        f"start = float(sys.argv[1])\ntime.sleep(max(0.0, start - time.time()))\n"
        f"try:\n    with FileLock(Path({str(file)!r})):\n        print('got'); time.sleep(2)\n"
        "except FolderError:\n    print('refused')"
    )
    start = str(time.time() + 3)
    many = [subprocess.Popen([sys.executable, "-c", code, start], stdout=subprocess.PIPE) for _ in range(6)]
    said = [process.communicate(timeout=60)[0].decode().strip() for process in many]
    assert sorted(said) == ["got", *["refused"] * 5]
    assert not file.exists()


def write_owner(file: Path, **changes) -> None:
    file.write_text(json.dumps(Owner.here()._replace(**changes)._asdict()))


def test_a_number_that_another_process_has_now_is_no_owner(file):
    write_owner(file, start="1")
    with FileLock(file):
        assert json.loads(file.read_text())["start"] != "1"


def test_an_owner_on_another_machine_is_dead_once_it_is_silent(file):
    write_owner(file, place="another machine", host="elsewhere")
    with pytest.raises(FolderError, match="on elsewhere"), FileLock(file):
        pytest.fail("two owners")
    past = time.time() - lock.SILENCE - 10
    os.utime(file, (past, past))
    with FileLock(file):
        assert json.loads(file.read_text())["host"] != "elsewhere"


def test_an_owner_shows_life_to_other_machines(file, monkeypatch):
    monkeypatch.setattr(lock, "REFRESH", 0.05)
    with FileLock(file, refresh=True):
        os.utime(file, (1, 1))
        deadline = time.monotonic() + 30
        while file.stat().st_mtime == 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert file.stat().st_mtime > 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"host": 1}', b"[" * 100_000])
def test_a_damaged_lock_is_waited_for_and_then_replaced(file, content):
    file.write_bytes(content)
    with pytest.raises(FolderError, match="in use"), FileLock(file):
        pytest.fail("somebody may be writing it")
    past = time.time() - lock.SILENCE - 10
    os.utime(file, (past, past))
    with FileLock(file) as own:
        assert own.is_held()


def test_whoever_was_replaced_does_not_delete_the_lock_of_the_next(file):
    with FileLock(file) as own:
        write_owner(file, token="another")
        assert not own.is_held()
    assert file.exists()


def test_a_run_in_a_folder_that_is_in_use_is_refused(tmp_path):
    folder = RunFolder.of(tmp_path, "r", 0)
    with folder.owned(), pytest.raises(FolderError, match="in use by process"), folder.owned():
        pytest.fail("two owners")
