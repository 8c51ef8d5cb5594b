"""Terms of an objective: losses added to those of the method, each called as `term(model, output, batch)`."""

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from ...errors import OptionError
from ...heads import Head, LinearHead
from ...losses.negative_cam import class_activation_maps
from ...plugin import FeatureTap
from ...plugin.criterion import DIAGNOSED, GammaWatch
from ..models.modes import unwrap
from ..types import Batch, Output
from .variants import GradientBalance, ProjectionLoss, entropy_gradient


class Term(nn.Module):
    """A loss that is added to an objective; its value is this process's part of the mean over the global batch.

    `measures` are numbers about the last batch for the records, which are not part of the loss.
    """

    def __init__(self) -> None:
        super().__init__()
        self.measures: dict[str, Tensor] = {}

    def prepare(self, model: nn.Module) -> None:
        """Prepare for a forward pass; called before the model runs on a batch."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return the loss of a batch, from the model's output."""
        raise NotImplementedError(f"{type(self).__name__} has no formula: define forward in the class.")

    def after_epoch(self, record: Mapping[str, Any]) -> None:
        """Handle the end of an epoch; `record` holds its metrics, equal on all processes."""


class FeatureTerm(Term):
    """A loss on the features; with several processes, computed on each local batch and weighted by its size."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value * batch_share(batch)


class ProjectionTerm(Term):
    """OPL or one of its variants, computed on the global batch on every process.

    Args:
        loss: OPL.
        balance: scales its gradient to that of softmax cross-entropy at the features.
        label_smoothing: of that cross-entropy.
    """

    def __init__(
        self, loss: ProjectionLoss, balance: GradientBalance | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.loss, self.balance, self.label_smoothing = loss, balance, label_smoothing
        self.watch = GammaWatch()

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return the loss unscaled; a balance changes its gradient, not its value."""
        features = output.features.view_as(output.features)  # a tensor of our own: the engine watches the model's
        found = self.loss.diagnose(features, batch.labels)
        named = {"s": found.same, "d": found.other, **{name: found._asdict()[name] for name in DIAGNOSED}}
        self.measures = {name: value.detach() for name, value in named.items() if value is not None}
        if self.balance is None:
            return found.loss
        head = unwrap(model).get_submodule("fc")
        if not isinstance(head, nn.Linear | LinearHead):
            raise OptionError(
                f"a balanced OPL needs a linear classifier, and the model ends in a {type(head).__name__}."
            )
        slope = entropy_gradient(output.logits, batch.labels, head.weight, self.label_smoothing) * batch.sample_weight
        scaled: Tensor = self.balance(found.loss, features, slope)
        return scaled

    def after_epoch(self, record: Mapping[str, Any]) -> None:
        """Warn, once, if gamma was too small to lower d during the epoch."""
        if "train/gamma_needed" in record:
            self.watch.judge(record["train/gamma"], record["train/gamma_needed"], "this epoch")


class HeadPenaltyTerm(Term):
    """The penalty of the model's head, for instance the likelihood term of LGM."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean penalty over the global batch."""
        head = unwrap(model).get_submodule("fc")
        if not isinstance(head, Head):
            raise OptionError(f"the model ends in a {type(head).__name__}, which has no penalty: give it the head.")
        return head.penalty(output.features, batch.labels) * batch_share(batch)


class ActivationMapTerm(Term):
    """A loss on class activation maps: the linear classifier at every position of the map before pooling."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.tap: FeatureTap | None = None

    def prepare(self, model: nn.Module) -> None:
        """Tap the model's pooling layer, once."""
        if self.tap is None:
            self.tap = FeatureTap(unwrap(model), "avgpool")

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch, for the model's last forward pass."""
        if self.tap is None:
            raise OptionError("the pooling layer was not tapped before the model ran: call prepare(model) first.")
        maps, head = self.tap.take(), unwrap(model).get_submodule("fc")
        maps = maps[: len(batch.labels)]  # a pass may append further images to the batch, such as twins
        maps = maps[:, :, None, None] if maps.ndim == 2 else maps
        if not isinstance(head, nn.Linear | LinearHead) or head.weight.shape[1] != maps.shape[1]:
            raise OptionError(
                "class activation maps need a linear classifier on the averaged map, and this model has another head "
                "or layers between: take head=None and a model that ends in its average pool, such as CifarResNet."
            )
        value: Tensor = self.loss(class_activation_maps(maps, head.weight, head.bias), batch.labels)
        return value * batch_share(batch)


def batch_share(batch: Batch) -> float:
    """Return the weight of a mean over the local batch in the mean over the global batch; 1 for one process."""
    return batch.sample_weight * len(batch.labels)


def is_distributed() -> bool:
    """Return whether training is distributed over processes."""
    return dist.is_available() and dist.is_initialized()
