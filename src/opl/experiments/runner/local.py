"""Tasks as processes on this machine: each in a new process, or short ones in warm workers that import torch once."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import IO, Any, Self

from ..files import open_to_append
from ..training.stopping import child_environment
from .executor import Event, State, Task, is_hopeless, is_ready

WORKER = ("-m", "opl.experiments.cli.worker")
"""The arguments of Python for a warm worker."""
GRACE = 15.0
"""Seconds between SIGTERM, on which a run saves a checkpoint, and SIGKILL."""


class Child:
    """A Python process in a new process group, which ends when this process ends.

    It looks for modules where this process has them installed, never in the working folder.

    Args:
        arguments: the arguments of Python.
        environment: the environment of the process.
        output: where its output goes; by default, its standard output is a pipe.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.DEVNULL if output else subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=output,
            env=child_environment({**environment, "PYTHONSAFEPATH": "1"}),  # also for processes that it starts
            bufsize=0,
            start_new_session=True,
        )

    @classmethod
    def of(cls, task: Task, environment: Mapping[str, str]) -> "Child":
        """Start a task, whose output is appended to its log."""
        with open_to_append(task.log) as log:
            return cls((*task.program, *task.argv), environment, log)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def request(self, command: dict[str, Any]) -> int:
        """Let a worker execute a command; returns its exit code, or that of the worker if it died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            reply = self.process.stdout.readline()
        except (BrokenPipeError, ValueError):  # the worker died, or was ended
            reply = b""
        return int(reply) if reply else self.process.wait() or 1

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.is_alive():
            self.process.terminate()

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end of the process, then kill its group; returns its exit code.

        A process that has not ended after this many seconds is killed.
        """
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def end_all(children: Iterable[Child]) -> None:
    """Terminate processes, which may save a checkpoint, and wait until all have ended."""
    ending = list(children)
    for child in ending:
        child.terminate()
    for child in ending:
        child.wait(GRACE)


class Local:
    """Executes tasks in the order given, `parallel` at a time, which share cores and accelerators.

    No exception leaves a process behind, and if this process is killed, its children end too.

    Args:
        parallel: tasks that run at the same time.
        warm: execute tasks in `parallel` worker processes that live on, for tasks that take less time than importing
            torch. If a worker dies, only its task fails.
    """

    patience = 2 * GRACE

    def __init__(self, parallel: int, warm: bool = False) -> None:
        self.parallel, self.warm = parallel, warm
        self.waiting: list[Task] = []
        self.states: dict[str, State] = {}
        self.slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(parallel):
            self.slots.put(slot)
        self.children: dict[int, Child] = {}
        self.starting = threading.Lock()
        self.cancelled = False

    def __enter__(self) -> Self:
        self.pool = ThreadPoolExecutor(self.parallel)  # its threads live as long as their child processes
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self.pool.shutdown()

    def submit(self, task: Task) -> None:
        """Add a task; it starts when a slot is free and the tasks in its `after` are done."""
        if self.states.get(task.name) not in ("queued", "running"):
            self.waiting.append(task)
            self.states[task.name] = "queued"

    def watch(self) -> Iterator[Event]:
        """Start tasks and yield events until all have ended."""
        running: dict[Future[int], Task] = {}
        while self.waiting or running:
            for task in [task for task in self.waiting if is_hopeless(task, self.states)]:
                self.waiting.remove(task)
                yield self._change(task, "skipped")
            for task in [task for task in self.waiting if is_ready(task, self.states)][: self.parallel - len(running)]:
                self.waiting.remove(task)
                running[self.pool.submit(self._execute, task)] = task
                yield self._change(task, "running")
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield self._change(running.pop(future), "failed" if future.result() else "done")

    def cancel(self) -> None:
        """End all processes, which may save a checkpoint."""
        with self.starting:
            self.cancelled = True
            self.waiting.clear()
            end_all(self.children.values())

    def _change(self, task: Task, state: State) -> Event:
        self.states[task.name] = state
        return Event(task.name, state)

    def _execute(self, task: Task) -> int:
        """Execute a task in a free slot; returns its exit code."""
        slot = self.slots.get()
        try:
            if self.warm:
                return self._worker(slot).request({"argv": task.argv, "log": str(task.log)})
            with self.starting:
                child = self._keep(slot, Child.of(task, self._environment(slot)))
            return child.wait()
        finally:
            self.slots.put(slot)

    def _worker(self, slot: int) -> Child:
        """The worker of a slot, which is replaced if it died."""
        with self.starting:
            worker = self.children.get(slot)
            if worker is not None and worker.is_alive():
                return worker
            return self._keep(slot, Child(WORKER, self._environment(slot)))

    def _keep(self, slot: int, child: Child) -> Child:
        """Remember a child, so that it ends with the others."""
        self.children[slot] = child
        if self.cancelled:
            end_all([child])
        return child

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
