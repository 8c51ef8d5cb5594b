"""How many epochs and seeds fit into the time budget, from a measured speed, and the execution of such a plan."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...errors import OptionError
from ..runner.display import Display
from ..runner.executor import SHARE, Executor
from ..runner.jobs import Job, run_jobs, seconds_left

MOST_SEEDS = 5
GOOD_SEEDS = 3
LEAST_SEEDS = 2
LEAST_IMAGES, LEAST_PER_CLASS = 200, 10  # for training, when images are left out
MARGIN = 1.15  # factor by which runs may exceed the measured time
FORWARD = 2.5  # speed of inference relative to training
NEIGHBORS = 5000  # training images that a finished run passes through its network once more
EPOCH_SECONDS, END_SECONDS = 0.5, 3.0  # for a checkpoint, and for the files of a finished run
PAGE_SECONDS = 15.0  # for the table and the page
LATE = 1.1  # fraction of the time budget after which late runs are stopped
PATIENCE = 0.9  # fraction of the expected time that must be left to start another round


class Speed(NamedTuple):
    """The measured speed of a run, and its startup time."""

    images_per_second: float
    start_seconds: float


@dataclass(frozen=True)
class Work:
    """The work of one epoch of all arms."""

    train: int
    val: int
    test: int
    classes: int
    arms: int
    jobs: int
    """Parallel runs."""
    wanted: int
    """The epochs that are worth their time."""
    least: int = 8
    """If fewer epochs fit, training images are left out instead."""

    @property
    def together(self) -> int:
        """Seeds whose arms all run in parallel; at least one."""
        return max(1, self.jobs // self.arms)

    def seconds(self, epochs: int, speed: Speed, images: int = 0) -> float:
        """Return the expected time of one run on `images` training images, 0 for all.

        The same fraction of the validation images is used.
        """
        fraction = images / self.train if images else 1.0
        trained = epochs * self.train * fraction
        evaluated = (epochs + 1) * self.val * fraction + self.test + min(NEIGHBORS, self.train * fraction)
        busy = (trained + evaluated / FORWARD) / speed.images_per_second
        return speed.start_seconds + busy + epochs * EPOCH_SECONDS + END_SECONDS

    def total(self, epochs: int, seeds: int, speed: Speed, images: int = 0) -> float:
        """Return the expected time of all runs."""
        rounds = math.ceil(seeds / self.together)
        turns = math.ceil(self.arms * min(seeds, self.together) / self.jobs)
        return rounds * turns * self.seconds(epochs, speed, images)


@dataclass(frozen=True)
class Plan:
    """What fits into the time budget."""

    epochs: int
    seeds: int
    images: int
    """Number of training images; 0 uses all."""
    run_seconds: float
    """The expected time of one run."""


def make_plan(work: Work, speed: Speed, budget: float, *, epochs: int = 0, seeds: int = 0) -> Plan:
    """Return what fits into a time budget.

    Three to five seeds with the wanted epochs, if they fit; otherwise three seeds with at least half the epochs;
    otherwise two seeds with as many epochs as fit. Below the least epochs, training images are left out instead. If
    epochs or seeds are set, they are used exactly, and epochs may then exceed the budget, which is in seconds.

    Raises:
        OptionError: not even one seed fits.
    """
    counts = (seeds,) if seeds else range(MOST_SEEDS, 0, -1)
    if epochs:
        chosen = next((count for count in counts if work.total(epochs, count, speed) * MARGIN <= budget), seeds or 1)
        return Plan(epochs, chosen, 0, work.seconds(epochs, speed))
    longest = {count: _longest(work, speed, budget, count) for count in counts}
    for count in counts:
        enough = work.wanted if count > GOOD_SEEDS else work.wanted / 2
        if longest[count] >= enough and count >= GOOD_SEEDS:
            return _plan(work, speed, min(longest[count], work.wanted), count)
    for count in (seeds,) if seeds else (LEAST_SEEDS, 1):
        if longest[count] >= min(work.least, work.wanted):
            return _plan(work, speed, min(longest[count], work.wanted), count)
        if images := _fewer_images(work, speed, budget, count):
            return _plan(work, speed, min(work.least, work.wanted), count, images)
    least = work.total(work.least, seeds or LEAST_SEEDS, speed, _least_images(work)) * MARGIN + PAGE_SECONDS
    raise OptionError(
        f"the time budget is too small: {seeds or LEAST_SEEDS} seeds with {work.arms} runs each take about "
        f"{math.ceil(least / 60)} minutes on this machine, plus the preparation: raise --minutes, or lower --epochs."
    )


def _plan(work: Work, speed: Speed, epochs: int, seeds: int, images: int = 0) -> Plan:
    return Plan(epochs, seeds, images, work.seconds(epochs, speed, images))


def _longest(work: Work, speed: Speed, budget: float, seeds: int) -> int:
    """Return the most epochs that fit."""
    fixed = work.total(0, seeds, speed)
    per_epoch = work.total(1, seeds, speed) - fixed
    return max(0, math.floor((budget / MARGIN - fixed) / per_epoch))


def _fewer_images(work: Work, speed: Speed, budget: float, seeds: int) -> int:
    """Return the number of training images with which the least epochs fit; 0 if that is too few."""
    epochs = min(work.least, work.wanted)
    fixed = work.total(epochs, seeds, speed, 1)
    per_image = work.total(epochs, seeds, speed, 2) - fixed
    images = math.floor((budget / MARGIN - fixed) / per_image)
    return images if images >= _least_images(work) else 0


def _least_images(work: Work) -> int:
    return min(work.train, max(LEAST_IMAGES, LEAST_PER_CLASS * work.classes))


# Execution


class Clock:
    """The time budget."""

    def __init__(self, minutes: float) -> None:
        self.started, self.seconds = time.monotonic(), 60 * minutes

    @property
    def left(self) -> float:
        """Seconds left for runs; the table and the page need some afterwards."""
        return self.seconds - PAGE_SECONDS - self.spent

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started


@dataclass
class Outcome:
    """The outcome of the runs."""

    failed: list[Job] = field(default_factory=list)
    late: bool = False
    """Whether runs were stopped because the time was up."""
    skipped: int = 0
    """Planned rounds that were not started, for lack of time."""


def run_rounds(
    rounds: Sequence[Sequence[Job]], planned: int, executor: Executor, clock: Clock, expected: float
) -> Outcome:
    """Run rounds of whole seeds while time is left; the first round is always started.

    The recipe of each run is next to its folder as `<recipe>.json`. Rounds beyond the `planned` ones use remaining
    time, and late runs are stopped and can be resumed. `expected` are the seconds of the first round.
    """
    outcome, started_any = Outcome(), False
    displayed = [job for jobs in rounds[:planned] for job in jobs]
    alarm = threading.Timer(max(1.0, LATE * clock.seconds - clock.spent), executor.cancel)
    alarm.daemon = True
    alarm.start()
    try:
        with Display(displayed, lambda running: seconds_left(displayed, running), whole=True) as display:
            for index, jobs in enumerate(rounds):
                if all(job.folder.done for job in jobs):
                    continue
                if started_any and clock.left < PATIENCE * expected:
                    outcome.skipped = max(0, planned - index)
                    break
                displayed += jobs if index >= planned else ()
                started = time.monotonic()
                failed = run_jobs(jobs, [_argv(job, executor) for job in jobs], executor, SHARE, display)
                outcome.late = not alarm.is_alive()
                outcome.failed += [] if outcome.late else failed
                if outcome.late:
                    break
                expected, started_any = time.monotonic() - started, True
    finally:
        alarm.cancel()
    return outcome


def _argv(job: Job, executor: Executor) -> tuple[str, ...]:
    out = job.folder.path.parent.parent
    target = ("--seed", str(job.seed), "--out", str(out), "--wait", str(executor.patience))
    return ("train", "--recipe", str(out / f"{job.recipe}.json"), *target)
