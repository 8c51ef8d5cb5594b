"""All runs and measures of a table or figure: `opl train` and `opl evaluate` commands; finished ones are kept."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ...errors import WARNING, OplError
from ..charts.figure import ARRAYS
from ..evaluation.protocols import protocol_of
from ..files import read_limited
from ..item import Item, Measure
from ..run_folder import RunFolder, own
from .display import Display, Line, Step, format_seconds
from .executor import ENDED, SHARE, Event, Executor, Resources, Task

if TYPE_CHECKING:
    from ..recipe import Recipe

FRESH = 1.0
"""Seconds before the progress in a run folder is read again."""
LOGS = ".measures"
"""The folder next to the runs for the output of measures."""
RunMeasure = tuple[RunFolder, tuple[str, ...]]
"""A run to measure, and the arguments that follow `opl evaluate RUN`."""


class JobProgress(NamedTuple):
    """The progress of a run."""

    epochs: int = 0
    seconds: float = 0.0
    """The time of these epochs."""
    images_per_second: float = 0.0
    val: float | None = None
    """Validation accuracy in percent, if it was measured after the last of them."""


@dataclass
class Job(Line):
    """One run: a recipe with a seed, and its progress."""

    recipe: str
    seed: int
    epochs: int
    folder: RunFolder
    after: str = ""
    """The recipe whose run must be finished first."""
    until: int = 0
    """The number of epochs after which it pauses; 0 for the end."""
    cost: float = 0.0
    """The seconds per run that its item states; 0 if unknown."""
    known: JobProgress = field(default_factory=JobProgress)
    read: float | None = None
    """When `known` was read from the folder."""

    @property
    def complete(self) -> bool:
        """Whether the run is finished, or has reached its pause."""
        return self.folder.done or (self.until > 0 and len(self.folder.metrics()) >= self.until)

    @property
    def last(self) -> int:
        """The number of epochs after which it ends or pauses."""
        return self.until or self.epochs

    @property
    def name(self) -> str:
        """The recipe and the seed, such as digits-ce seed 0."""
        return f"{self.recipe} seed {self.seed}"

    def describe(self) -> str:
        """Return one line for a log."""
        text = f"{self.name}: {self.state}"
        reached = self.reached()
        if self.state in ("running", "done") and reached.epochs:
            text += f", epoch {reached.epochs}/{self.epochs}"
            if reached.val is not None:
                text += f", val {reached.val:.2f}%"
            text += f", {reached.images_per_second:.0f} images/s"
        return text

    def conclude(self) -> str:
        """Return one line for a terminal, at the end."""
        val = self.reached().val
        accuracy = f", val {val:.2f} %" if self.state == "done" and val is not None else ""
        return f"{self.name}: {self.state}{f' in {format_seconds(self.took)}' if self.took else ''}{accuracy}"

    def reached(self) -> JobProgress:
        """Return the progress that its folder shows, or the last known progress if the folder cannot be read now."""
        if self.read is None or (not self.ended and time.monotonic() - self.read >= FRESH):
            self.read = time.monotonic()
            with suppress(OplError, OSError, ValueError, LookupError):  # it may be written at this moment
                records = self.folder.metrics()
                last = records[-1]
                seconds = sum(record["seconds"] for record in records)
                self.known = JobProgress(len(records), seconds, last["images_per_second"], last.get("val/top1"))
        return self.known

    def step(self) -> Step:
        """Return the progress for a bar on the terminal."""
        reached = self.reached()
        speed = f"{reached.images_per_second:.0f} images/s" if reached.epochs else ""
        return Step(reached.epochs, self.last, f"epoch {reached.epochs}/{self.last}", speed)

    def task(self, argv: tuple[str, ...], resources: Resources) -> Task:
        """Create its folder and return the command that trains it."""
        self.folder.create()
        before = (f"{self.after} seed {self.seed}",) if self.after else ()
        return Task(self.name, argv, self.folder.log_file, before, resources)

    def follow(self, event: Event) -> None:
        """Update the state from an event of the executor; the folder decides whether a run is done."""
        self.state = str(event.state)
        if event.state == "running":
            self.began = 0.0 if self.reached().epochs else time.monotonic()
        if event.state in ENDED:
            self.took = time.monotonic() - self.began if self.began else 0.0
            self.read = None
        if event.state == "skipped":
            self.state = f"failed (it needs {self.after}, which failed)"
        elif event.state in ENDED:
            reason = self.folder.error() or self.folder.last_log_line() or event.reason or "no message"
            self.state = "done" if self.complete else f"failed ({reason})"


def jobs_of(item: Item, scale: str, seeds: int, out: Path, look_up: Callable[[str], "Recipe"]) -> list[Job]:
    """Return the runs of a table: all rows of a seed, then the next seed, so that an early stop leaves complete pairs.

    Runs that a row needs, or that are members of its family, are included even if they are not rows.
    """
    jobs = []
    for index in range(seeds):
        rows, seed = [row for row in item.at(scale) if not row.seeds or index < row.seeds], item.first_seed + index
        for name in dict.fromkeys(name for row in rows for name in _chain(row.recipe, look_up)):
            recipe, folder = look_up(name), RunFolder.of(out, name, seed)
            jobs.append(Job(name, seed, recipe.epochs, folder, recipe.after, cost=item.cost_at(scale)))
    return jobs


def _chain(name: str, look_up: Callable[[str], "Recipe"]) -> list[str]:
    """Return a recipe name, preceded by the recipes that it needs and the members of its family."""
    recipe = look_up(name)
    before = (*((recipe.after,) if recipe.after else ()), *recipe.members)
    return [*(needed for other in before for needed in _chain(other, look_up)), name]


def run_all(jobs: list[Job], scale: str, out: Path, executor: Executor, resources: Resources = SHARE) -> list[Job]:
    """Train the unfinished runs with `opl train`; return the runs that failed."""
    options = ("--scale", scale, "--out", str(out), "--wait", str(executor.patience))
    argvs = [("train", job.recipe, "--seed", str(job.seed), *options) for job in jobs]
    return run_jobs(jobs, argvs, executor, resources)


def run_jobs(
    jobs: Sequence[Job],
    argvs: Sequence[tuple[str, ...]],
    executor: Executor,
    resources: Resources,
    display: Display | None = None,
) -> list[Job]:
    """Train the unfinished runs with these arguments of `opl`; return the runs that failed.

    Their progress is shown on a new display, or on the display that the caller has opened.
    """
    named = {job.name: job for job in jobs}
    for job, argv in zip(jobs, argvs, strict=True):
        if job.complete:
            job.state = "done"
        else:
            executor.submit(job.task(argv, resources))
    failed = []
    screen = Display(jobs, lambda running: seconds_left(jobs, running)) if display is None else nullcontext(display)
    with screen as opened:
        for event in executor.watch():
            job = named[event.name]
            job.follow(event)
            failed += [job] if job.state.startswith("failed") else []
            opened.update(job)
    return failed


def seconds_left(jobs: Sequence[Job], parallel: int) -> float | None:
    """Estimate the time of the unfinished runs, `parallel` at a time; None if nothing is known about a run.

    The time of an epoch is the mean of the run's epochs so far, else of runs of its recipe with other seeds, else of
    all other runs, else the time that the item states.
    """
    speeds = {job.name: job.reached().seconds / job.reached().epochs for job in jobs if job.reached().epochs}
    start = fmean(waits) if (waits := [job.took - job.reached().seconds for job in jobs if job.took]) else 0.0
    left = []
    for job in jobs:
        if job.ended:
            continue
        speed = _epoch_seconds(job, jobs, speeds)
        if speed is None:
            return None
        more = 0.0 if job.reached().epochs else max(0.0, start)
        left.append(max(0, job.last - job.reached().epochs) * speed + more)
    return max(sum(left) / max(1, parallel), *left) if left else 0.0


def _epoch_seconds(job: Job, jobs: Iterable[Job], speeds: dict[str, float]) -> float | None:
    if job.name in speeds:
        return speeds[job.name]
    same_recipe = [speeds[other.name] for other in jobs if other.recipe == job.recipe and other.name in speeds]
    if same_recipe or speeds:
        return fmean(same_recipe or speeds.values())
    return job.cost / job.epochs if job.cost else None


# Measures


@dataclass
class MeasureJob(Line):
    """A measure of a run, and its progress."""

    folder: RunFolder
    argv: tuple[str, ...]
    out: Path
    log: Path

    @property
    def name(self) -> str:
        """The run's folder inside `out`, and the arguments after `opl evaluate RUN`."""
        return " ".join((*self.folder.path.relative_to(self.out).parts, *self.argv))

    def describe(self) -> str:
        """Return one line for a log."""
        return f"{self.name}: measuring"

    def conclude(self) -> str:
        """Return one line for a terminal, at the end."""
        return f"{self.name}: {self.state} in {format_seconds(self.took)}"

    def step(self) -> Step:
        """Return the time since its start."""
        return Step(0, 0, format_seconds(time.monotonic() - self.began))

    def follow(self, event: Event) -> None:
        """Update the state from an event of the executor."""
        self.state = str(event.state)
        if event.state == "running":
            self.began = time.monotonic()
        self.took = time.monotonic() - self.began if self.ended and self.began else 0.0

    def output(self, reason: str) -> str:
        """Read and delete the log: all output of a failed measure, otherwise only warnings."""
        try:
            text = read_limited(self.log, links=False).decode(errors="replace")
        except OSError:
            text = ""
        self.log.unlink(missing_ok=True)
        if self.state != "done":
            return text.strip() or reason
        return "\n".join(line for line in text.splitlines() if WARNING in line)


