"""A callback for Lightning's `Trainer` that logs the parts of a regularized criterion."""

from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer

from .criterion import find_criteria, name_parts


class LogProjection(Callback):
    """Log the base loss, OPL, s and d of every training batch, as `opl/base`, `opl/projection`, `opl/s` and `opl/d`.

    The criterion is found among the modules of the `LightningModule`.

    Args:
        every: batches between two logs.

    Example:
        trainer = Trainer(callbacks=[LogProjection()])
    """

    def __init__(self, every: int = 1) -> None:
        self.every = every

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log the parts of the last loss."""
        if batch_idx % self.every:
            return
        for criterion in find_criteria(pl_module):
            pl_module.log_dict(name_parts(criterion.last))
