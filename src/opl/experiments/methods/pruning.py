"""Cross-entropy that removes filters while it trains: one iteration of NeuralScale's search for widths."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..._ranges import Count, CountOrZero, PositiveFraction
from ...errors import OptionError
from ...schedules import StepCounter
from ..models.modes import unwrap
from ..models.network import Network
from ..models.neural_scale import Gate, gates_of
from ..types import Batch, Method, Output, TaskShape
from ..widths import FIT, SCALING, count_parameters, fit, proportional
from .base import SupervisedObjective, is_distributed


@dataclass(frozen=True)
class Pruning(Method):
    """After a warm-up, every `every` mini-batches remove the `filters` least important filters of all layers.

    The importance of a filter is the mean over these mini-batches of `(gate * dL/dgate) ** 2`. The search ends when the
    fraction `until` of all filters is removed, or when a layer would lose its last filter. The widths after each
    removal are recorded once every layer has lost a filter, or once the fraction `latest` of all filters is
    removed; a power law per layer is fitted to them at the end. A search without a record keeps the proportions of its
    network.
    """

    warmup: CountOrZero = 10
    """Epochs before the first mini-batch that counts."""
    every: Count = 50
    """Mini-batches between removals."""
    filters: Count = 10
    """Filters per removal."""
    until: PositiveFraction = 0.95
    latest: PositiveFraction = 1.0
    """Fraction of removed filters after which widths are recorded even if a layer has lost none."""

    def build(self, shape: TaskShape) -> "PruningObjective":
        """Build the objective; its state has the records and whether the search has ended."""
        return PruningObjective(self, shape.steps)


class PruningObjective(SupervisedObjective):
    """Cross-entropy of a network with gates; filters are removed before a step, by their importance so far."""

    stopped: Tensor

    def __init__(self, settings: Pruning, steps: int) -> None:
        super().__init__()
        self.settings, self.start, self.clock = settings, settings.warmup * steps, StepCounter()
        self.register_buffer("stopped", torch.zeros((), dtype=torch.bool))
        self.widths: list[list[int]] = []

    def predict(self, model: nn.Module, batch: Batch) -> Output:
        """Run the model, after a removal if one is due."""
        if self.training:
            gates, done = _gates(model), int(self.clock.step) - self.start  # mini-batches measured so far
            for gate in gates:
                gate.measuring = done >= 0 and not self.ended
            if done > 0 and done % self.settings.every == 0 and not self.ended:
                self._remove(gates)
        return super().predict(model, batch)

    @property
    def ended(self) -> bool:
        """Whether the search has ended."""
        return bool(self.stopped)

    def facts(self, model: Network) -> dict[str, Any]:
        """Return the records and the power laws fitted to them."""
        first = next(part for part in model.modules() if isinstance(part, nn.Conv2d))
        assert isinstance(model.fc, nn.Linear)
        network, classes, channels = model.facts[SCALING]["network"], model.fc.out_features, first.in_channels
        parameters = [count_parameters(network, widths, classes, channels) for widths in self.widths]
        widths = model.facts[SCALING]["widths"]
        law = fit(self.widths, parameters) if self.widths else proportional(widths, 1.0)
        records = {"records": self.widths, "parameters": parameters}
        return {FIT: {"alpha": list(law.alpha), "beta": list(law.beta), **records}}

    def get_extra_state(self) -> dict[str, Any]:
        """Return the records."""
        return {"widths": self.widths}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the records."""
        self.widths = [list(widths) for widths in state["widths"]]

    @torch.no_grad()
    def _remove(self, gates: list[Gate]) -> None:
        """Close the least important gates, or end the search."""
        importance = torch.cat([gate.importance.where(gate.open > 0, torch.inf) for gate in gates])
        chosen = importance.argsort(stable=True)[: self.settings.filters]
        closed = torch.zeros_like(importance, dtype=torch.bool).index_fill(0, chosen, value=True)
        parts = torch.split(closed, [len(gate.open) for gate in gates])
        left = [int((gate.open > 0).logical_and(~part).sum()) for gate, part in zip(gates, parts, strict=True)]
        if min(left) == 0:
            self.stopped.fill_(value=True)
            return
        for gate, part in zip(gates, parts, strict=True):
            gate.open[part] = 0
            gate.importance.zero_()
        total = len(importance)
        removed = total - sum(left)
        if all(gate.width < len(gate.open) for gate in gates) or removed >= self.settings.latest * total:
            self.widths.append(left)
        if removed >= self.settings.until * total:
            self.stopped.fill_(value=True)


def _gates(model: nn.Module) -> list[Gate]:
    gates = gates_of(unwrap(model))
    if not gates:
        raise OptionError("Pruning needs a model with gates: set model.gates=True.")
    if is_distributed():
        raise OptionError("Pruning runs on one process: use --devices 1.")
    return gates
