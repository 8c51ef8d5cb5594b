"""Tasks as local processes: bit-identical in warm workers, separate logs, order, and no process is left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from opl.experiments.run_folder import MODEL, RunFolder
from opl.experiments.runner.executor import Event, Task, run_tasks
from opl.experiments.runner.local import Local

ENDLESS = ("train", "digits-ce", "--scale", "tiny", "--epochs", "1000000", "--out")
HOSTILE = ("json", "torch", "opl", "queue", "ctypes", "numpy", "tyro", "lightning_fabric", "sitecustomize")
SLEEPER = """
import subprocess, sys, time
from pathlib import Path
from opl.experiments.training.stopping import child_environment, end_with_parent
end_with_parent()
rank = subprocess.Popen([sys.executable, "-c", sys.argv[2]], env=child_environment()) if sys.argv[2:] else None
if rank:
    Path(sys.argv[1]).write_text(str(rank.pid))
time.sleep(1000)
"""
SCRIPT = """
import sys
from pathlib import Path
from opl.experiments.runner.executor import Task
from opl.experiments.runner.placement import Placement
kind, folder, sleeper, *argv = sys.argv[1:]
with Placement(jobs=2).executor(Path(folder), kind == "warm") as executor:
    for name in ("first", "second"):
        given = ("--version",) if kind == "warm" else (*argv, str(Path(folder) / name))
        given += (sleeper,) if kind == "sleeper" else ()
        more = {"program": ("-c", sleeper)} if kind == "sleeper" else {}
        executor.submit(Task(name, given, Path(folder) / f"{name}.txt", **more))
    for event in executor.watch():
        print(*event, flush=True)
    __import__("time").sleep(1000)
