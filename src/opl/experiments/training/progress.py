"""Progress display: a bar with the remaining time and a line per epoch; without a terminal, only the lines."""

import sys
import time
from typing import Any

from ..recipe import Recipe
from ..types import EpochRecord


class Progress:
    """A progress bar on standard error; silent on all processes but the first."""

    def __init__(self, recipe: Recipe, steps: int, first_epoch: int, speak: bool) -> None:
        self.recipe, self.steps, self.first, self.speak = recipe, steps, first_epoch, speak
        self.bar: Any = None
        self.shown, self.images, self.since = 0.0, 0, time.monotonic()

    def __enter__(self) -> "Progress":
        if not self.speak or not sys.stderr.isatty():
            return self
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        words = TextColumn("{task.description}")
        numbers = TextColumn("{task.fields[note]}")
        self.bar = Bar(words, BarColumn(), TimeRemainingColumn(), numbers, console=Console(stderr=True))
        self.bar.start()
        self.task = self.bar.add_task(
            f"{self.recipe.name} seed {self.recipe.seed}",
            total=self.recipe.epochs * self.steps,
            completed=self.first * self.steps,
            note="",
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def step(self, epoch: int, step: int, images: int, loss: float) -> None:
        """Report a finished step; the screen is updated at most ten times per second."""
        if self.bar is None:
            return
        self.bar.update(self.task, completed=epoch * self.steps + step + 1)
        self.images += images
        now = time.monotonic()
        if now - self.shown > 0.1:
            speed = self.images / max(1e-9, now - self.since)
            note = f"epoch {epoch + 1}/{self.recipe.epochs}  loss {loss:.3f}  {speed:.0f} images/s"
            self.bar.update(self.task, note=note)
            self.shown = now

    def epoch(self, record: EpochRecord) -> None:
        """Report a finished epoch; time spent on validation does not lower the displayed speed of the next epoch."""
        self.images, self.since = 0, time.monotonic()
        if not self.speak:
            return
        val = f"  val {record['val/top1']:.2f}%" if "val/top1" in record else ""
        line = (
            f"{self.recipe.name} seed {self.recipe.seed}  epoch {record['epoch'] + 1}/{self.recipe.epochs}"
            f"  loss {record['train/loss']:.4f}{val}  {record['images_per_second']:.0f} images/s"
        )
        if self.bar is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self.bar.console.print(line)


class Counter:
    """A progress bar for each task, on a terminal; otherwise nothing is shown."""

    def __init__(self) -> None:
        self.bar: Any = None
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> "Counter":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self.bar = Bar(console=Console(stderr=True))
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, what: str, done: int, of: int) -> None:
        """Report that `done` units out of `of` of the task `what` are finished."""
        if self.bar is None:
            return
        if what not in self.tasks:
            self.tasks[what] = self.bar.add_task(what, total=of)
        self.bar.update(self.tasks[what], completed=done)
