"""Model, objective and optimizer in training: set up on Fabric, saved as one state, and restored.

A state is the same whatever the strategy and the number of processes: full weights and full optimizer state.
"""

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from ...errors import DivergedError
from ...optim import param_groups
from ..methods.base import Objective
from ..recipe import Recipe
from ..types import EpochRecord


@dataclass
class EpochTotals:
    """The progress of an epoch: its next step, and the sums for its record."""

    step: int = 0
    images: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    skipped: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, sums: dict[str, float], images: int) -> None:
        """Add the sums of a step."""
        self.images += images
        for name, value in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        """Return the means over the images so far."""
        return {name: total / max(1, self.images) for name, total in self.sums.items()}

    def record(self) -> EpochRecord:
        """Return what a finished epoch reports."""
        means = {f"train/{name}": value for name, value in self.means().items()}
        return {**means, "lr": self.rate, "images_per_second": self.images / max(1e-9, self.seconds)}


class Trained:
    """The model, objective and optimizer of a run, from a state or from scratch.

    `network` is the plain model with the full weights, and the objective calls `wrapped`. With FSDP they are two
    models, of which the wrapped one has only this process's share; `refresh` brings the network up to date.
    """

    def __init__(
        self, fabric: Any, recipe: Recipe, model: nn.Module, objective: Objective, state: dict[str, Any] | None
    ) -> None:
        if state is not None:
            model.load_state_dict(state["model"])
            objective.load_state_dict(state["objective"])
        self.fabric, self.network, self.objective = fabric, model, objective
        self.shards = recipe.strategy == "fsdp" and fabric.world_size > 1
        module = copy.deepcopy(model) if self.shards else model
        for parameter in module.parameters() if self.shards else ():
            parameter.data = parameter.data.contiguous()  # FSDP needs contiguous weights
        self.wrapped = fabric.setup_module(module)
        model.to(next(module.parameters()).dtype)
        rate = recipe.optimizer.lr
        mults = {module.get_submodule("fc"): recipe.head_lr_mult}
        if self.shards:  # a group cannot mix sharded and plain tensors
            groups = [*param_groups(module, lr=rate, lr_mults=mults), *param_groups(objective, lr=rate)]
        else:
            groups = param_groups(module, objective, lr=rate, lr_mults=mults)
        self.optimizer = fabric.setup_optimizers(recipe.optimizer.build(groups))
        if state is not None:
            self.optimizer.load_state_dict(self._shard(state["optimizer"]))
            fabric.strategy.precision.load_state_dict(state.get("precision", {}))

    def refresh(self) -> None:
        """Copy the trained weights to the network, and the buffers of the first process to all processes.

        All processes call it. The running statistics of BatchNorm differ between processes until then.
        """
        self._unshard()
        self.check_finite("at the end of an epoch")
        if self.fabric.world_size > 1:
            for buffer in self.network.buffers():
                dist.broadcast(buffer, 0)

    def state(self, epoch: int, totals: EpochTotals | None = None) -> dict[str, Any]:
        """Return the state after some epochs, or inside the next epoch; raise if it is not finite.

        With FSDP all processes call it.
        """
        self._unshard()
        optimizer = self.optimizer.state_dict()
        entries = {
            index: {name: full(value) for name, value in entry.items()} for index, entry in optimizer["state"].items()
        }
        moments = {f"{name} of {index}": value for index, entry in entries.items() for name, value in entry.items()}
        self.check_finite(f"after {epoch} epochs and {totals.step if totals else 0} steps", moments)
        inside = {"step": totals.step, "totals": asdict(totals)} if totals else {}
        return {
            "epoch": epoch,
            **inside,
            "model": self.network.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": {**optimizer, "state": entries},
            "precision": self.fabric.strategy.precision.state_dict(),
        }

    def check_finite(self, where: str, more: Mapping[str, Any] | None = None) -> None:
        """Raise an error that names weights that are not finite: they must never replace a good checkpoint."""
        named = {**self.network.state_dict(), **dict(self.objective.named_parameters()), **(more or {})}
        wrong = [name for name, value in named.items() if isinstance(value, Tensor) and not value.isfinite().all()]
        if wrong:
            raise DivergedError(
                f"the weights are not finite {where} ({', '.join(wrong[:3])}): lower the learning rate, add a warm-up, "
                "or clip gradients; the last checkpoint is still good."
            )

    def _unshard(self) -> None:
        if self.shards:
            self.network.load_state_dict({name: full(value) for name, value in self.wrapped.state_dict().items()})

    def _shard(self, optimizer: dict[str, Any]) -> dict[str, Any]:
        """Return a full optimizer state with this process's share of every tensor that belongs to a sharded one."""
        if not self.shards:
            return optimizer
        from torch.distributed.tensor import DTensor, distribute_tensor

        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

        def share(value: Any, parameter: Tensor) -> Any:
            if isinstance(parameter, DTensor) and isinstance(value, Tensor) and value.shape == parameter.shape:
                return distribute_tensor(value, parameter.device_mesh, parameter.placements)
            return value

        entries = {
            index: {name: share(value, parameters[index]) for name, value in entry.items()}
            for index, entry in optimizer["state"].items()
        }
        return {**optimizer, "state": entries}


def full(value: Any) -> Any:
    """Return a sharded tensor in full, for which all processes call this; return any other value unchanged."""
    from torch.distributed.tensor import DTensor

    return value.full_tensor() if isinstance(value, DTensor) else value
