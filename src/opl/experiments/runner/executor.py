"""Where commands are executed: what every backend is given, and what it tells of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self

CHILD = ("-m", "opl.experiments.cli.child")
"""What Python runs for one `opl` command."""
State = Literal["queued", "running", "done", "failed", "skipped"]
ENDED: tuple[State, ...] = ("done", "failed", "skipped")


@dataclass(frozen=True)
class Resources:
    """What a task needs of the machine it runs on; where tasks run as local processes, they share it out instead."""

    cpus: int = 1
    gpus: int = 0
    memory: float = 0.0
    """Gigabytes; 0 asks for no particular amount."""


SHARE = Resources()


@dataclass(frozen=True)
class Task:
    """A command to execute."""

    name: str
    """Tells it from all others in the same folder."""
    words: tuple[str, ...]
    """The words after `opl`."""
    log: Path
    """The file that its output is appended to."""
    after: tuple[str, ...] = ()
    """The names of tasks that must be done before it starts; it is skipped if one of them fails."""
    resources: Resources = SHARE
    program: tuple[str, ...] = CHILD
    """What Python runs."""


class Event(NamedTuple):
    """A change of a task's state."""

    name: str
    state: State
    reason: str = ""
    """Why it failed, where the log of the task cannot say."""


class Executor(Protocol):
    """Executes tasks; as a context manager it decides what becomes of those that have not ended."""

    patience: float
    """Seconds that a run waits for another process in its folder, which may be about to end."""

    def __enter__(self) -> Self:
        """Prepare to execute tasks."""
        ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End what was prepared; with an exception, tasks may still run."""
        ...

    def submit(self, task: Task) -> None:
        """Add a task; those that it comes after are added before it. One that still runs is not started again."""
        ...

    def watch(self) -> Iterator[Event]:
        """Yield what happens, until all tasks have ended; a failure stops only those tasks that come after."""
        ...

    def cancel(self) -> None:
        """End all tasks that have not ended."""
        ...


def is_ready(task: Task, states: dict[str, State]) -> bool:
    """Whether all tasks that it comes after are done; those that were never submitted do not count."""
    return all(states.get(name, "done") == "done" for name in task.after)


def is_hopeless(task: Task, states: dict[str, State]) -> bool:
    """Whether a task that it comes after failed."""
    return any(states.get(name) in ("failed", "skipped") for name in task.after)


def run_tasks(executor: Executor, tasks: Sequence[Task]) -> dict[str, State]:
    """Execute tasks; returns how each ended."""
    for task in tasks:
        executor.submit(task)
    return {event.name: event.state for event in executor.watch() if event.state in ENDED}
