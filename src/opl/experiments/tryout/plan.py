"""How many epochs and seeds fit into a time: arithmetic on a measured speed. Needs no torch."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import OptionError

MOST_SEEDS = 5
GOOD_SEEDS = 3
LEAST_SEEDS = 2
LEAST_EPOCHS = 8
"""With fewer, training images are left out instead."""
LEAST_IMAGES, LEAST_PER_CLASS = 200, 10  # for training, where images are left out
MARGIN = 1.15  # what runs may take longer than was measured
FORWARD = 2.5  # how much faster a network answers than it learns
EPOCH_SECONDS, END_SECONDS = 0.5, 3.0  # for a checkpoint, and for the files of a finished run
PAGE_SECONDS = 15.0  # for the table and the page


class Speed(NamedTuple):
    """What a run takes: to start, and for images."""

    images_per_second: float
    start_seconds: float


@dataclass(frozen=True)
class Work:
    """What has to be done for one epoch of all arms."""

    train: int
    val: int
    test: int
    classes: int
    arms: int
    jobs: int
    """Runs at a time."""
    wanted: int
    """The epochs that are worth their time."""

    @property
    def together(self) -> int:
        """Seeds of which all arms run at the same time; if there are fewer places, one seed after the other."""
        return max(1, self.jobs // self.arms)

    def seconds(self, epochs: int, speed: Speed, images: int = 0) -> float:
        """The expected time of one run, which trains on all images or on so many, and validates on as many fewer."""
        fraction = images / self.train if images else 1.0
        learned = epochs * self.train * fraction
        answered = epochs * self.val * fraction + self.test
        busy = (learned + answered / FORWARD) / speed.images_per_second
        return speed.start_seconds + busy + epochs * EPOCH_SECONDS + END_SECONDS

    def total(self, epochs: int, seeds: int, speed: Speed, images: int = 0) -> float:
        """The expected time of all runs."""
        rounds = math.ceil(seeds / self.together)
        turns = math.ceil(self.arms * min(seeds, self.together) / self.jobs)
        return rounds * turns * self.seconds(epochs, speed, images)


@dataclass(frozen=True)
class Plan:
    """What is done in the time."""

    epochs: int
    seeds: int
    images: int
    """Training images that are used; 0 for all."""
    seconds: float
    """The expected time of all runs."""


def make_plan(work: Work, speed: Speed, budget: float, *, epochs: int = 0, seeds: int = 0) -> Plan:
    """Return what fits into a time.

    Three to five seeds with the wanted epochs, if they fit; otherwise three with at least half of these; otherwise two
    with as many as fit. If that is fewer than eight, training images are left out instead.

    Args:
        work: what there is to do.
        speed: what was measured.
        budget: seconds for all runs.
        epochs: if given, these are done, whatever their time.
        seeds: if given, as many are done.

    Raises:
        OptionError: not even one pair of runs fits.
    """
    counts = (seeds,) if seeds else range(MOST_SEEDS, 0, -1)
    if epochs:
        chosen = next((count for count in counts if work.total(epochs, count, speed) * MARGIN <= budget), seeds or 1)
        return Plan(epochs, chosen, 0, work.total(epochs, chosen, speed))
    longest = {count: _longest(work, speed, budget, count) for count in counts}
    for count in counts:
        enough = work.wanted if count > GOOD_SEEDS else work.wanted / 2
        if longest[count] >= enough and count >= GOOD_SEEDS:
            return _plan(work, speed, min(longest[count], work.wanted), count)
    for count in (seeds,) if seeds else (LEAST_SEEDS, 1):
        if longest[count] >= min(LEAST_EPOCHS, work.wanted):
            return _plan(work, speed, min(longest[count], work.wanted), count)
        if images := _fewer_images(work, speed, budget, count):
            return _plan(work, speed, min(LEAST_EPOCHS, work.wanted), count, images)
    least = work.total(LEAST_EPOCHS, seeds or LEAST_SEEDS, speed, _least_images(work)) * MARGIN + PAGE_SECONDS
    raise OptionError(
        f"the time is too short: {seeds or LEAST_SEEDS} seeds of {work.arms} runs take about {math.ceil(least / 60)} "
        "minutes at the speed of this machine, and preparing them comes before: give more --minutes, or fewer --epochs."
    )


def _plan(work: Work, speed: Speed, epochs: int, seeds: int, images: int = 0) -> Plan:
    return Plan(epochs, seeds, images, work.total(epochs, seeds, speed, images))


def _longest(work: Work, speed: Speed, budget: float, seeds: int) -> int:
    """The most epochs that fit."""
    fixed = work.total(0, seeds, speed)
    each = work.total(1, seeds, speed) - fixed
    return max(0, math.floor((budget / MARGIN - fixed) / each))


def _fewer_images(work: Work, speed: Speed, budget: float, seeds: int) -> int:
    """The training images with which the least epochs fit; 0 if there would be too few."""
    epochs = min(LEAST_EPOCHS, work.wanted)
    fixed = work.total(epochs, seeds, speed, 1)
    each = work.total(epochs, seeds, speed, 2) - fixed
    images = math.floor((budget / MARGIN - fixed) / each)
    return images if images >= _least_images(work) else 0


def _least_images(work: Work) -> int:
    return min(work.train, max(LEAST_IMAGES, LEAST_PER_CLASS * work.classes))