def measure_all(
    item: Item, jobs: list[Job], scale: str, out: Path, executor: Executor, resources: Resources = SHARE
) -> list[Job]:
    """Measure what a table or figure needs besides the results of its runs; return the runs with failed measures.

    Only rows are measured, not the runs that they need.
    """
    rows = {row.recipe for row in item.at(scale)}

    def unmeasured() -> list[RunMeasure]:
        return [(job.folder, argv) for job in jobs if job.recipe in rows for argv in _unmeasured(item, job, scale)]

    failed = evaluate_all(unmeasured, out, executor, resources)
    return [job for job in jobs if any(folder is job.folder for folder, _ in failed)]


def evaluate_all(
    wanted: Callable[[], list[RunMeasure]], out: Path, executor: Executor, resources: Resources
) -> list[RunMeasure]:
    """Evaluate runs with the arguments that follow `opl evaluate RUN`; return the failed measures.

    One process at a time evaluates the runs of a folder. `wanted` is called again after waiting for another process.
    """
    measures: dict[str, MeasureJob] = {}
    if not wanted():
        return []
    with own(out, LOGS, wait=executor.patience) as logs:
        for folder, argv in wanted():
            measure = MeasureJob(folder, argv, out, logs / f"{len(measures)}.txt")
            measures[measure.name] = measure
            measure.log.unlink(missing_ok=True)  # left by a process that was killed
            executor.submit(Task(measure.name, ("evaluate", str(folder.path), *argv), measure.log, resources=resources))
        listed = list(measures.values())
        with Display(listed, lambda running: _measuring_left(listed, running)) as display:
            for event in executor.watch():
                measure = measures[event.name]
                measure.follow(event)
                if event.state == "running" or display.live:
                    display.update(measure)
                if measure.ended and (output := measure.output(event.reason)):
                    display.print(output)
    return [(measure.folder, measure.argv) for measure in listed if measure.state == "failed"]


def _measuring_left(measures: list[MeasureJob], parallel: int) -> float | None:
    """Estimate the time of the unfinished measures from the finished ones."""
    took = [measure.took for measure in measures if measure.took]
    return fmean(took) * sum(not measure.ended for measure in measures) / max(1, parallel) if took else None


def _unmeasured(item: Item, job: Job, scale: str) -> list[tuple[str, ...]]:
    """Return the arguments after `opl evaluate RUN` for arrays and measures that the item needs and the run lacks."""
    arrays = [(protocol_of(name),) for name in ARRAYS.get(item.figure, ()) if job.folder.outputs(name) is None]
    measures = [measure for measure in item.measures if scale in measure.scales]
    return [*arrays, *(measure.argv for measure in measures if not _is_measured(job.folder, measure))]


def _is_measured(folder: RunFolder, measure: Measure) -> bool:
    """Return whether a run has all numbers of a measure, with the settings of the table."""
    if not all(map(folder.has_measure, measure.names)):
        return False
    pairs = zip(measure.names, measure.settings, strict=False)
    return all(folder.measure(name).get("settings") == wanted for name, wanted in pairs)
