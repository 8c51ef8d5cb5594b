"""Reports of a run while it trains: a progress bar, a line per epoch, and the loggers of its recipe."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...errors import OptionError
from ..recipe import Log, Recipe
from ..run_folder import RunFolder
from ..terminal import make_console
from ..types import EpochRecord, Splits
from .validation import validate_part

WIDE = 60  # columns of a terminal that shows numbers next to the bar
FIGURES_EVERY = 5  # epochs
FIGURE_IMAGES = 2000  # images used for the figures of a logger


def announce_start(recipe: Recipe, terminal: bool = True) -> None:
    """Print what is about to be loaded: at once on a terminal, with `announce_parts` in a log."""
    if _is_terminal() == terminal:
        _print(
            f"{recipe.name} seed {recipe.seed}, scale {recipe.scale}: loading data {recipe.data.name} and network "
            f"{type(recipe.model).__name__}"
        )


def announce_parts(recipe: Recipe, splits: Splits, weights: int, steps: int, first: int) -> None:
    """Print what was loaded: images, classes, weights, steps, and the epoch from which a run resumes."""
    announce_start(recipe, terminal=False)
    resumed = f", resuming after epoch {first}" if first else ""
    sizes = f"{len(splits.train):,} training, {len(splits.val):,} validation and {len(splits.test):,} test images"
    _print(f"{sizes}, {recipe.data.num_classes:,} classes")
    epochs = f"{recipe.epochs} epoch{'' if recipe.epochs == 1 else 's'}"
    _print(f"{weights:,} weights, {epochs} of {steps:,} steps{resumed}")


def _is_terminal() -> bool:
    """Return whether standard error is a terminal; `sys.stderr` is None if it was closed."""
    return sys.stderr is not None and sys.stderr.isatty()


def _print(sentence: str) -> None:
    """Print a sentence to standard error, wrapped between words on a terminal."""
    if not _is_terminal():
        print(sentence, file=sys.stderr, flush=True)
        return
    make_console(stderr=True).print(sentence)


def describe_epoch(record: EpochRecord) -> str:
    """Describe the numbers of an epoch: of validation images, or of the training images where it was not validated.

    Example:
        >>> describe_epoch({"val/loss": 0.5, "s": 0.81, "d": 0.4, "val/top1": 91.2, "train/entropy": 0.3})
        'cross-entropy 0.500  s 0.81  d 0.40  accuracy 91.20 %'
        >>> describe_epoch({"train/entropy": 0.3, "train/loss": 0.7, "train/s": 0.8, "train/d": 0.4})
        'train cross-entropy 0.300  train s 0.80  train d 0.40'
    """
    numbers = {"cross-entropy {:.3f}": "val/loss", "s {:.2f}": "s", "d {:.2f}": "d", "accuracy {:.2f} %": "val/top1"}
    if "val/loss" not in record:
        entropy = "train/entropy" in record
        first = {"train cross-entropy {:.3f}": "train/entropy"} if entropy else {"train loss {:.3f}": "train/loss"}
        numbers = first | {"train s {:.2f}": "train/s", "train d {:.2f}": "train/d"}
    return "  ".join(form.format(record[name]) for form, name in numbers.items() if name in record)


class Progress:
    """A progress bar on standard error; silent on all processes but the first."""

    def __init__(self, recipe: Recipe, steps: int, first_epoch: int, speak: bool) -> None:
        self.recipe, self.steps, self.first, self.speak = recipe, steps, first_epoch, speak
        self.bar: Any = None
        self.updated, self.images, self.since = 0.0, 0, time.monotonic()

    def __enter__(self) -> "Progress":
        if not self.speak or not _is_terminal():
            return self
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        console = make_console(stderr=True)
        if console.is_dumb_terminal:
            return self
        texts = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=None), TimeRemainingColumn())
        numbers = (TextColumn("{task.fields[note]}"),) if console.width >= WIDE else ()
        self.bar = Bar(*texts, *numbers, console=console, expand=True, transient=True)
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
        if now - self.updated > 0.1:
            speed = self.images / max(1e-9, now - self.since)
            note = f"loss {loss:.3f} {speed:.0f} images/s"
            self.bar.update(self.task, description=self._epoch(epoch), note=note)
            self.updated = now

    def epoch(self, record: EpochRecord) -> None:
        """Report a finished epoch; time spent on validation does not lower the displayed speed of the next epoch."""
        self.images, self.since = 0, time.monotonic()
        if not self.speak:
            return
        numbers = f"{self._epoch(record['epoch'])}  {describe_epoch(record)}"
        if self.bar is None:
            print(f"{numbers}  {record['images_per_second']:.0f} images/s", file=sys.stderr, flush=True)
        else:
            self.bar.console.print(numbers)

    def _epoch(self, epoch: int) -> str:
        """Format the number of an epoch, padded to the width of the last."""
        return f"epoch {epoch + 1:>{len(str(self.recipe.epochs))}}/{self.recipe.epochs}"


@contextmanager
def task_bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of the name of a task, the amount done, and the total: a bar per task, only on a terminal."""
    from rich.progress import Progress as Bar

    tasks: dict[str, Any] = {}
    with Bar(console=make_console(stderr=True), disable=not _is_terminal()) as bar:

        def show(task: str, done: int, total: int) -> None:
            if task not in tasks:
                tasks[task] = bar.add_task(task, total=total)
            bar.update(tasks[task], completed=done)

        yield show


