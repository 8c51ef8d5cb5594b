"""Child processes: Python with a safe path, in a group of their own, that end with this process."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

from .executor import Task
from .lifeline import GRACE

WORKER = ("-m", "opl.experiments.cli.worker")
"""What Python runs to execute one command after another."""


class Child:
    """A Python process that looks for modules where this one is installed, never in the working folder.

    Args:
        arguments: what follows `python`.
        environment: of the process.
        output: where what it writes goes; by default, a pipe takes its standard output.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=output,
            env={**environment, "PYTHONSAFEPATH": "1"},  # for what it starts itself
            bufsize=0,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self.process.pid

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def order(self, command: dict[str, Any]) -> int:
        """Have a worker execute a command; returns its exit code, or that of the worker if it died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            reply = self.process.stdout.readline()
        except (BrokenPipeError, ValueError):  # it died, or was ended
            reply = b""
        return int(reply) if reply else self.process.wait() or 1

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.is_alive():
            self.process.terminate()

    def wait(self, seconds: float | None = None) -> int:
        """Wait for its end and end its group; after so many seconds it is killed. Returns its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def end_all(children: Iterable[Child]) -> None:
    """Terminate all, with time to save a checkpoint, and wait until they have ended."""
    some = list(children)
    for child in some:
        child.terminate()
    for child in some:
        child.wait(GRACE)


def start_child(task: Task, environment: Mapping[str, str]) -> Child:
    """Start a task; its output is appended to its log."""
    with task.log.open("ab") as file:
        return Child((*task.program, *task.words), environment, file)


def run_child(task: Task, environment: Mapping[str, str]) -> int:
    """Execute a task on a machine of a cluster, with its share of the cores; returns its exit code."""
    return start_child(task, share_of(task, environment)).wait()


def share_of(task: Task, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a task on a machine of a cluster.

    A run starts its own processes, so it must not take the batch job around it for its launcher.
    """
    threads = str(task.resources.cpus)
    here = {name: value for name, value in os.environ.items() if name != "SLURM_NTASKS"}
    return {**here, **environment, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def passed_on() -> dict[str, str]:
    """The settings in the environment of this process that tasks on other machines need too."""
    return {name: value for name, value in os.environ.items() if name.startswith("OPL_")}
