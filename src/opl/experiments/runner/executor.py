"""Where commands run: the protocol of the backends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

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
