"""TensorBoard logging, if the recipe enables it."""

from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from ..recipe import Recipe
from ..run_folder import RunFolder
from ..types import EpochRecord, Splits
from .validation import validate_part

PICTURES_EVERY = 5  # epochs
PICTURED = 2000  # images used for the figures


class TensorBoardLogger:
    """Logs numbers after every epoch, and figures after some epochs and the last."""

    def __init__(self, fabric: Any, recipe: Recipe, folder: RunFolder, splits: Splits) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.fabric, self.recipe, self.splits = fabric, recipe, splits
        self.writer = SummaryWriter(str(folder.tensorboard))

    def log(self, model: nn.Module, record: EpochRecord) -> None:
        """Log the numbers of an epoch, and its figures if they are due."""
        epoch = record["epoch"]
        for name, value in record.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, epoch)
        if epoch % PICTURES_EVERY == 0 or epoch + 1 == self.recipe.epochs:
            self._log_pictures(model, epoch)
        self.writer.flush()

    def _log_pictures(self, model: nn.Module, epoch: int) -> None:
        """Log the class-similarity matrix of held-out images, and a scatter plot of their features if these are 2-D."""
        part = self.splits.val if len(self.splits.val) else self.splits.train
        some = replace(part, rows=part.rows[:PICTURED])
        arrays = validate_part(self.fabric, self.recipe, model, some, keep=True, alone=True).arrays
        self.writer.add_figure("similarity", _matrix(arrays["similarity"]), epoch)
        if arrays["features"].shape[1] == 2:
            self.writer.add_figure("features", _plane(arrays["features"].astype("float32"), arrays["labels"]), epoch)


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
