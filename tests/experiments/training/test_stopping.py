"""Signals, checkpoints inside an epoch, the end of a parent, and numbers that are not finite."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
import torch
from _small_parts import TERM, at_step, few, send
from torch.optim.optimizer import register_optimizer_step_post_hook

from opl.errors import DivergedError, OptionError, StoppedError
from opl.experiments import cli, paper
from opl.experiments.data.batches import Batches
from opl.experiments.data.noisy_labels import UniformNoise
from opl.experiments.methods import Center, Composite, TruncatedLq
from opl.experiments.recipe import checkpoint_interval
from opl.experiments.run_folder import RunFolder
from opl.experiments.training import run as module
from opl.experiments.training.run import run
from opl.optim import AdamW

SMALL = replace(few(40, val=10, test=10), epochs=3)  # ten steps per epoch


def folder(out, recipe) -> RunFolder:
    return RunFolder.of(out, recipe.name, recipe.seed)


def content(out, recipe) -> bytes:
    return (folder(out, recipe).path / "model.safetensors").read_bytes()


def without_clocks(out, recipe) -> list[dict]:
    clocks = ("seconds", "images_per_second")
    return [
        {name: value for name, value in record.items() if name not in clocks}
        for record in folder(out, recipe).metrics()
    ]


KINDS = {
    "opl": SMALL,
    "adamw, accumulated": replace(SMALL, optimizer=AdamW(), accumulate=3),
    "centers that are learned": replace(SMALL, method=Composite(auxiliary=(Center(),))),
    "pruning": replace(SMALL, method=TruncatedLq(start=1, every=1), noise=UniformNoise(rate=0.2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_inside_an_epoch_resumes_bit_identically_at_the_next_step(tmp_path, kind):
    recipe = KINDS[kind]
    run(recipe, tmp_path / "whole")
    for epoch, step in ((0, 2), (1, 8), (2, 9)):  # 8 and 9: the end of a window of three, and the last step
        with at_step(epoch, step, TERM), pytest.raises(StoppedError, match="same command resumes") as caught:
            run(recipe, tmp_path / "stopped")
        assert caught.value.code == 143
        state = folder(tmp_path / "stopped", recipe).load()
        assert (state["epoch"], state["step"]) == (epoch, min(10, step + 1 + recipe.accumulate))  # the next step ends
    steps = []
    with at_step(2, 9, lambda: steps.append("a step of the last epoch")):
        run(recipe, tmp_path / "stopped")
    assert not steps  # all were done: only validation and the test were left
    assert content(tmp_path / "stopped", recipe) == content(tmp_path / "whole", recipe)
    assert without_clocks(tmp_path / "stopped", recipe) == without_clocks(tmp_path / "whole", recipe)


def test_checkpoints_inside_an_epoch_come_every_so_many_steps(tmp_path, monkeypatch):
    recipe, saved = replace(SMALL, checkpoint_every="4 steps"), []
    real = RunFolder.save
    monkeypatch.setattr(RunFolder, "save", lambda self, state: (saved.append(state), real(self, state)))
    run(recipe, tmp_path)
    assert [(state["epoch"], state.get("step", 0)) for state in saved] == [
        (0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (2, 0), (2, 4), (2, 8), (3, 0)
    ]  # fmt: skip
    saved.clear()
    run(replace(SMALL, seed=1), tmp_path)
    assert [state["epoch"] for state in saved] == [1, 2, 3]  # by time, short epochs see none


@pytest.fixture
def heeded():
    """SIGINT as a terminal has it: a shell lets the jobs in its background ignore it."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_command_prints_in_one_line_how_to_resume(tmp_path, capfd, signum, code, heeded):
    argv = ["train", "digits-opl", "--scale", "tiny", "--out", str(tmp_path)]
    with at_step(1, 0, send(signum)):
        assert cli.main(argv) == code
    line = capfd.readouterr().err.splitlines()[-1]
    name = signal.Signals(signum).name
    assert re.fullmatch(
        rf"opl: stopped by {name} in epoch 2, step \d+ of \d+: the same command resumes from here.", line
    )
    assert signal.getsignal(signum) is not None
    assert folder(tmp_path, paper.recipe("digits-opl", "tiny")).error() is None
    assert cli.main(argv) == 0


