"""Tasks as processes on this machine: each in a new process, or short ones in warm workers that import torch once."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Self

import psutil

from ..files import open_to_append
from ..training.stopping import child_environment
from .executor import Scheduler, State, Task

WORKER = ("-m", "opl.experiments.cli.worker")
"""The arguments of Python for a warm worker."""
GRACE = 15.0
"""Seconds between SIGTERM, on which a run saves a checkpoint, and SIGKILL."""


def start_python(arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None) -> Any:
    """Start Python in a new process group, which ends when this process ends.

    It looks for modules where this process has them installed, never in the working folder.

    Args:
        arguments: the arguments of Python.
        environment: the environment of the process.
        output: where its output goes; by default, its standard input and output are pipes.
    """
    return psutil.Popen(
        [sys.executable, "-P", *arguments],
        stdin=subprocess.DEVNULL if output else subprocess.PIPE,
        stdout=output or subprocess.PIPE,
        stderr=output,
        env=child_environment({**environment, "PYTHONSAFEPATH": "1"}),  # also for processes that it starts
        bufsize=0,
        start_new_session=True,
    )


def start_task(task: Task, environment: Mapping[str, str]) -> Any:
    """Start a task in a new process; its output is appended to its log."""
    with open_to_append(task.log) as log:
        return start_python((*task.program, *task.argv), environment, log)


def end_processes(processes: Iterable[Any]) -> None:
    """Terminate processes, which may save a checkpoint, then kill what is left of their groups."""
    ending = list(processes)
    for process in ending:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(ending, GRACE)
    for process in ending:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with process:  # closes its pipes and waits for it
            pass


class Local(Scheduler):
    """Executes tasks in the order given, `parallel` at a time, which share cores and accelerators.

    No exception leaves a process behind, and if this process is killed, its children end too.

    Args:
        parallel: tasks that run at the same time.
        warm: execute tasks in `parallel` worker processes that live on, for tasks that take less time than importing
            torch. If a worker dies, only its task fails.
    """

    patience = 2 * GRACE
    interval = 0.02

    def __init__(self, parallel: int, warm: bool = False) -> None:
        super().__init__()
        self.parallel, self.warm, self.cancelled = parallel, warm, False
        self.children: dict[int, Any] = {}
        """The process of each slot; a slot has a share of the machine."""
        self.slots: dict[str, int] = {}
        """The slots of running tasks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.waiting.clear()
        end_processes(self.children.values())

    def cancel(self) -> None:
        """End all processes, which may save a checkpoint; another thread may call it."""
        self.cancelled = True

    def has_room(self) -> bool:
        """Whether a slot is free."""
        return len(self.slots) < self.parallel

    def start(self, task: Task) -> State:
        """Start a task in a free slot."""
        slot = min(set(range(self.parallel)) - set(self.slots.values()))
        self.slots[task.name] = slot
        if not self.warm:
            self.children[slot] = start_task(task, self._environment(slot))
            return "running"
        worker = self.children.get(slot)
        if worker is None or worker.poll() is not None:
            worker = self.children[slot] = start_python(WORKER, self._environment(slot))
        with contextlib.suppress(BrokenPipeError):  # it died, which `state` reports
            worker.stdin.write(json.dumps({"argv": task.argv, "log": str(task.log)}).encode() + b"\n")
        return "running"

    def state(self, name: str) -> State:
        """Return the state of a task; its process ends with it, but a worker waits for the next task."""
        if self.cancelled:
            self.cancelled = False
            self.waiting.clear()
            end_processes(self.children.values())
        slot = self.slots[name]
        child, reply = self.children[slot], b""
        code = child.poll()
        if self.warm and code is None and select.select([child.stdout], [], [], 0)[0]:
            reply = child.stdout.readline()
            code = int(reply) if reply else None
        if code is None:
            return "running"
        if not reply:
            end_processes([self.children.pop(slot)])
        del self.slots[name]
        return "failed" if code or (self.warm and not reply) else "done"

    def _environment(self, slot: int) -> dict[str, str]:
        """The environment of a slot, with its share of the machine."""
        devices = _accelerators()
        threads = str(max(1, (os.cpu_count() or 1) // self.parallel))
        device = {"CUDA_VISIBLE_DEVICES": devices[slot % len(devices)]} if len(devices) > 1 else {}
        return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, **device}


def _accelerators() -> list[str]:
    """The names of the accelerators that may be used."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(index) for index in range(torch.cuda.device_count())]
