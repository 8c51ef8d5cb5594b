"""The one objective of supervised training: a criterion on the logits and any number of weighted terms beside it."""

from collections.abc import Mapping

import torch.distributed as dist
from torch import Tensor, nn

from ...errors import OptionError
from ...heads import LinearHead
from ...losses.negative_cam import class_activation_maps
from ...plugin import FeatureTap
from ..types import Batch, Output, Terms


class Objective(nn.Module):
    """`weight * criterion + sum of weight * term`, over the global batch.

    Args:
        criterion: called with (logits, labels), gives the *sum* over samples.
        name: of the criterion, in the records.
        terms: by name, a weight and a module that is called with (model, output, batch).
        guided: the model's head takes the labels too, for its margin.
        weight: of the criterion.
    """

    def __init__(
        self,
        criterion: nn.Module,
        name: str = "entropy",
        terms: Mapping[str, tuple[float, nn.Module]] | None = None,
        guided: bool = False,
        weight: float = 1.0,
    ) -> None:
        super().__init__()
        terms = terms or {}
        self.criterion, self.name, self.guided, self.weight = criterion, name, guided, weight
        self.terms = nn.ModuleDict({key: term for key, (_, term) in terms.items()})
        self.weights = {key: weight for key, (weight, _) in terms.items()}

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """The loss of one batch."""
        for term in self.terms.values():
            if isinstance(term, ActivationMapTerm):
                term.watch(model)
        output = self.answer(model, batch)
        parts = {self.name: self.judged(output, batch) * batch.sample_weight}
        total = self.weight * parts[self.name]
        beside = self.beside(batch)
        for name, term in self.terms.items():
            parts[name] = term(model, output, beside)
            total = total + self.weights[name] * parts[name]
        return Terms(total, parts)

    def answer(self, model: nn.Module, batch: Batch) -> Output:
        """What the model says of a batch; a method that interferes with the model does so here."""
        output: Output = model(batch.images, batch.labels) if self.guided else model(batch.images)
        return output

    def judged(self, output: Output, batch: Batch) -> Tensor:
        """The sum of the criterion over the samples."""
        value: Tensor = self.criterion(output.logits, batch.labels)
        return value

    def beside(self, batch: Batch) -> Batch:
        """What the terms see of the batch."""
        return batch


class FeatureTerm(nn.Module):
    """A loss on the features; over several processes, of each one's own share, weighed by its size."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as a part of the global mean."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value * batch_share(batch)


class GlobalFeatureTerm(FeatureTerm):
    """A loss that is that of the global batch already, on every process."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as it is."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value


class HeadPenaltyTerm(nn.Module):
    """What the model's head wants added to the loss, for instance the likelihood of LGM."""

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The penalty as a part of the global mean."""
        value: Tensor = unwrap(model).fc.penalty(output.features, batch.labels)  # type: ignore[operator, union-attr]
        return value * batch_share(batch)


class ActivationMapTerm(nn.Module):
    """A loss on class activation maps: the linear classifier at every position of the map before the pooling."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.tap: FeatureTap | None = None

    def watch(self, model: nn.Module) -> None:
        """Listen to the model's pooling layer, before it runs."""
        if self.tap is None:
            self.tap = FeatureTap(unwrap(model), "avgpool")

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """The loss as a part of the global mean."""
        assert self.tap is not None
        maps, head = self.tap.take(), unwrap(model).fc
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


def unwrap(model: nn.Module) -> nn.Module:
    """The network itself, without what the engine put around it."""
    inner: nn.Module = getattr(model, "module", model)
    return inner