class RunLogger:
    """Logs numbers after every epoch and, to TensorBoard, figures after some epochs and the last."""

    def __init__(self, fabric: Any, recipe: Recipe, folder: RunFolder, splits: Splits) -> None:
        self.fabric, self.recipe, self.splits = fabric, recipe, splits
        self.logger = _open_logger(recipe.log, recipe, folder)
        if recipe.log == "csv":  # its file is rewritten when a run resumes
            for record in folder.metrics():
                self._log_numbers(record)

    def log(self, model: nn.Module, record: EpochRecord) -> None:
        """Log the numbers of an epoch, and its figures if they are due."""
        epoch = record["epoch"]
        self._log_numbers(record)
        drawn = epoch % FIGURES_EVERY == 0 or epoch + 1 == self.recipe.epochs
        if self.recipe.log == "tensorboard" and drawn:
            self._log_figures(model, epoch)
        self.logger.save()

    def _log_numbers(self, record: EpochRecord) -> None:
        numbers = {name: value for name, value in record.items() if name != "epoch"}
        self.logger.log_metrics(numbers, record["epoch"])

    def _log_figures(self, model: nn.Module, epoch: int) -> None:
        """Log the class-similarity matrix of held-out images, and a scatter plot of their features if these are 2-D."""
        from matplotlib.figure import Figure

        part = self.splits.val if len(self.splits.val) else self.splits.train
        sample = replace(part, rows=part.rows[:FIGURE_IMAGES])
        arrays = validate_part(self.fabric, self.recipe, model, sample, keep=True, alone=True).arrays
        figure = Figure(figsize=(5, 4), layout="constrained")
        image = figure.subplots().imshow(np.abs(arrays["similarity"]), vmin=0, vmax=1, cmap="cividis")
        figure.colorbar(image, label="|cosine|")
        self.logger.experiment.add_figure("similarity", figure, epoch)
        if arrays["features"].shape[1] == 2:
            figure = Figure(figsize=(5, 5), layout="constrained")
            axes, features = figure.subplots(), arrays["features"].astype("float32")
            axes.scatter(features[:, 0], features[:, 1], c=arrays["labels"], s=5, cmap="tab20")
            axes.set_aspect("equal", adjustable="datalim")
            self.logger.experiment.add_figure("features", figure, epoch)


def _open_logger(kind: Log, recipe: Recipe, folder: RunFolder) -> Any:
    """Open the logger of a run; its files are in a subfolder of the run folder, named after the logger."""
    settings: Any = {"root_dir": folder.path, "name": kind, "version": ""}
    if kind == "csv":
        from lightning_fabric.loggers.csv_logs import CSVLogger

        return CSVLogger(**settings, flush_logs_every_n_steps=1)
    if kind == "tensorboard":
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(**settings, default_hp_metric=False)
    return _wandb_logger()(
        project="opl", group=recipe.name, name=f"{recipe.name} seed {recipe.seed}", dir=str(folder.path)
    )


def _wandb_logger() -> Any:
    try:
        from wandb.integration.lightning.fabric import WandbLogger  # type: ignore[import-not-found]
    except ImportError as error:
        raise OptionError("--log wandb needs Weights & Biases: pip install wandb, then wandb login.") from error
    return WandbLogger
