"""Tasks as jobs of submitit: its local executor runs them as processes of this machine, in place of SLURM."""

import json
import os
import signal
import stat
import time
from pathlib import Path

import psutil
import pytest

from opl.errors import OplError
from opl.experiments.run_folder import MODEL, RunFolder
from opl.experiments.runner import cluster, slurm
from opl.experiments.runner.executor import Resources, Task
from opl.experiments.runner.slurm import HOME, Slurm

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'orthogonal-projection-loss[slurm]'")


@pytest.fixture
def local(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setattr(Slurm, "interval", 0.05)

    return lambda cancel=False: Slurm(tmp_path, cancel, "local", timeout_min=60)


def test_tasks_run_in_order_and_one_failure_stops_only_what_comes_after_it(local, tmp_path):
    code = "import sys; sys.exit(sys.argv[1] == 'bad')"
    after = {"bad": (), "below": ("bad",), "good": (), "next": ("good",)}
    with local() as executor:
        for name, needs in after.items():
            executor.submit(Task(name, (name,), tmp_path / name, needs, program=("-c", code)))
        ends = {event.name: event.state for event in executor.watch()}
    assert ends == {"bad": "failed", "below": "skipped", "good": "done", "next": "done"}


def test_an_interrupted_command_prints_what_it_leaves(local, tmp_path, capsys):
    def interrupt():
        with local(cancel=True) as executor:
            executor.submit(Task("sleep", (), tmp_path / "log", program=("-c", "import time; time.sleep(60)")))
            for event in executor.watch():
                if event.state == "running":
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert "1 run on SLURM cancelled; the same command resumes" in capsys.readouterr().err


def test_a_folder_that_jobs_do_not_see_is_refused_before_anything_starts(local, tmp_path, monkeypatch):
    def blind(token_file, answer):
        answer.write_text('["node-7", "", {}]')

    monkeypatch.setattr(slurm, "write_description", blind)
    with pytest.raises(OplError, match="is not visible on node-7"), local():
        pytest.fail("the folder is not visible")


@pytest.mark.slow
def test_a_preempted_run_resumes_in_the_next_job_and_ends_with_the_same_bytes(local, tmp_path):
    def argv(out):
        return ("train", "digits-opl", "--scale", "tiny", "--epochs", "40", "--out", str(out))

    here, there = tmp_path / "alone", tmp_path / "slurm"
    with local() as executor:
        executor.submit(Task("alone", argv(here), tmp_path / "log"))
        assert [event.state for event in executor.watch()][-1] == "done"
        executor.submit(Task("run", argv(there), tmp_path / "log"))
        folder = RunFolder.of(there, "digits-opl", 0)
        events = executor.watch()
        assert next(events).state == "running"
        while not folder.metrics():
            time.sleep(0.05)
        job = executor.jobs["run"]
        (child,) = psutil.Process(int(job.job_id)).children()
        os.kill(child.pid, signal.SIGUSR2)  # as SLURM does, to the process in the job
        assert [event.state for event in events][-1] == "done"
    log = (Path(job.paths.folder) / f"{job.job_id}_0_log.err").read_text()
    assert "preempted" in log
    assert len(folder.metrics()) == 40
    assert (folder.path / MODEL).read_bytes() == (RunFolder.of(here, "digits-opl", 0).path / MODEL).read_bytes()


def test_flags_and_dependencies_reach_sbatch_and_a_submitted_job_is_found_again(tmp_path, monkeypatch):
    """With an sbatch that writes down what it is given, in place of SLURM's."""
    tools = tmp_path / "tools"
    tools.mkdir()
    scripts = {
        "sbatch": f'cp "$1" {tmp_path}/script-$(ls {tmp_path} | grep -c script-).sh\n'
        f'echo "Submitted batch job $((100 + $(ls {tmp_path} | grep -c script-)))"',
        "srun": "true",
        "sacct": 'echo "JobID|State|NodeList"',
    }
    for name, text in scripts.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod((tools / name).stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr(cluster, "check_machines", lambda folder, describe: None)
    needs = Resources(cpus=3, gpus=2, memory=8)
    first, second = Task("first", (), tmp_path / "a", (), needs), Task("second", (), tmp_path / "b", ("first",), needs)

    def submit(tasks):
        with Slurm(tmp_path, timeout_min=90, slurm_partition="gpu", slurm_account="lab") as executor:
            for task in tasks:
                executor.running[task.name] = task
                executor.start(task)
        return executor

    submit([first, second])
    texts = [file.read_text() for file in sorted(tmp_path.glob("script-*.sh"))]
    requested = ("partition=gpu", "account=lab", "time=90", "cpus-per-task=3", "gpus-per-node=2", "mem=8GB", "requeue")
    for wanted in requested:
        assert all(f"#SBATCH --{wanted}" in text for text in texts), wanted
    assert "--dependency=afterok:101" in texts[1]
    assert "dependency" not in texts[0]
    assert " -P -u -m submitit.core._submit" in texts[0]
    assert json.loads((tmp_path / HOME / "jobs.json").read_text()) == {"first": "101", "second": "102"}
    again = submit([first, second])
    assert len(list(tmp_path.glob("script-*.sh"))) == 2
    assert {name: job.job_id for name, job in again.jobs.items()} == {"first": "101", "second": "102"}


def test_a_machine_without_slurm_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OplError, match="sbatch was not found"):
        Slurm(tmp_path).__enter__()
