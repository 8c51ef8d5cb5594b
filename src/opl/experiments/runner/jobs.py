"""All runs of a table or figure: each is an `opl train` command, finished ones are kept."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import OplError
from ..item import Item
from ..run_folder import RunFolder
from .estimate import Reached, about, seconds_left
from .executor import ENDED, SHARE, Event, Executor, Resources, Task
from .screen import Screen, Step

if TYPE_CHECKING:
    from ..recipe import Recipe

FRESH = 1.0
"""Seconds for which what was read of a running run is taken as it is."""


@dataclass
class Job:
    """One run: a recipe with a seed, and how it goes."""

    recipe: str
    seed: int
    epochs: int
    folder: RunFolder
    after: str = ""
    """The recipe whose run must be finished before."""
    until: int = 0
    """The epochs after which it pauses; 0 for the end."""
    cost: float = 0.0
    """The seconds that it takes by what its item states; 0 if that is not known."""
    state: str = "waiting"
    began: float = 0.0
    """When it was started by this command."""
    took: float = 0.0
    """The seconds from there to its end, if it started with its first epoch."""
    known: Reached = field(default_factory=Reached)
    read: float | None = None
    """When `known` was read from the folder."""

    @property
    def complete(self) -> bool:
        """Whether there is nothing left to train."""
        return self.folder.done or (self.until > 0 and len(self.folder.metrics()) >= self.until)

    @property
    def last(self) -> int:
        """The epochs after which it ends or pauses."""
        return self.until or self.epochs

    @property
    def ended(self) -> bool:
        """Whether it is done, or failed."""
        return self.state == "done" or self.state.startswith("failed")

    @property
    def name(self) -> str:
        """The recipe and the seed."""
        return name_of(self.recipe, self.seed)

    def describe(self) -> str:
        """One line for a log."""
        text = f"{self.name}: {self.state}"
        reached = self.reached()
        if self.state in ("running", "done") and reached.epochs:
            text += f", epoch {reached.epochs}/{self.epochs}"
            if reached.val is not None:
                text += f", val {reached.val:.2f}%"
            text += f", {reached.images_per_second:.0f} images/s"
        return text

    def conclude(self) -> str:
        """One line for a terminal, at the end."""
        val = self.reached().val
        known = f", val {val:.2f} %" if self.state == "done" and val is not None else ""
        return f"{self.name}: {self.state}{f' in {about(self.took)}' if self.took else ''}{known}"

    def reached(self) -> Reached:
        """How far it is, as its folder says; what cannot be read at this moment is left as it was."""
        if self.read is None or (not self.ended and time.monotonic() - self.read >= FRESH):
            self.read = time.monotonic()
            with suppress(OplError, OSError, ValueError, LookupError):  # it may be written at this moment
                self.known = self._read()
        return self.known

    def _read(self) -> Reached:
        records = self.folder.metrics()
        if not records:
            return Reached()
        last = records[-1]
        seconds = sum(record["seconds"] for record in records)
        return Reached(len(records), seconds, last["images_per_second"], last.get("val/top1"))

    def step(self) -> Step:
        """How far it is, for a bar on the screen."""
        reached = self.reached()
        speed = f"{reached.images_per_second:.0f} images/s" if reached.epochs else ""
        return Step(reached.epochs, self.last, f"epoch {reached.epochs}/{self.last}", speed)

    def task(self, words: tuple[str, ...], resources: Resources) -> Task:
        """The command that trains it."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        before = (name_of(self.after, self.seed),) if self.after else ()
        return Task(self.name, words, self.folder.log_file, before, resources)

    def follow(self, event: Event) -> None:
        """Take over what the executor says; whether a run is done, its folder says."""
        self.state = str(event.state)
        if event.state == "running":
            self.began = 0.0 if self.reached().epochs else time.monotonic()
        if event.state in ENDED:
            self.took = time.monotonic() - self.began if self.began else 0.0
            self.read = None
        if event.state == "skipped":
            self.state = f"failed (it comes after {self.after}, which failed)"
        elif event.state in ENDED:
            self.state = "done" if self.complete else f"failed ({self._why() or event.reason or 'no message'})"

    def _why(self) -> str:
        return self.folder.error() or self.folder.last_log_line()


def name_of(recipe: str, seed: int) -> str:
    """The name of a run.

    Example:
        >>> name_of("digits-ce", 0)
        'digits-ce seed 0'
    """
    return f"{recipe} seed {seed}"


def jobs_of(item: Item, scale: str, seeds: int, out: Path, look: Callable[[str], "Recipe"]) -> list[Job]:
    """The runs of a table: all rows of a seed, then the next seed, so that an early stop leaves whole pairs.

    A run that others come after, or that is a member of a row's family, is among them, also where it is no row.
    """
    return [
        Job(name, seed, look(name).epochs, RunFolder.of(out, name, seed), look(name).after, cost=item.cost_at(scale))
        for place, seed in enumerate(range(item.first_seed, item.first_seed + seeds))
        for name in _names(item, scale, place, look)
    ]


def _names(item: Item, scale: str, place: int, look: Callable[[str], "Recipe"]) -> dict[str, None]:
    """The recipes that are run with the seed at a place, in order, each once."""
    rows = [row for row in item.at(scale) if not row.seeds or place < row.seeds]
    return dict.fromkeys(name for row in rows for name in _chain(row.recipe, look))


def _chain(name: str, look: Callable[[str], "Recipe"]) -> list[str]:
    """A recipe after all that it comes after and all members of its family."""
    recipe = look(name)
    before = (*((recipe.after,) if recipe.after else ()), *recipe.members)
    return [*(each for other in before for each in _chain(other, look)), name]


def run_all(jobs: list[Job], scale: str, out: Path, executor: Executor, resources: Resources = SHARE) -> list[Job]:
    """Run those that are not finished by `opl train`; returns those that failed."""
    more = ("--scale", scale, "--out", str(out), "--wait", str(executor.patience))
    words = [("train", job.recipe, "--seed", str(job.seed), *more) for job in jobs]
    return run_jobs(jobs, words, executor, resources)


def run_jobs(
    jobs: Sequence[Job], words: Sequence[tuple[str, ...]], executor: Executor, resources: Resources
) -> list[Job]:
    """Run those that are not finished, each by the words after `opl`; returns those that failed."""
    named = {job.name: job for job in jobs}
    for job, command in zip(jobs, words, strict=True):
        if job.complete:
            job.state = "done"
        else:
            executor.submit(job.task(command, resources))
    failed = []
    with Screen(jobs, lambda running: seconds_left(jobs, running)) as screen:
        for event in executor.watch():
            job = named[event.name]
            job.follow(event)
            failed += [job] if job.state.startswith("failed") else []
            screen.say(job)
    return failed
