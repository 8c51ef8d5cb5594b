"""How long runs still take: by their own epochs, by other runs of the command, or by what their item states."""

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple, Protocol


class Reached(NamedTuple):
    """How far a run is."""

    epochs: int = 0
    seconds: float = 0.0
    """Spent on these epochs."""
    images_per_second: float = 0.0
    val: float | None = None
    """Validation accuracy in percent, if it was measured after the last of them."""


class Timed(Protocol):
    """A run whose time can be estimated: see `Job`."""

    recipe: str
    epochs: int
    cost: float
    took: float

    @property
    def name(self) -> str:
        """The recipe and the seed."""
        ...

    @property
    def last(self) -> int:
        """The epochs after which it ends or pauses."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it is done, or failed."""
        ...

    def reached(self) -> Reached:
        """How far it is."""
        ...


def seconds_left(jobs: Sequence[Timed], at_once: int) -> float | None:
    """About how long the runs that have not ended still take, so many at once; None if nothing is known of one."""
    speeds = {job.name: job.reached().seconds / job.reached().epochs for job in jobs if job.reached().epochs}
    start = fmean(waits) if (waits := [job.took - job.reached().seconds for job in jobs if job.took]) else 0.0
    left = []
    for job in jobs:
        if job.ended:
            continue
        speed = _speed(job, jobs, speeds)
        if speed is None:
            return None
        more = 0.0 if job.reached().epochs else max(0.0, start)
        left.append(max(0, job.last - job.reached().epochs) * speed + more)
    return max(sum(left) / max(1, at_once), *left) if left else 0.0


def _speed(job: Timed, jobs: Iterable[Timed], speeds: dict[str, float]) -> float | None:
    """Seconds of an epoch: its own, those of its recipe with other seeds, of all other runs, or as the item states."""
    if job.name in speeds:
        return speeds[job.name]
    alike = [speeds[other.name] for other in jobs if other.recipe == job.recipe and other.name in speeds]
    if alike or speeds:
        return fmean(alike or speeds.values())
    return job.cost / job.epochs if job.cost else None


def about(seconds: float) -> str:
    """A time that is not known exactly.

    Example:
        >>> about(3.3), about(47), about(2040), about(9000), about(400_000)
        ('3 s', '50 s', '34 min', '2 h 30 min', '4 days 15 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds, -1 if seconds > 20 else 0)):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"
