"""Where commands run: the protocol of the backends, and the flags that choose one."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Protocol, Self

from ..._ranges import Range

OPL = ("-m", "opl")
"""The arguments of Python for one `opl` command."""
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


class Event(NamedTuple):
    """A change of a task's state."""

    name: str
    state: State
    reason: str = ""
    """Why the task failed, if its log cannot tell."""


class Executor(Protocol):
    """Executes tasks; leaving its context decides what happens to tasks that have not ended."""

    patience: float
    """Seconds that a run waits for another process in its folder, which may be about to end."""

    def __enter__(self) -> Self:
        """Prepare to execute tasks."""
        ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Clean up; after an exception, tasks may still run on a cluster."""
        ...

    def submit(self, task: Task) -> None:
        """Add a task, after the tasks named in its `after`. A task that still runs is not started again."""
        ...

    def watch(self) -> Iterator[Event]:
        """Yield events until all tasks have ended; a failure stops only the tasks that come after it."""
        ...

    def cancel(self) -> None:
        """End all tasks that have not ended."""
        ...


def is_ready(task: Task, states: dict[str, State]) -> bool:
    """Whether all tasks in its `after` are done; tasks that were never submitted do not count."""
    return all(states.get(name, "done") == "done" for name in task.after)


def is_hopeless(task: Task, states: dict[str, State]) -> bool:
    """Whether a task in its `after` failed."""
    return any(states.get(name) in ("failed", "skipped") for name in task.after)


def run_tasks(executor: Executor, tasks: Sequence[Task]) -> dict[str, State]:
    """Execute tasks; returns their final states by name."""
    for task in tasks:
        executor.submit(task)
    return {event.name: event.state for event in executor.watch() if event.state in ENDED}


Backend = Literal["local", "ray", "slurm"]
Jobs = Annotated[int, Range(1, 1024)]


@dataclass(frozen=True)
class Placement:
    """Where runs are executed, and with which resources."""

    on: Backend = "local"
    """Processes on this machine, a Ray cluster (RAY_ADDRESS, or a new one on this machine), or SLURM jobs."""
    jobs: Jobs = 1
    """Runs in parallel on this machine (at least two at the tiny scale); they share cores and accelerators."""
    cpus: Jobs = 1
    """Cores per run on a cluster."""
    gpus: Annotated[int, Range(0, 1024)] = 0
    """Accelerators per run on a cluster."""
    memory: Annotated[float, Range(0, 1e6)] = 0.0
    """Gigabytes per run on a cluster; 0 requests no particular amount."""
    partition: str = ""
    """SLURM partition."""
    account: str = ""
    """SLURM account."""
    time: Annotated[int, Range(1, 10**6)] = 1440
    """Minutes until SLURM requeues a run, which then resumes."""
    on_interrupt: Literal["leave", "cancel"] = "leave"
    """What Ctrl-C does with runs on a cluster: leave them running, or cancel them."""

    @property
    def resources(self) -> Resources:
        """The resources per run on a cluster."""
        return Resources(self.cpus, self.gpus, self.memory)

    @contextmanager
    def executor(self, folder: Path, short: bool) -> Iterator[Executor]:
        """Open the executor for runs below a folder; SIGTERM interrupts it like Ctrl-C.

        Args:
            folder: the folder of the runs.
            short: whether runs take less time than importing torch, so that on this machine they share warm workers.
        """
        with _sigterm_interrupts(), self._build(folder, short) as executor:
            yield executor

    def _build(self, folder: Path, short: bool) -> Executor:
        cancel = self.on_interrupt == "cancel"
        if self.on == "ray":
            from .ray_executor import RayCluster

            return RayCluster(folder, cancel)
        if self.on == "slurm":
            from .slurm import Queue, Slurm

            return Slurm(folder, Queue(self.partition, self.account, self.time), cancel)
        from .local import Local

        cores = min(2, os.cpu_count() or 1)  # the networks of short runs gain nothing from a second thread
        return Local(max(self.jobs, cores) if short else self.jobs, warm=short)


HERE = Placement()


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)
