"""Progress display: what is trained, a bar with the remaining time, a line per epoch; elsewhere only the lines."""

import sys
import time
from typing import Any

from ..recipe import Recipe
from ..types import EpochRecord, Splits

WIDE = 60  # columns from which on the bar has numbers beside it


def say_start(recipe: Recipe) -> None:
    """Say at once what is about to be loaded, on a terminal; a log gets it with what was loaded."""
    if sys.stderr.isatty():
        _say(_describe_start(recipe))


def say_parts(recipe: Recipe, splits: Splits, weights: int, steps: int, first: int) -> None:
    """Say what was loaded: images, classes, weights, steps, and the epochs that an earlier process trained."""
    if not sys.stderr.isatty():
        _say(_describe_start(recipe))
    resumed = f", {first} of them done before" if first else ""
    _say(
        f"{len(splits.train):,} training, {len(splits.val):,} validation and {len(splits.test):,} test images, "
        f"{recipe.data.num_classes:,} classes; {weights:,} weights; {recipe.epochs} epochs of {steps:,} steps{resumed}"
    )


def _say(sentence: str) -> None:
    """Print a sentence to standard error, on a terminal broken between words."""
    if not sys.stderr.isatty():
        print(sentence, file=sys.stderr, flush=True)
        return
    from rich.console import Console

    Console(stderr=True).print(sentence, highlight=False, markup=False)


def _describe_start(recipe: Recipe) -> str:
    return (
        f"{recipe.name} seed {recipe.seed}, scale {recipe.scale}: loading data {recipe.data.name} and network "
        f"{type(recipe.model).__name__}"
    )


def describe_epoch(record: EpochRecord) -> str:
    """The numbers of an epoch: of validation images, or of the training images where it was not validated.

    Example:
        >>> describe_epoch({"val/loss": 0.5, "s": 0.81, "d": 0.4, "val/top1": 91.2, "train/entropy": 0.3})
        'cross-entropy 0.500  s 0.81  d 0.40  accuracy 91.20 %'
        >>> describe_epoch({"train/entropy": 0.3, "train/loss": 0.7, "train/s": 0.8, "train/d": 0.4})
        'train cross-entropy 0.300  train s 0.80  train d 0.40'
    """
    if "val/loss" in record:
        numbers = {
            "cross-entropy {:.3f}": "val/loss",
            "s {:.2f}": "s",
            "d {:.2f}": "d",
            "accuracy {:.2f} %": "val/top1",
        }
    else:
        entropy = "train/entropy" in record
        first = {"train cross-entropy {:.3f}": "train/entropy"} if entropy else {"train loss {:.3f}": "train/loss"}
        numbers = first | {"train s {:.2f}": "train/s", "train d {:.2f}": "train/d"}
    return "  ".join(form.format(record[name]) for form, name in numbers.items() if name in record)


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

        console = Console(stderr=True)
        if console.is_dumb_terminal:
            return self
        words = (TextColumn("{task.description}"), BarColumn(bar_width=None), TimeRemainingColumn())
        numbers = (TextColumn("{task.fields[note]}"),) if console.width >= WIDE else ()
        self.bar = Bar(*words, *numbers, console=console, expand=True, transient=True)
        self.bar.start()
        self.task = self.bar.add_task(
            self._epoch(self.first),
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
            note = f"loss {loss:.3f} {speed:.0f} images/s"
            self.bar.update(self.task, description=self._epoch(epoch), note=note)
            self.shown = now

    def epoch(self, record: EpochRecord) -> None:
        """Report a finished epoch; time spent on validation does not lower the displayed speed of the next epoch."""
        self.images, self.since = 0, time.monotonic()
        if not self.speak:
            return
        numbers = f"{self._epoch(record['epoch'])}  {describe_epoch(record)}"
        if self.bar is None:
            name = f"{self.recipe.name} seed {self.recipe.seed}"
            print(f"{name}  {numbers}  {record['images_per_second']:.0f} images/s", file=sys.stderr, flush=True)
        else:
            self.bar.console.print(numbers, highlight=False, markup=False)

    def _epoch(self, epoch: int) -> str:
        """The number of an epoch, of the width of the last."""
        return f"epoch {epoch + 1:>{len(str(self.recipe.epochs))}}/{self.recipe.epochs}"


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
