"""Runs of two processes: shards without images, the common last step, sharded weights, and lost processes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from _small_parts import few
from _two_processes import LARGE, PLAIN, STEPS

from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run

HERE = Path(__file__).parent
TOGETHER = HERE / "_two_processes.py"

pytestmark = pytest.mark.slow


def start(*argv: object, launcher: tuple[str, ...] = (), timeout: float = 400) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *launcher, str(TOGETHER), *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """The folder in which two processes left all runs of `_two_processes.py`."""
    out = tmp_path_factory.mktemp("together")
    done = start("everything", out)
    assert done.returncode == 0, done.stderr
    return out


def folder(out: Path, name: str) -> RunFolder:
    return RunFolder(next((out / name).rglob("recipe.json")).parent)


def test_parts_smaller_than_the_number_of_processes_are_trained_validated_and_tested(together):
    for train, val, test in ((1, 0, 0), (1, 1, 1), (5, 1, 0), (5, 0, 1), (5, 3, 2)):
        result = folder(together, f"parts-{train}-{val}-{test}")
        assert result.done
        assert ("val/top1" in result.result()) == (val > 0)
        assert ("test/top1" in result.result()) == (test > 0)
        assert not test or len(result.outputs()["labels"]) == test


def test_every_kind_of_loss_gets_along_with_a_shard_without_images(together):
    names = json.loads((together / "methods.json").read_text())
    assert len(names) > 10
    for name in names:
        result = folder(together, f"method-{name}")
        assert result.done, name
        assert all(torch.isfinite(value).all() for value in result.weights().values())


def test_two_processes_with_empty_shards_train_as_a_single_process(together, tmp_path):
    run(few(5, 1, 1, epochs=2), tmp_path)
    assert_equal(folder(together, "as-one-ddp"), folder(tmp_path, "."), 1e-5)
    assert_equal(folder(together, "as-one-fsdp"), folder(tmp_path, "."), 1e-5)


def test_gradients_of_shared_weights_are_those_of_one_process(together, tmp_path):
    """Steps of length one along the gradient, so that weights differ as gradients do."""
    run(few(32, batch_size=32, **PLAIN), tmp_path)
    for strategy in ("ddp", "fsdp"):
        assert_equal(folder(together, f"gradients-{strategy}"), folder(tmp_path, "."), 1e-6)


def test_opl_of_the_global_batch_is_that_of_one_process_at_every_step(together, tmp_path):
    run(STEPS, tmp_path)
    alone, both = (run.metrics() for run in (folder(tmp_path, "."), folder(together, "steps")))
    for ours, theirs in zip(both, alone, strict=True):
        assert ours["train/projection"] == pytest.approx(theirs["train/projection"], abs=1e-5)


def test_exact_accumulation_on_two_processes_is_one_large_batch(together, tmp_path):
    run(LARGE, tmp_path)
    assert_equal(folder(together, "exact"), folder(tmp_path, "."), 1e-6)


def test_a_step_that_is_not_finite_on_one_process_is_left_out_on_all(together):
    result = folder(together, "skip")
    assert result.result()["skipped_steps"] == 1
    assert all(torch.isfinite(value).all() for value in result.weights().values())


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_signal_to_one_process_stops_all_and_resume_is_bit_identical(together, strategy):
    ends = json.loads((together / f"stopped-{strategy}.json").read_text())
    assert ends == [["StoppedError", 143, [0, 6]], ["SystemExit", 143, [0, 6]]]
    whole, stopped = (folder(together, f"{name}-{strategy}") for name in ("whole", "stopped"))
    contents = [(run.path / "model.safetensors").read_bytes() for run in (whole, stopped)]
    assert contents[0] == contents[1]
    losses = [[record["train/loss"] for record in run.metrics()] for run in (whole, stopped)]
    assert losses[0] == losses[1]


LOST = {
    "the second is killed": (1, "SIGKILL", "another process of this run has ended"),
    "the second is stopped": (1, "SIGSTOP", "did not answer for 15 s"),
    "the first is stopped": (0, "SIGSTOP", "did not answer for 15 s"),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_lost_process_ends_all_with_a_sentence(tmp_path, kind):
    rank, signum, sentence = LOST[kind]
    done = start("lost", rank, signum, tmp_path, timeout=200)
    assert done.returncode in (1, -signal.SIGKILL)
    assert f"opl: {sentence}" in done.stderr.replace("opl: another process of this run did", "opl: did")
    result = folder(tmp_path, ".")
    assert sentence in result.error()
    assert result.load()["step"] == 6
    assert not _left_over(tmp_path)


def test_all_processes_end_when_the_first_is_killed(tmp_path):
    assert start("lost", 0, "SIGKILL", tmp_path).returncode == -signal.SIGKILL
    assert not _left_over(tmp_path)


def test_torchrun_restarts_a_run_that_lost_a_process_where_it_was(tmp_path):
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1", "--standalone")
    done = start("lost", 1, "SIGKILL", tmp_path / "lost", launcher=launcher)
    assert done.returncode == 0, done.stderr
    start("lost", 9, "SIGKILL", tmp_path / "whole")
    lost, whole = (folder(tmp_path, name).path / "model.safetensors" for name in ("lost", "whole"))
    assert lost.read_bytes() == whole.read_bytes()


def assert_equal(ours: RunFolder, theirs: RunFolder, tolerance: float) -> None:
    expected = theirs.weights()
    for name, value in ours.weights().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=tolerance)


def _left_over(out: Path) -> list[list[str]]:
    """The command lines of processes that still name the folder."""
    command_lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [argv for argv in command_lines if str(out) in " ".join(argv)]
