"""Truncated Lq: generalized cross-entropy that prunes samples whose labels are improbable under the best model."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

from ..._ranges import Count, CountOrZero, Fraction, Range
from ...errors import OptionError
from ...functional import IGNORE_INDEX
from ...losses import truncated
from ...losses.truncated import TruncatedLoss, keep_mask
from ..models.modes import evaluation_mode
from ..types import Batch, Output, TaskShape
from .auxiliaries import OPL, AuxiliaryMethod, build_terms
from .base import Losses, Objective, is_distributed

Select = Literal["noisy-val", "test-as-released"]
MONITORS = {"noisy-val": "val/top1", "test-as-released": "test/top1"}


@dataclass(frozen=True)
class TruncatedLq(AuxiliaryMethod):
    """`(1 - p^q) / q` on the kept samples, plus auxiliary losses.

    Initially all samples are kept. Before epoch `start`, and every `every` epochs after it, the best model so far
    predicts all training images without augmentation, and a sample is kept if its label has a probability above k. A
    pruned sample can therefore return. Training continues with the current weights, also in the pruning epochs, in
    which the released code does not train.
    """

    q: Fraction = truncated.Q
    """0 is cross-entropy, 1 is half the absolute error."""
    k: Annotated[float, Range(0, 1, above=True, below=True)] = truncated.K
    """Pruning threshold: samples whose label has at most this probability are pruned."""
    start: Count = 39
    """The first epoch, counted from 0, that starts with pruning."""
    every: Count = 10
    """Epochs between prunings."""
    warmup: CountOrZero = 0
    """Epochs of cross-entropy before Lq, whose gradient is small as long as all labels are improbable."""
    select: Select = "noisy-val"
    """Data that selects the best model: held-out images with labels as noisy as in training, or the *test set*, as in
    the released code, which biases its test accuracy upward."""
    leave_out: bool = False
    """Exclude pruned samples from OPL's pairs; the released code includes them."""

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; its state includes which samples are kept."""
        if self.leave_out and not all(isinstance(loss, OPL) for loss in self.auxiliary):
            raise OptionError(
                "leave_out works with OPL only, because other losses use the whole batch: use OPL alone or "
                "leave_out=False."
            )
        return TruncatedObjective(self, shape)


class TruncatedObjective(Objective):
    """Truncated Lq and auxiliary losses; `kept` is a mask over the training images by row, equal on all processes."""

    kept: Tensor

    def __init__(self, settings: TruncatedLq, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.criterion = TruncatedLoss(q=settings.q, k=settings.k, reduction="sum")
        self.settings, self.monitor = settings, MONITORS[settings.select]
        self.register_buffer("kept", torch.ones(sum(shape.counts), dtype=torch.bool))
        self.best: dict[str, Tensor] = {}
        self.score = -1.0

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Compute the loss, to which pruned samples contribute a constant; with `leave_out`, terms ignore them."""
        output: Output = model(batch.images)
        kept = self.kept[batch.rows]
        loss = self.criterion(output.logits, batch.labels, kept)
        if self.settings.leave_out:
            batch = batch._replace(labels=batch.labels.where(kept, IGNORE_INDEX))
        return Losses({"truncated": (1.0, loss)}, output, batch)

    def before_epoch(self, epoch: int, model: nn.Module, everything: Callable[[], Iterator[Batch]]) -> None:
        """Switch from cross-entropy to Lq after the warm-up; prune, if the epoch is due."""
        self.criterion.q = 0.0 if epoch < self.settings.warmup else self.settings.q
        late = epoch - self.settings.start
        if late < 0 or late % self.settings.every:
            return
        if not self.best:
            raise OptionError(
                f"no model was evaluated ({self.monitor}) before epoch {epoch}, which begins with pruning: increase "
                "method.start, or decrease eval_every."
            )
        kept = self._kept_by_best(model, everything())
        if is_distributed():
            dist.all_reduce(kept)
        self.kept.copy_(kept.bool())

    @torch.no_grad()
    def _kept_by_best(self, model: nn.Module, batches: Iterator[Batch]) -> Tensor:
        """Return (N,), 1 for the samples of this process's shard to keep; the model is not modified."""
        kept = torch.zeros(len(self.kept), dtype=torch.int32, device=self.kept.device)
        with evaluation_mode(model):
            for batch in batches:
                output: Output = functional_call(model, self.best, (batch.images,))
                kept[batch.rows] = keep_mask(output.logits, batch.labels, k=self.settings.k).int()
        return kept

    def kept_samples(self) -> Tensor:
        """Return the mask of the samples that are not pruned."""
        return self.kept

    def after_epoch(self, model: nn.Module, record: Mapping[str, Any]) -> None:
        """Store the model's weights if it is the best so far."""
        super().after_epoch(model, record)
        score = float(record.get(self.monitor, -1.0))
        if score > self.score:
            self.score = score
            self.best = {name: value.detach().clone() for name, value in model.state_dict().items()}
            if is_distributed():  # batch norm's running statistics differ between processes
                for value in self.best.values():
                    dist.broadcast(value, 0)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the best model so far, its score and the current q, so that a run can resume inside an epoch."""
        return {"best": self.best, "score": self.score, "q": self.criterion.q}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the best model, its score and q."""
        self.criterion.q = float(state["q"])
        self.best = {name: value.to(self.kept.device) for name, value in state["best"].items()}
        self.score = float(state["score"])
