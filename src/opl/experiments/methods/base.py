"""The objective of every method: weighted losses of a batch and auxiliary terms. Here is the only term loop."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..types import Batch, Output, Terms
from .terms import Term

WeightedTerms = Mapping[str, tuple[float, Term]]
"""Terms by name, each with its weight."""


class Losses(NamedTuple):
    """What a method computes of a batch before the terms: see `Objective.losses`."""

    sums: dict[str, tuple[float, Tensor]]
    """By name, a weight and the sum of a loss over the samples."""
    output: Output
    """The model's output that the terms are given."""
    batch: Batch
    """The batch that the terms are given; its `sample_weight` turns the sums into means."""


class Objective(nn.Module):
    """`sum of weight * loss + sum of weight * term`, over the global batch.

    A method defines `losses`; the terms are the same for all. Between epochs an objective may do more: see
    `before_epoch` and `after_epoch`. What it learns there belongs into its state.
    """

    monitor: str = ""
    """The number of the records that tells which model is best; for one of `test/` the run tests after every epoch."""

    def __init__(self, terms: WeightedTerms | None = None) -> None:
        super().__init__()
        self.terms: dict[str, Term] = nn.ModuleDict({name: term for name, (_, term) in (terms or {}).items()})  # type: ignore[assignment]
        self.weights = {name: weight for name, (weight, _) in (terms or {}).items()}

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Run the model, and compute the losses that are the method's own."""
        raise NotImplementedError(f"{type(self).__name__} has no losses: define the method in the class.")

    def forward(self, model: nn.Module, batch: Batch) -> Terms:
        """The loss of one batch, and its parts."""
        for term in self.terms.values():
            term.prepare(model)
        sums, output, batch = self.losses(model, batch)
        parts = {name: value * batch.sample_weight for name, (_, value) in sums.items()}
        parts |= {name: term(model, output, batch) for name, term in self.terms.items()}
        weights = {name: weight for name, (weight, _) in sums.items()} | self.weights
        return Terms(reduce(add, (weights[name] * part for name, part in parts.items())), parts)

    def before_epoch(self, epoch: int, model: nn.Module, everything: Callable[[], Iterator[Batch]]) -> None:
        """An epoch begins, counted from 0; `everything()` are all training images, plain, of this process's share."""

    def after_epoch(self, model: nn.Module, record: Mapping[str, Any]) -> None:
        """An epoch ended with these numbers, which are the same on all processes."""

    def kept_samples(self) -> Tensor | None:
        """(N,) which training samples count, by row; None for a method that prunes none."""
        return None


class SupervisedObjective(Objective):
    """A criterion on the logits, and terms.

    Args:
        criterion: called with (logits, labels), gives the *sum* over samples.
        name: of the criterion, in the records.
        terms: by name, a weight and a term.
        guided: the model's head takes the labels too, for its margin.
        weight: of the criterion.
    """

    def __init__(
        self,
        criterion: nn.Module,
        name: str = "entropy",
        terms: WeightedTerms | None = None,
        guided: bool = False,
        weight: float = 1.0,
    ) -> None:
        super().__init__(terms)
        self.criterion, self.name, self.guided, self.weight = criterion, name, guided, weight

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """The criterion."""
        output = self.predict(model, batch)
        return Losses({self.name: (self.weight, self.criterion_sum(output, batch))}, output, self.term_batch(batch))

    def predict(self, model: nn.Module, batch: Batch) -> Output:
        """The model's output; a method that interferes with the model does so here."""
        output: Output = model(batch.images, batch.labels) if self.guided else model(batch.images)
        return output

    def criterion_sum(self, output: Output, batch: Batch) -> Tensor:
        """The sum of the criterion over the samples."""
        value: Tensor = self.criterion(output.logits, batch.labels)
        return value

    def term_batch(self, batch: Batch) -> Batch:
        """The batch that the terms are given."""
        return batch
