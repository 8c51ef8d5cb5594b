"""Terms of an objective: losses that are added to the method's own, each called as `term(model, output, batch)`."""

import torch.distributed as dist
from torch import Tensor, nn

from ...errors import OptionError
from ...heads import Head, LinearHead
from ...losses.negative_cam import class_activation_maps
from ...plugin import FeatureTap
from ..models.modes import unwrap
from ..types import Batch, Output


class Term(nn.Module):
    """A loss that is added to an objective, as a part of the mean over the global batch."""

    def prepare(self, model: nn.Module) -> None:
        """Called before the model runs on a batch."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss of a batch, from the model's output."""
        raise NotImplementedError(f"{type(self).__name__} has no formula: define forward in the class.")


class FeatureTerm(Term):
    """A loss on the features; over several processes, of each one's own share, weighed by its size."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as a part of the global mean."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value * batch_share(batch)


class GlobalFeatureTerm(FeatureTerm):
    """A loss on the features that is that of the global batch already, on every process."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as it is."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value


class HeadPenaltyTerm(Term):
    """What the model's head adds to the loss, for instance the likelihood of LGM."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The penalty as a part of the global mean."""
        head = unwrap(model).get_submodule("fc")
        if not isinstance(head, Head):
            raise OptionError(f"the model ends in a {type(head).__name__}, which has no penalty: give it the head.")
        return head.penalty(output.features, batch.labels) * batch_share(batch)


class ActivationMapTerm(Term):
    """A loss on class activation maps: the linear classifier at every position of the map before the pooling."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.tap: FeatureTap | None = None

    def prepare(self, model: nn.Module) -> None:
        """Tap the model's pooling layer, once."""
        if self.tap is None:
            self.tap = FeatureTap(unwrap(model), "avgpool")

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as a part of the global mean, of the model's last pass."""
        if self.tap is None:
            raise OptionError("the pooling layer was not tapped before the model ran: call prepare(model) first.")
        maps, head = self.tap.take(), unwrap(model).get_submodule("fc")
        maps = maps[: len(batch.labels)]  # a pass may hold more images after those of the batch, such as twins
        maps = maps[:, :, None, None] if maps.ndim == 2 else maps
        if not isinstance(head, nn.Linear | LinearHead) or head.weight.shape[1] != maps.shape[1]:
            raise OptionError(
                "class activation maps need a linear classifier on the averaged map, and this model has another head "
                "or layers between: take head=None and a model that ends in its average pool, such as CifarResNet."
            )
        value: Tensor = self.loss(class_activation_maps(maps, head.weight, head.bias), batch.labels)
        return value * batch_share(batch)


def batch_share(batch: Batch) -> float:
    """What a mean over this process's images counts in the mean over all: 1 for one process."""
    return batch.sample_weight * len(batch.labels)


def is_distributed() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized()
