"""Where commands run: tasks and their processes, what a backend implements, and the order of tasks."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import psutil

from ..files import open_to_append
from ..training.stopping import child_environment

OPL = ("-m", "opl")
"""The arguments of Python for one `opl` command."""
GRACE = 15.0
"""Seconds between SIGTERM, after which a run saves a checkpoint and ends within 9 s, and SIGKILL."""
State = Literal["queued", "running", "done", "failed", "skipped"]
ENDED: tuple[State, ...] = ("done", "failed", "skipped")


@dataclass(frozen=True)
class Resources:
    """What a task needs on a cluster; local tasks share the cores and accelerators of the machine instead."""

    cpus: int = 1
    gpus: int = 0
    memory: float = 0.0
    """Gigabytes; 0 requests no particular amount."""


SHARE = Resources()


@dataclass(frozen=True)
class Task:
    """A command to execute."""

    name: str
    """Unique among the tasks of a folder."""
    argv: tuple[str, ...]
    """The arguments of the program."""
    log: Path
    """The file to which its output is appended."""
    after: tuple[str, ...] = ()
    """The names of tasks that must be done before it starts; if one of them fails, it is skipped."""
    resources: Resources = SHARE
    program: tuple[str, ...] = OPL
    """The arguments of Python before `argv`."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All arguments of Python."""
        return (*self.program, *self.argv)


class Event(NamedTuple):
    """A change in the state of a task."""

    name: str
    state: State
    reason: str = ""
    """Why the task failed, if its log cannot tell."""


def start_python(
    arguments: Sequence[str], threads: int, environment: Mapping[str, str], log: Path | None = None
) -> Any:
    """Start Python in a new process group, which ends when this process ends.

    It looks for modules where this process has them installed, never in the working folder. Its output is appended to
    the log; without one, its standard input and output are pipes.
    """
    variables = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONSAFEPATH": "1"}
    with open_to_append(log) if log else contextlib.nullcontext() as output:
        return psutil.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.DEVNULL if output else subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=output,
            env=child_environment({**environment, **variables}),
            bufsize=0,
            start_new_session=True,
        )


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


class Executor(ABC):
    """Executes tasks in order, after the tasks that they need; a backend starts tasks and reports states.

    Leaving its context decides what happens to tasks that have not ended; after an exception, they may still run on a
    cluster.
    """

    patience: float
    """Seconds that a run waits for another process in its folder, which may be about to end."""
    interval: float
    """Seconds between two polls of the states."""
    ahead = False
    """Whether tasks are submitted before the tasks that they need are done; the backend starts them afterwards."""

    def __init__(self) -> None:
        self.waiting: list[Task] = []
        self.running: dict[str, Task] = {}
        self.states: dict[str, State] = {}
        self.reasons: dict[str, str] = {}
        """Why tasks failed, if their logs cannot tell."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    @abstractmethod
    def start(self, task: Task) -> State:
        """Start a task, unless it still runs, and return its state."""

    @abstractmethod
    def state(self, name: str) -> State:
        """Return the state of a task that was started."""

    @abstractmethod
    def cancel(self) -> None:
        """End all tasks that have not ended."""

    def can_start(self) -> bool:
        """Return whether another task can be started; a cluster queues any number."""
        return True

    def submit(self, task: Task) -> None:
        """Add a task, unless it waits or runs."""
        if self.states.get(task.name) not in ("queued", "running"):
            self.waiting.append(task)
            self.states[task.name] = "queued"

    def watch(self) -> Iterator[Event]:
        """Start tasks and yield events until all have ended; a failure stops only the tasks that come after it."""
        while self.waiting or self.running:
            for task in list(self.waiting):
                needs = self._needs(task)
                if needs & {"failed", "skipped"}:
                    self.waiting.remove(task)
                    yield from self._change(task.name, "skipped")
                elif (self.ahead or needs <= {"done"}) and self.can_start():
                    self.waiting.remove(task)
                    self.running[task.name] = task
                    yield from self._change(task.name, self.start(task))
            for name, task in list(self.running.items()):
                state = self.state(name)
                if state == "failed" and self._needs(task) & {"failed", "skipped"}:
                    state = "skipped"  # the cluster, which had it ahead of time, never started it
                if state in ENDED:
                    del self.running[name]
                yield from self._change(name, state)
            time.sleep(self.interval if self.running else 0)

    def _needs(self, task: Task) -> set[State]:
        """Return the states of the tasks that must be done first."""
        return {self.states.get(name, "done") for name in task.after}

    def _change(self, name: str, state: State) -> Iterator[Event]:
        if state != self.states[name]:
            self.states[name] = state
            yield Event(name, state, self.reasons.get(name, ""))


def run_tasks(executor: Executor, tasks: Sequence[Task]) -> dict[str, State]:
    """Execute tasks and return their final states by name."""
    for task in tasks:
        executor.submit(task)
    return {event.name: event.state for event in executor.watch() if event.state in ENDED}
