"""Runs within a time: seed after seed, and no seed is begun that would not end in time."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..recipe import Recipe
from ..run_folder import RunFolder
from ..runner.executor import SHARE, Executor
from ..runner.jobs import Job, run_jobs
from .plan import PAGE_SECONDS

LATE = 1.1  # of the time, after which runs that are late are stopped
PATIENCE = 0.9  # of the expected time that must be left to begin another seed


class Clock:
    """The time that a user gives."""

    def __init__(self, minutes: float) -> None:
        self.started, self.seconds = time.monotonic(), 60 * minutes

    @property
    def left(self) -> float:
        """Seconds that are left for runs; the table and the page come after them."""
        return self.seconds - PAGE_SECONDS - self.spent

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def until_late(self) -> float:
        """Seconds after which runs are stopped."""
        return max(1.0, LATE * self.seconds - self.spent)


@dataclass
class Outcome:
    """What became of the runs."""

    failed: list[Job] = field(default_factory=list)
    late: bool = False
    """Whether runs were stopped because the time was over."""
    skipped: int = 0
    """Rounds that were planned and not begun, for lack of time."""


def jobs_of_seeds(recipes: Sequence[Recipe], seeds: Sequence[int], out: Path) -> list[Job]:
    """The runs of some seeds: all arms of a seed, then the next seed."""
    return [
        Job(recipe.name, seed, recipe.epochs, RunFolder.of(out, recipe.name, seed))
        for seed in seeds
        for recipe in recipes
    ]


def run_rounds(
    rounds: Sequence[Sequence[Job]], planned: int, out: Path, executor: Executor, clock: Clock, expected: float
) -> Outcome:
    """Run one round of whole seeds after another, as long as there is time; the first one is always begun.

    Args:
        rounds: the runs that are executed together.
        planned: how many of them were planned; the others are for time that is left.
        out: the folder of the runs, with the recipe of each arm as `<recipe>.json`.
        executor: where they are executed.
        clock: the time that is given; runs that are late are stopped, and can be resumed.
        expected: seconds that a round is expected to take, until one was measured.
    """
    outcome, begun = Outcome(), False
    alarm = threading.Timer(clock.until_late, executor.cancel)
    alarm.daemon = True
    alarm.start()
    try:
        for place, jobs in enumerate(rounds):
            if all(job.folder.done for job in jobs):
                continue
            if begun and (clock.left < PATIENCE * expected):
                outcome.skipped = max(0, planned - place)
                break
            started = time.monotonic()
            failed = run_jobs(jobs, [_words(job, out, executor) for job in jobs], executor, SHARE)
            outcome.late = not alarm.is_alive()
            outcome.failed += [] if outcome.late else failed
            if outcome.late:
                break
            expected, begun = time.monotonic() - started, True
    finally:
        alarm.cancel()
    return outcome


def _words(job: Job, out: Path, executor: Executor) -> tuple[str, ...]:
    place = ("--seed", str(job.seed), "--out", str(out), "--wait", str(executor.patience))
    return ("train", "--recipe", str(out / f"{job.recipe}.json"), *place)
