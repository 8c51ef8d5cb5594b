"""Commands in processes of their own and in workers: the same bytes, their own logs, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from opl.experiments.cluster.commands import Commands, Workers, commands
from opl.experiments.run_folder import MODEL, RunFolder

ENDLESS = ("train", "digits-ce", "--scale", "tiny", "--epochs", "1000000", "--out")
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would this
from pathlib import Path
from opl.experiments.cluster.commands import Workers
with Workers(2) as workers:
    for log in ("first", "second"):
        workers.start(sys.argv[2:], Path(sys.argv[1]) / log)
    print(*(worker.pid for worker in workers.processes), flush=True)
    time.sleep(100)
"""


def finished(places, *words, log):
    execution = places.start(words, log)
    while execution.poll() is None:
        places.wait()
    return execution.poll()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_tiny_runs_share_workers_and_the_others_have_a_process_each():
    assert type(commands("tiny", 2)) is Workers
    assert type(commands("small", 2)) is type(commands("paper", 2)) is Commands


def test_a_run_has_the_same_bytes_in_a_worker_after_another_method_as_alone(tmp_path):
    words = ("--scale", "tiny", "--seed", "1", "--out")
    with Commands(2) as alone:
        assert finished(alone, "train", "digits-opl", *words, str(tmp_path / "alone"), log=tmp_path / "log") == 0
    with Workers(2) as workers:
        for recipe in ("cifar100-resnet56-lgm", "digits-opl"):
            assert finished(workers, "train", recipe, *words, str(tmp_path / "pool"), log=tmp_path / recipe) == 0
        worker, other = workers.processes
    assert other is None
    assert worker.poll() is not None
    paths = [RunFolder.of(tmp_path / out, "digits-opl", 1).path / MODEL for out in ("alone", "pool")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "digits-opl seed 1" in (tmp_path / "digits-opl").read_text()
    assert "lgm" not in (tmp_path / "digits-opl").read_text()


def test_a_worker_fails_one_command_alone_and_a_dead_one_is_replaced(tmp_path):
    with Workers(1) as workers:
        assert finished(workers, "train", "digits-op", log=tmp_path / "wrong") == 2
        assert finished(workers, "--version", log=tmp_path / "right") == 0
        first = workers.processes[0]
        dying = workers.start((*ENDLESS, str(tmp_path)), tmp_path / "dying")
        assert workers.free == []
        first.kill()
        while dying.poll() is None:
            workers.wait()
        assert dying.poll() not in (None, 0)
        assert finished(workers, "--version", log=tmp_path / "next") == 0
        assert workers.processes[0] is not first
    assert "did you mean 'digits-opl'" in (tmp_path / "wrong").read_text()
    assert (tmp_path / "right").read_text() == (tmp_path / "next").read_text() != ""


@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGTERM, ENDLESS), (signal.SIGINT, ENDLESS), (signal.SIGKILL, ("--version",))]
)
def test_a_signal_leaves_no_worker_behind(tmp_path, number, words):
    given = [*words, str(tmp_path)] if words == ENDLESS else list(words)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
        process.send_signal(number)
        assert process.wait(60) != 0
    end = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.05)
