"""What a run shows on TensorBoard, where its recipe asks for it."""

from dataclasses import replace
from typing import Any

from torch import nn

from ..recipe import Recipe
from ..run_folder import RunFolder
from ..types import EpochRecord, Splits
from .predictions import predict_part

PICTURES_EVERY = 5  # epochs
PICTURED = 2000  # images that the pictures are made of


class TensorBoardLogger:
    """Numbers of every epoch; pictures of some, and of the last."""

    def __init__(self, fabric: Any, recipe: Recipe, folder: RunFolder, splits: Splits) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self.fabric, self.recipe, self.splits = fabric, recipe, splits
        self.writer = SummaryWriter(str(folder.path / "tensorboard"))

    def show(self, model: nn.Module, record: EpochRecord) -> None:
        """An epoch ended."""
        for name, value in record.items():
            if name != "epoch":
                self.writer.add_scalar(name, value, record["epoch"])
        if record["epoch"] % PICTURES_EVERY == 0 or record["epoch"] + 1 == self.recipe.epochs:
            self._pictures(model, record["epoch"])
        self.writer.flush()

    def _pictures(self, model: nn.Module, epoch: int) -> None:
        """The class-similarity matrix, and features in the plane where there are two, of held-out images."""
        from ..figures import plane, similarity

        name, names = self.recipe.name, self.splits.class_names
        part = self.splits.val if len(self.splits.val) else self.splits.train
        found = predict_part(self.fabric, self.recipe, model, replace(part, rows=part.rows[:PICTURED]))
        self.writer.add_figure(
            "similarity", similarity.draw([similarity.Matrix(name, found["similarity"], names)]), epoch
        )
        if found["features"].shape[1] == 2:
            cloud = plane.Cloud(name, found["features"].astype("float32"), found["labels"], names)
            self.writer.add_figure("features", plane.draw([cloud]), epoch)