"""


def finished(executor, *argv, log):
    task = Task(log.name, argv, log)
    return run_tasks(executor, [task])[task.name]


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def read_process(file: Path) -> psutil.Process:
    return psutil.Process(int(file.read_text()))


def wait_until(what, seconds=240):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_run_in_a_worker_after_another_method_is_bit_identical_to_a_run_alone(tmp_path):
    options = ("--scale", "tiny", "--seed", "1", "--out")
    with Local(2) as alone:
        assert finished(alone, "train", "digits-opl", *options, str(tmp_path / "alone"), log=tmp_path / "log") == "done"
    with Local(2, warm=True) as workers:
        for recipe in ("cifar100-resnet56-lgm", "digits-opl"):
            state = finished(workers, "train", recipe, *options, str(tmp_path / "pool"), log=tmp_path / recipe)
            assert state == "done"
    paths = [RunFolder.of(tmp_path / out, "digits-opl", 1).path / MODEL for out in ("alone", "pool")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert "digits-opl seed 1" in (tmp_path / "digits-opl").read_text()
    assert "lgm" not in (tmp_path / "digits-opl").read_text()


def test_a_worker_fails_one_command_alone_and_a_dead_one_is_replaced(tmp_path):
    with Local(1, warm=True) as workers:
        assert finished(workers, "train", "digits-op", log=tmp_path / "wrong") == "failed"
        assert finished(workers, "--version", log=tmp_path / "right") == "done"
        first = workers.children[0]
        workers.submit(Task("dying", (*ENDLESS, str(tmp_path)), tmp_path / "dying"))
        events = workers.watch()
        assert next(events) == Event("dying", "running")
        wait_until(lambda: (tmp_path / "dying").exists())
        first.kill()
        assert list(events) == [Event("dying", "failed")]
        assert finished(workers, "--version", log=tmp_path / "next") == "done"
        assert workers.children[0] is not first
    assert "did you mean 'digits-opl'" in (tmp_path / "wrong").read_text()
    assert (tmp_path / "right").read_text() == (tmp_path / "next").read_text() != ""


def test_tasks_start_in_order_after_what_they_need_and_one_failure_stops_only_what_comes_after_it(tmp_path):
    after = {"bad": (), "a": (), "below-bad": ("bad",), "b": ("a",), "below-below": ("below-bad",), "c": ()}
    code = "import sys; sys.exit(sys.argv[1] == 'bad')"
    tasks = [Task(name, (name,), tmp_path / name, needs, program=("-c", code)) for name, needs in after.items()]
    with Local(1) as executor:
        for task in tasks:
            executor.submit(task)
        events = list(executor.watch())
    assert [event.name for event in events if event.state == "running"] == ["bad", "a", "b", "c"]
    ends = {event.name: event.state for event in events if event.state != "running"}
    assert ends == {
        "bad": "failed", "a": "done", "below-bad": "skipped", "below-below": "skipped", "b": "done", "c": "done",
    }  # fmt: skip


def check_that_a_signal_leaves_nothing_behind(folder, number, kind, ready, argv=()):
    command = [sys.executable, "-c", SCRIPT, kind, str(folder), SLEEPER, *argv]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # ignored in background jobs
    ) as process:
        wait_until(ready)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        process.send_signal(number)
        assert process.wait(60) != 0
    wait_until(lambda: not any(map(is_alive, children)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_process_behind(tmp_path, number):
    ranks = [tmp_path / name for name in ("first", "second")]
    check_that_a_signal_leaves_nothing_behind(
        tmp_path, number, "sleeper", lambda: all(file.exists() and file.read_text() for file in ranks)
    )


def test_a_killed_parent_leaves_no_worker_behind(tmp_path):
    logs = [tmp_path / f"{name}.txt" for name in ("first", "second")]
    check_that_a_signal_leaves_nothing_behind(
        tmp_path, signal.SIGKILL, "warm", lambda: all(file.exists() and file.read_text() for file in logs)
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_leaves_no_trainer_behind(tmp_path, number):
    metrics = [RunFolder.of(tmp_path / name, "digits-ce", 0).path / "metrics.jsonl" for name in ("first", "second")]
    check_that_a_signal_leaves_nothing_behind(
        tmp_path, number, "alone", lambda: all(file.exists() for file in metrics), ENDLESS
    )


def test_processes_that_a_killed_child_started_end_too(tmp_path):
    with Local(1) as executor:
        executor.submit(Task("run", (str(tmp_path / "rank"), SLEEPER), tmp_path / "log", program=("-c", SLEEPER)))
        events = executor.watch()
        next(events)
        wait_until(lambda: (tmp_path / "rank").exists() and (tmp_path / "rank").read_text())
        rank = read_process(tmp_path / "rank")
        executor.children[0].kill()
        assert list(events) == [Event("run", "failed")]
    wait_until(lambda: not is_alive(rank))


@pytest.mark.slow
@pytest.mark.parametrize("warm", [True, False])
def test_modules_in_the_working_folder_are_never_run(tmp_path, monkeypatch, warm):
    here, out = tmp_path / "here", tmp_path / "out"
    here.mkdir()
    for name in HOSTILE:
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(here)
    with Local(1, warm=warm) as executor:
        ranks = () if warm else ("--devices", "2")
        argv = ("train", "digits-ce", "--scale", "tiny", "--epochs", "1", *ranks, "--out", str(out))
        assert finished(executor, *argv, log=tmp_path / "log") == "done", (tmp_path / "log").read_text()
    assert not (tmp_path / "executed").exists()


def test_a_worker_whose_parent_no_longer_listens_ends_without_a_traceback(tmp_path):
    command = [sys.executable, "-P", "-m", "opl.experiments.cli.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as worker:
        worker.stdout.close()
        worker.stdin.write(json.dumps({"argv": ["--version"], "log": str(tmp_path / "log")}).encode() + b"\n")
        worker.stdin.flush()
        assert worker.wait(60) == 0
        assert worker.stderr.read() == b""


def test_output_is_not_appended_behind_a_link_or_to_a_pipe(tmp_path):
    (tmp_path / "target").write_text("not ours")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with Local(1) as executor, pytest.raises(OSError, match=r"symbolic links|No such device"):
            finished(executor, "--version", log=tmp_path / name)
    assert (tmp_path / "target").read_text() == "not ours"
