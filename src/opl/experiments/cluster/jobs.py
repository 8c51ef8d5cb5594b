"""All runs of a table or figure: each is an `opl train` command, finished ones are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..item import Item
from ..run_folder import RunFolder
from .executor import ENDED, SHARE, Event, Executor, Resources, Task
from .screen import Screen

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
    until: int = 0
    """The epochs after which it pauses; 0 for the end."""
    state: str = "waiting"

    @property
    def reached(self) -> bool:
        """Whether there is nothing left to train."""
        return self.folder.done or (self.until > 0 and len(self.folder.metrics()) >= self.until)

    @property
    def name(self) -> str:
        """The recipe and the seed."""
        return name_of(self.recipe, self.seed)

    def describe(self) -> str:
        """One line for the screen."""
        text = f"{self.name}: {self.state}"
        records = self.folder.metrics() if self.state in ("running", "done") else []
        if records:
            last = records[-1]
            text += f", epoch {last['epoch'] + 1}/{self.epochs}"
            if "val/top1" in last:
                text += f", val {last['val/top1']:.2f}%"
            text += f", {last['images_per_second']:.0f} images/s"
        return text

    def task(self, words: tuple[str, ...], resources: Resources) -> Task:
        """The command that trains it."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        before = (name_of(self.after, self.seed),) if self.after else ()
        return Task(self.name, words, self.folder.log_file, before, resources)

    def follow(self, event: Event) -> None:
        """Take over what the executor says; whether a run is done, its folder says."""
        self.state = str(event.state)
        if event.state == "skipped":
            self.state = f"failed (it comes after {self.after}, which failed)"
        elif event.state in ENDED:
            self.state = "done" if self.reached else f"failed ({self._why() or event.reason or 'no message'})"

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
    names = list(dict.fromkeys(name for row in item.at(scale) for name in _chain(row.recipe, look)))
    return [
        Job(name, seed, look(name).epochs, RunFolder.of(out, name, seed), look(name).after)
        for seed in range(seeds)
        for name in names
    ]


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
        if job.reached:
            job.state = "done"
        else:
            executor.submit(job.task(command, resources))
    failed = []
    with Screen(jobs) as screen:
        for event in executor.watch():
            job = named[event.name]
            job.follow(event)
            failed += [job] if job.state.startswith("failed") else []
            screen.say(job)
    return failed
