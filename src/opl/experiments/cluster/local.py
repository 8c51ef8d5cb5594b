"""All runs of a table or figure, several at a time: each is its own `opl train` process, finished ones are kept."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import WARNING
from ..evaluation.registry import protocol_of
from ..item import Item, Measure
from ..run_folder import RunFolder

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
    process: subprocess.Popen[bytes] | None = None
    state: str = "waiting"
    place: int = -1
    """Which share of the machine it has, while it runs."""

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


def run_all(jobs: list[Job], scale: str, out: Path, at_once: int) -> list[Job]:
    """Run them, `at_once` at a time, cores and accelerators shared out; returns those that failed."""
    waiting = [job for job in jobs if not job.folder.done]
    for job in jobs:
        if job not in waiting:
            job.state = "done"
    running: list[Job] = []
    failed: list[Job] = []
    with _Screen(jobs) as screen:
        try:
            while waiting or running:
                for job in [job for job in waiting if _hopeless(job, failed)]:
                    waiting.remove(job)
                    job.state = f"failed (it comes after {job.after}, which failed)"
                    failed.append(job)
                    screen.say(job)
                for job in [job for job in waiting if _ready(job)][: at_once - len(running)]:
                    waiting.remove(job)
                    job.place = min(set(range(at_once)) - {other.place for other in running})
                    _start(job, scale, out, at_once)
                    running.append(job)
                    screen.say(job)
                time.sleep(0.2)
                for job in [job for job in running if job.process is not None and job.process.poll() is not None]:
                    running.remove(job)
                    job.state = "done" if job.folder.done else f"failed ({_why(job)})"
                    failed += [] if job.folder.done else [job]
                    screen.say(job)
                screen.refresh()
        finally:
            for job in running:
                if job.process is not None:
                    job.process.terminate()
    return failed


def measure_all(item: Item, jobs: list[Job], at_once: int, scale: str) -> list[Job]:
    """What a table or figure needs beside the results of its runs, by `opl evaluate`, `at_once` at a time; returns the
    runs of which a measure failed. A run that others come after is measured only where it is a row itself."""
    rows = {row.recipe for row in item.at(scale)}
    wanted = [(job, words) for job in jobs if job.recipe in rows for words in _unmeasured(item, job, scale)]
    failed = []
    with ThreadPoolExecutor(at_once) as pool:
        processes = pool.map(lambda pair: _measure(pair[0], pair[1], at_once), wanted)
        for (job, _), process in zip(wanted, processes, strict=True):
            if process.returncode or WARNING in process.stderr:
                print(process.stderr.strip(), file=sys.stderr)
            failed += [job] if process.returncode else []
    return failed


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


def _measure(job: Job, words: tuple[str, ...], at_once: int) -> subprocess.CompletedProcess[str]:
    sys.stderr.write(f"{job.recipe} seed {job.seed}: measuring {' '.join(words)}\n")  # one write: threads share it
    command = _opl("evaluate", str(job.folder.path), *words)
    return subprocess.run(command, capture_output=True, text=True, check=False, env=_environment(at_once))


def _opl(*words: str) -> list[str]:
    """An `opl` command of this very installation."""
    return [sys.executable, "-m", "opl.experiments.cli", *words]


def _ready(job: Job) -> bool:
    return not job.after or job.folder.beside(job.after).done


def _hopeless(job: Job, failed: list[Job]) -> bool:
    return any((other.recipe, other.seed) == (job.after, job.seed) for other in failed)


def _environment(at_once: int) -> dict[str, str]:
    """Cores shared out among processes."""
    threads = str(max(1, (os.cpu_count() or 1) // at_once))
    return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def _start(job: Job, scale: str, out: Path, at_once: int) -> None:
    words = ("train", job.recipe, "--seed", str(job.seed), "--scale", scale, "--out", str(out))
    environment = _environment(at_once)
    cards = _cards()
    if len(cards) > 1:
        environment["CUDA_VISIBLE_DEVICES"] = cards[job.place % len(cards)]
    job.folder.path.mkdir(parents=True, exist_ok=True)
    with job.folder.log_file.open("ab") as log:
        job.process = subprocess.Popen(_opl(*words), stdout=log, stderr=log, env=environment)
    job.state = "running"


def _cards() -> list[str]:
    """The accelerators that may be used, by name."""
    import torch

    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",") if named else [str(card) for card in range(torch.cuda.device_count())]


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
