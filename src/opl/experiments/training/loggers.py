"""Logging beside the run folder, through Fabric's loggers, if the recipe asks for it."""

from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ...errors import OptionError
from ..recipe import Log, Recipe
from ..run_folder import RunFolder
from ..types import EpochRecord, Splits
from .validation import validate_part

PICTURES_EVERY = 5  # epochs
PICTURED = 2000  # images used for the figures


class RunLogger:
    """Logs numbers after every epoch and, to TensorBoard, figures after some epochs and the last."""

    def __init__(self, fabric: Any, recipe: Recipe, folder: RunFolder, splits: Splits) -> None:
        self.fabric, self.recipe, self.splits = fabric, recipe, splits
        self.logger = _open(recipe.log, recipe, folder)
        if recipe.log == "csv":  # its file is written anew when a run resumes
            for record in folder.metrics():
                self._log_numbers(record)

    def log(self, model: nn.Module, record: EpochRecord) -> None:
        """Log the numbers of an epoch, and its figures if they are due."""
        epoch = record["epoch"]
        self._log_numbers(record)
        pictured = epoch % PICTURES_EVERY == 0 or epoch + 1 == self.recipe.epochs
        if self.recipe.log == "tensorboard" and pictured:
            self._log_pictures(model, epoch)
        self.logger.save()

    def _log_numbers(self, record: EpochRecord) -> None:
        numbers = {name: value for name, value in record.items() if name != "epoch"}
        self.logger.log_metrics(numbers, record["epoch"])

    def _log_pictures(self, model: nn.Module, epoch: int) -> None:
        """Log the class-similarity matrix of held-out images, and a scatter plot of their features if these are 2-D."""
        part = self.splits.val if len(self.splits.val) else self.splits.train
        some = replace(part, rows=part.rows[:PICTURED])
        arrays = validate_part(self.fabric, self.recipe, model, some, keep=True, alone=True).arrays
        self.logger.experiment.add_figure("similarity", _matrix(arrays["similarity"]), epoch)
        if arrays["features"].shape[1] == 2:
            self.logger.experiment.add_figure(
                "features", _plane(arrays["features"].astype("float32"), arrays["labels"]), epoch
            )


def _open(kind: Log, recipe: Recipe, folder: RunFolder) -> Any:
    """The logger of a run; its files, if it has any, are in a folder of its name beside the run's own."""
    place: Any = {"root_dir": folder.path, "name": kind, "version": ""}
    if kind == "csv":
        from lightning_fabric.loggers.csv_logs import CSVLogger

        return CSVLogger(**place, flush_logs_every_n_steps=1)
    if kind == "tensorboard":
        from lightning_fabric.loggers.tensorboard import TensorBoardLogger

        return TensorBoardLogger(**place, default_hp_metric=False)
    try:
        from wandb.integration.lightning.fabric import WandbLogger  # type: ignore[import-not-found]
    except ImportError as error:
        raise OptionError("--log wandb needs Weights & Biases: pip install wandb, then wandb login.") from error
    return WandbLogger(project="opl", group=recipe.name, name=f"{recipe.name} seed {recipe.seed}", dir=str(folder.path))


def _matrix(similarity: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.subplots()
    figure.colorbar(axes.imshow(np.abs(similarity), vmin=0, vmax=1, cmap="cividis"), label="|cosine|")
    return figure


def _plane(features: Any, labels: Any) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.subplots()
    axes.scatter(features[:, 0], features[:, 1], c=labels, s=5, cmap="tab20")
    axes.set_aspect("equal", adjustable="datalim")
    return figure
