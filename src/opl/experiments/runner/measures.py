"""Measures of many runs: each is an `opl evaluate` command, those that were taken are kept."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import fmean

from ...errors import WARNING
from ..evaluation.protocols import protocol_of
from ..item import Item, Measure
from ..run_folder import RunFolder
from .estimate import about
from .executor import ENDED, SHARE, Event, Executor, Resources, Task
from .jobs import Job
from .screen import Screen, Step

LOGS = ".measures"
"""The folder beside the runs for what is said while they are measured."""


def measure_all(
    item: Item, jobs: list[Job], scale: str, out: Path, executor: Executor, resources: Resources = SHARE
) -> list[Job]:
    """What a table or figure needs beside the results of its runs; returns the runs of which a measure failed.

    A run that others come after is measured only where it is a row itself.
    """
    rows = {row.recipe for row in item.at(scale)}
    wanted = [(job, words) for job in jobs if job.recipe in rows for words in _unmeasured(item, job, scale)]
    failed = evaluate_all([(job.folder, words) for job, words in wanted], out, executor, resources)
    return [job for job, words in wanted if (job.folder, words) in failed]


@dataclass
class Measuring:
    """A measure of a run, and how it goes."""

    name: str
    folder: RunFolder
    words: tuple[str, ...]
    log: Path
    state: str = "waiting"
    began: float = 0.0
    took: float = 0.0

    @property
    def ended(self) -> bool:
        """Whether it is done, or failed."""
        return self.state in ENDED

    def describe(self) -> str:
        """One line for a log."""
        return f"{self.name}: measuring"

    def conclude(self) -> str:
        """One line for a terminal, at the end."""
        return f"{self.name}: {self.state} in {about(self.took)}"

    def step(self) -> Step:
        """How long it runs."""
        return Step(0, 0, about(time.monotonic() - self.began))

    def follow(self, event: Event) -> None:
        """Take over what the executor says."""
        self.state = str(event.state)
        if event.state == "running":
            self.began = time.monotonic()
        self.took = time.monotonic() - self.began if self.ended and self.began else 0.0


def evaluate_all(
    wanted: Iterable[tuple[RunFolder, tuple[str, ...]]], out: Path, executor: Executor, resources: Resources
) -> list[tuple[RunFolder, tuple[str, ...]]]:
    """Evaluate runs with the words that follow `opl evaluate RUN`; returns those that failed."""
    logs = out / LOGS
    tasks: dict[str, Measuring] = {}
    for folder, words in wanted:
        logs.mkdir(exist_ok=True)
        name = f"{folder.path.parent.name} {folder.path.name} {' '.join(words)}"
        tasks[name] = task = Measuring(name, folder, words, logs / f"{len(tasks)}.txt")
        task.log.unlink(missing_ok=True)
        command = ("evaluate", str(folder.path), *words)
        executor.submit(Task(name, command, task.log, resources=resources))
    with Screen(list(tasks.values()), lambda running: _seconds_left(list(tasks.values()), running)) as screen:
        for event in executor.watch():
            task = tasks[event.name]
            task.follow(event)
            if event.state == "running" or screen.live:
                screen.say(task)
            if task.ended:
                said = task.log.read_text(errors="replace") if task.log.exists() else ""
                task.log.unlink(missing_ok=True)
                if lines := _worth_saying(said or event.reason, task.state == "done"):
                    screen.note(lines)
    if logs.exists() and not any(logs.iterdir()):
        logs.rmdir()
    return [(task.folder, task.words) for task in tasks.values() if task.state in ("failed", "skipped")]


def _seconds_left(tasks: list[Measuring], at_once: int) -> float | None:
    """About how long those that have not ended take, by those that have."""
    took = [task.took for task in tasks if task.took]
    if not took:
        return None
    return fmean(took) * sum(not task.ended for task in tasks) / max(1, at_once)


def _worth_saying(text: str, done: bool) -> str:
    """The output of a measure that failed, and the warnings of one that did not."""
    return "\n".join(line for line in text.splitlines() if WARNING in line) if done else text.strip()


def _unmeasured(item: Item, job: Job, scale: str) -> list[tuple[str, ...]]:
    """The words after `opl evaluate RUN` for all that the item needs and the run has not yet."""
    arrays = [name for name in _arrays_of(item) if job.folder.outputs(name) is None]
    measures = [measure for measure in item.measures if scale in measure.scales]
    missing = [measure.words for measure in measures if not _is_measured(job.folder, measure)]
    return [*((protocol_of(name),) for name in arrays), *missing]


def _is_measured(folder: RunFolder, measure: Measure) -> bool:
    """Whether a run has all numbers of a measure, with the settings of the table."""
    if not all(map(folder.has_measure, measure.names)):
        return False
    pairs = zip(measure.names, measure.settings, strict=False)
    return all(folder.measure(name).get("settings") == wanted for name, wanted in pairs)


def _arrays_of(item: Item) -> tuple[str, ...]:
    """Which arrays of a run the figure is drawn from."""
    needs: tuple[str, ...] = import_module(f"opl.experiments.charts.{item.figure}").NEEDS if item.figure else ()
    return needs
