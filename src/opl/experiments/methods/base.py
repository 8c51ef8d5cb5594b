"""The objective of every method: weighted losses of a batch plus auxiliary terms, and the only loop over them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor, nn

from ..models.network import Network
from ..types import Batch, Output, Terms


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


WeightedTerms = Mapping[str, tuple[float, Term]]
"""Weights and terms, by name."""


class Losses(NamedTuple):
    """The result of `Objective.losses`: the losses of the method, and the inputs of the terms."""

    sums: dict[str, tuple[float, Tensor]]
    """By name, the weight of a loss and its sum over the samples."""
    output: Output
    """The model output passed to the terms."""
    batch: Batch
    """The batch passed to the terms; multiplying by its `sample_weight` turns the sums into means."""


class Objective(nn.Module):
    """`sum of weight * loss + sum of weight * term`, over the global batch.

    A method overrides `losses`; terms work the same for all methods. An objective can also act between epochs, in
    `before_epoch` and `after_epoch`; anything it computes there must be part of its state.
    """

    monitor: str = ""
    """The metric that selects the best model; for a `test/` metric, the run tests after every epoch."""
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext
    """The mixed precision of the run, set by `fit`, for passes through the network inside its wrapper."""

    def __init__(self, terms: WeightedTerms | None = None) -> None:
        super().__init__()
        self.terms: dict[str, Term] = nn.ModuleDict({name: term for name, (_, term) in (terms or {}).items()})  # type: ignore[assignment]
        self.weights = {name: weight for name, (weight, _) in (terms or {}).items()}

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Run the model and compute the losses of the method."""
        raise NotImplementedError(f"{type(self).__name__} has no losses: define the method in the class.")

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """Return the loss of one batch and its parts."""
        for term in self.terms.values():
            term.prepare(model)
        sums, output, batch = self.losses(model, batch)
        parts = {name: value * batch.sample_weight for name, (_, value) in sums.items()}
        parts |= {name: term(model, output, batch) for name, term in self.terms.items()}
        weights = {name: weight for name, (weight, _) in sums.items()} | self.weights
        total = reduce(add, (weights[name] * part for name, part in parts.items()))
        measures = {name: value for term in self.terms.values() for name, value in term.measures.items()}
        return Terms(total, parts, measures)

    def before_epoch(self, epoch: int, model: nn.Module, everything: Callable[[], Iterator[Batch]]) -> None:
        """Handle the start of an epoch, counted from 0.

        `everything()` iterates over the training images of this process's shard, without augmentation.
        """

    def after_epoch(self, model: nn.Module, record: Mapping[str, Any]) -> None:
        """Handle the end of an epoch; `record` holds its metrics, equal on all processes."""
        for term in self.terms.values():
            term.after_epoch(record)

    @property
    def ended(self) -> bool:
        """Whether training ends before the next epoch; a method that may end early keeps this in its state."""
        return False

    def facts(self, model: Network) -> dict[str, Any]:
        """Return what the method adds to `result.json` after training."""
        return {}

    def kept_samples(self) -> Tensor | None:
        """Return an (N,) mask of the training samples in use, by row; None for a method that keeps all samples."""
        return None


class SupervisedObjective(Objective):
    """A criterion on the logits, plus terms.

    Args:
        terms: by name, a weight and a term.
        criterion: called with (logits, labels), returns the *sum* over samples; by default, cross-entropy.
        name: name of the criterion in the records.
        guided: pass the labels to the model as well, for the margin of its head.
        weight: weight of the criterion.
        change: from the model and a batch to the batch that is trained on; called in mixed precision.
    """

    def __init__(
        self,
        terms: WeightedTerms | None = None,
        criterion: nn.Module | None = None,
        name: str = "entropy",
        guided: bool = False,
        weight: float = 1.0,
        change: Callable[[nn.Module, Batch], Batch] = lambda model, batch: batch,
    ) -> None:
        super().__init__(terms)
        self.criterion = criterion or nn.CrossEntropyLoss(reduction="sum")
        self.name, self.guided, self.weight, self.change = name, guided, weight, change

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Compute the criterion."""
        with self.autocast():
            batch = self.change(model, batch)
        output = self.predict(model, batch)
        return Losses({self.name: (self.weight, self.criterion(output.logits, batch.labels))}, output, batch)

    def predict(self, model: nn.Module, batch: Batch) -> Output:
        """Run the model on the batch; a method that modifies the forward pass overrides this."""
        output: Output = model(batch.images, batch.labels) if self.guided else model(batch.images)
        return output


def batch_share(batch: Batch) -> float:
    """Return the weight of a mean over the local batch in the mean over the global batch; 1 for one process."""
    return batch.sample_weight * len(batch.labels)


def is_distributed() -> bool:
    """Return whether training is distributed over processes."""
    return dist.is_available() and dist.is_initialized()
