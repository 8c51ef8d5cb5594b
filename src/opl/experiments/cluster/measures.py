"""Measures of many runs: each is an `opl evaluate` command, those that were taken are kept."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from ...errors import WARNING
from ..evaluation.registry import protocol_of
from ..item import Item, Measure
from ..run_folder import RunFolder
from .executor import ENDED, SHARE, Executor, Resources, Task
from .jobs import Job

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


def evaluate_all(
    wanted: Iterable[tuple[RunFolder, tuple[str, ...]]], out: Path, executor: Executor, resources: Resources
) -> list[tuple[RunFolder, tuple[str, ...]]]:
    """Evaluate runs with the words that follow `opl evaluate RUN`; returns those that failed."""
    logs = out / LOGS
    tasks: dict[str, tuple[RunFolder, tuple[str, ...]]] = {}
    for folder, words in wanted:
        logs.mkdir(exist_ok=True)
        name = f"{folder.path.parent.name} {folder.path.name} {' '.join(words)}"
        log = logs / f"{len(tasks)}.txt"
        log.unlink(missing_ok=True)
        tasks[name] = (folder, words)
        executor.submit(Task(name, ("evaluate", str(folder.path), *words), log, resources=resources))
    failed = []
    for event in executor.watch():
        if event.state == "running":
            print(f"{event.name}: measuring", file=sys.stderr, flush=True)
        if event.state in ENDED:
            log = logs / f"{list(tasks).index(event.name)}.txt"
            said = log.read_text(errors="replace") if log.exists() else ""
            log.unlink(missing_ok=True)
            if lines := _worth_saying(said or event.reason, event.state == "done"):
                print(lines, file=sys.stderr)
            failed += [] if event.state == "done" else [tasks[event.name]]
    if logs.exists() and not any(logs.iterdir()):
        logs.rmdir()
    return failed


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
    needs: tuple[str, ...] = import_module(f"opl.experiments.figures.{item.figure}").NEEDS if item.figure else ()
    return needs
