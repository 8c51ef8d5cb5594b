"""All runs of a table or figure, several at a time: each is an `opl train` command, finished ones are kept."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ...errors import WARNING
from ..evaluation.registry import protocol_of
from ..item import Item, Measure
from ..run_folder import RunFolder
from .commands import Commands, Execution

if TYPE_CHECKING:
    from ..recipe import Recipe


@dataclass
class Job:
    """One run: a recipe with a seed, and how it goes."""

    recipe: str
    seed: int
    epochs: int
    folder: RunFolder
    after: str = ""
    """The recipe whose run must be finished before."""
    state: str = "waiting"

    def describe(self) -> str:
        """One line for the screen."""
        text = f"{self.recipe} seed {self.seed}: {self.state}"
        records = self.folder.metrics() if self.state in ("running", "done") else []
        if records:
            last = records[-1]
            text += f", epoch {last['epoch'] + 1}/{self.epochs}"
            if "val/top1" in last:
                text += f", val {last['val/top1']:.2f}%"
            text += f", {last['images_per_second']:.0f} images/s"
        return text


def jobs_of(item: Item, scale: str, seeds: int, out: Path, look: Callable[[str], "Recipe"]) -> list[Job]:
    """The runs of a table: all rows of a seed, then the next seed, so that an early stop leaves whole pairs.

    A run that others come after is among them, also where it is no row.
    """
    names = list(dict.fromkeys(name for row in item.at(scale) for name in _chain(row.recipe, look)))
    return [
        Job(name, seed, look(name).epochs, RunFolder.of(out, name, seed), look(name).after)
        for seed in range(seeds)
        for name in names
    ]


def _chain(name: str, look: Callable[[str], "Recipe"]) -> list[str]:
    """A recipe after all that it comes after."""
    before = look(name).after
    return [*(_chain(before, look) if before else []), name]


def run_all(jobs: list[Job], scale: str, out: Path, commands: Commands) -> list[Job]:
    """Run them by `opl train`, as many at a time as there are places; returns those that failed."""
    waiting = [job for job in jobs if not job.folder.done]
    for job in jobs:
        if job not in waiting:
            job.state = "done"
    running: list[tuple[Job, Execution]] = []
    failed: list[Job] = []
    with _Screen(jobs) as screen:
        while waiting or running:
            for job in [job for job in waiting if _hopeless(job, failed)]:
                waiting.remove(job)
                job.state = f"failed (it comes after {job.after}, which failed)"
                failed.append(job)
                screen.say(job)
            for job in [job for job in waiting if _ready(job)][: len(commands.free)]:
                waiting.remove(job)
                running.append((job, _start(job, scale, out, commands)))
                screen.say(job)
            commands.wait()
            for job, execution in [pair for pair in running if pair[1].poll() is not None]:
                running.remove((job, execution))
                job.state = "done" if job.folder.done else f"failed ({_why(job)})"
                failed += [] if job.folder.done else [job]
                screen.say(job)
            screen.refresh()
    return failed


def measure_all(item: Item, jobs: list[Job], scale: str, commands: Commands) -> list[Job]:
    """What a table or figure needs beside the results of its runs, by `opl evaluate`; returns the runs of which a
    measure failed. A run that others come after is measured only where it is a row itself."""
    rows = {row.recipe for row in item.at(scale)}
    wanted = [(job, words) for job in jobs if job.recipe in rows for words in _unmeasured(item, job, scale)]
    failed = []
    with TemporaryDirectory() as logs:
        running = []
        for number, (job, words) in enumerate(wanted):
            while not commands.free:
                commands.wait()
            print(f"{job.recipe} seed {job.seed}: measuring {' '.join(words)}", file=sys.stderr, flush=True)
            log = Path(logs) / str(number)
            running.append((job, log, commands.start(("evaluate", str(job.folder.path), *words), log)))
        for job, log, execution in running:
            while (code := execution.poll()) is None:
                commands.wait()
            if words_of := _worth_saying(log.read_text(errors="replace"), code):
                print(words_of, file=sys.stderr)
            failed += [job] if code else []
    return failed


def _worth_saying(text: str, code: int) -> str:
    """The output of a measure that failed, and the warnings of one that did not."""
    return text.strip() if code else "\n".join(line for line in text.splitlines() if WARNING in line)


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


def _ready(job: Job) -> bool:
    return not job.after or job.folder.beside(job.after).done


def _hopeless(job: Job, failed: list[Job]) -> bool:
    return any((other.recipe, other.seed) == (job.after, job.seed) for other in failed)


def _start(job: Job, scale: str, out: Path, commands: Commands) -> Execution:
    job.folder.path.mkdir(parents=True, exist_ok=True)
    job.state = "running"
    words = ("train", job.recipe, "--seed", str(job.seed), "--scale", scale, "--out", str(out))
    return commands.start(words, job.folder.log_file)


def _why(job: Job) -> str:
    return job.folder.error() or job.folder.last_log_line() or "no message"


class _Screen:
    """A line for each run that moves, on a terminal; elsewhere a line when one starts or ends."""

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs, self.live = jobs, sys.stderr.isatty()

    def __enter__(self) -> "_Screen":
        if self.live:
            from rich.console import Console
            from rich.live import Live

            self.view = Live(console=Console(stderr=True), refresh_per_second=4)
            self.view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.view.stop()

    def refresh(self) -> None:
        if self.live:
            from rich.text import Text

            self.view.update(Text("\n".join(job.describe() for job in self.jobs)))

    def say(self, job: Job) -> None:
        if not self.live:
            print(job.describe(), file=sys.stderr, flush=True)