def test_a_signal_during_validation_keeps_the_steps_of_the_epoch(tmp_path, monkeypatch):
    real, calls = module.validate_part, []

    def validate(*arguments, **options):
        calls.append(0)
        if len(calls) == 2:
            TERM()
        return real(*arguments, **options)

    run(SMALL, tmp_path / "whole")
    monkeypatch.setattr(module, "validate_part", validate)
    with pytest.raises(StoppedError, match="epoch 2, step 10 of 10"):
        run(SMALL, tmp_path / "stopped")
    run(SMALL, tmp_path / "stopped")
    assert content(tmp_path / "stopped", SMALL) == content(tmp_path / "whole", SMALL)


def test_a_process_that_does_not_end_by_itself_is_ended(tmp_path):
    """A step that hangs, here for a minute, does not keep a stopped process alive."""
    script = (
        "import signal, os, time\n"
        "from opl.experiments.training import stopping\n"
        "stopping.GRACE = 0.5\n"
        "with stopping.StopSignals() as stop, stop.deferred():\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 143
    assert "resumes from the last checkpoint" in done.stderr


def test_a_child_ends_with_its_parent_and_other_processes_do_not(tmp_path):
    """The parent is killed with SIGKILL; the child that was marked is gone, the other one goes on."""
    child = (
        "import sys, time\n"
        "from opl.experiments.training.stopping import end_with_parent\n"
        "end_with_parent()\n"
        "print('ready', flush=True)\n"
        "time.sleep(50)\n"
    )
    parent = (
        "import os, signal, subprocess, sys\n"
        "from opl.experiments.training.stopping import child_environment\n"
        "command = [sys.executable, '-c', sys.argv[1]]\n"
        "marked = subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE)\n"
        "other = subprocess.Popen(command, stdout=subprocess.PIPE)\n"
        "marked.stdout.readline(), other.stdout.readline()\n"
        "print(marked.pid, other.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", parent, child], stdout=subprocess.PIPE, text=True, check=False)
    marked, other = map(int, done.stdout.split())
    deadline = time.monotonic() + 20
    while is_alive(marked) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not is_alive(marked)
    assert is_alive(other)
    os.kill(other, signal.SIGKILL)


def is_alive(process: int) -> bool:
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def test_a_step_that_is_not_finite_is_left_out_and_counted(tmp_path, monkeypatch):
    real, recipe = Batches.epoch, replace(SMALL, on_nan="skip")

    def epoch(batches, number, start_step=0):
        for at, batch in enumerate(real(batches, number, start_step), start_step):
            if number in (0, 2) and at == 3:
                batch.images[0, 0, 0, 0] = math.nan
            yield batch

    monkeypatch.setattr(Batches, "epoch", epoch)
    result = run(recipe, tmp_path / "skip")
    assert result["skipped_steps"] == 2
    assert [record["skipped_steps"] for record in folder(tmp_path / "skip", recipe).metrics()] == [1, 0, 1]
    assert all(torch.isfinite(value).all() for value in folder(tmp_path / "skip", recipe).weights().values())
    with pytest.raises(DivergedError, match="epoch 1, step 4"):
        run(replace(SMALL, seed=1), tmp_path / "stop")


def test_weights_that_are_not_finite_are_neither_saved_nor_finished(tmp_path):
    """The last step of an epoch ruins them, and no image is left to notice it: no validation, no test."""
    recipe = few(8, epochs=3)

    calls = []

    def ruin(optimizer, *_):
        calls.append(optimizer)
        if len(calls) == 6:
            optimizer.param_groups[0]["params"][0].data.fill_(math.inf)

    handle = register_optimizer_step_post_hook(ruin)
    try:
        with pytest.raises(DivergedError, match="weights are not finite"):
            run(recipe, tmp_path)
    finally:
        handle.remove()
    stored = folder(tmp_path, recipe)
    assert not stored.done
    assert "not finite" in stored.error()
    assert stored.load()["epoch"] == 2
    run(recipe, tmp_path)
    assert stored.done


def test_invalid_intervals_and_timeouts_are_refused():
    for text in ("", "5", "0 steps", "1.5 steps", "minutes", "-1 minutes", "5 hours", "nan steps"):
        with pytest.raises(OptionError, match="10 minutes"):
            checkpoint_interval(text)
    for timeout in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(OptionError, match="timeout"):
            replace(SMALL, timeout=timeout)


def test_a_signal_before_training_prints_how_to_resume_too(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_dispatch", lambda argv: TERM())
    assert cli.main(["train", "digits-opl"]) == 143
    assert (
        capsys.readouterr().err == "opl: stopped by SIGTERM outside of an epoch: the same command resumes from here.\n"
    )
