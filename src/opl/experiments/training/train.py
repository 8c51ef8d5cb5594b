"""The only training loop.

It does not depend on the method or the data set. Order, augmentation, dropout and learning rate are functions of (seed,
epoch, step), so that a resumed run continues exactly as an uninterrupted one would.
"""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..._support.step_counter import StepCounter
from ...errors import DivergedError
from ...optim import param_groups
from ..methods.base import Objective
from ..recipe import Recipe
from ..seeds import Purpose
from ..types import Batch, EpochRecord, Terms


class Data(Protocol):
    """What the loop needs from its data: the number of steps per epoch, and the batches of an epoch."""

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        ...

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, from `start_step` on."""
        ...


class Watcher(Protocol):
    """Receives progress updates, for instance a progress bar."""

    def step(self, epoch: int, step: int, images: int, loss: float) -> None:
        """Report a finished step."""
        ...


def fit(
    fabric: Any,
    recipe: Recipe,
    model: nn.Module,
    objective: Objective,
    data: Data,
    *,
    everything: Callable[[], Iterator[Batch]],
    state: dict[str, Any] | None,
    validate: Callable[[nn.Module], dict[str, float]],
    save: Callable[[dict[str, Any], EpochRecord], None],
    watcher: Watcher,
) -> nn.Module:
    """Train from `state` (or from scratch) to the last epoch; return the wrapped model.

    Args:
        fabric: a launched Lightning Fabric; the model and the optimizer are set up on it here.
        recipe: epochs, optimizer, schedule, clipping, accumulation.
        model: returns `Output`.
        objective: `objective(model, batch) -> Terms`; its parameters are trained too.
        data: the training batches of this process.
        everything: returns this process's shard of the training images, not augmented, for objectives that need it.
        state: the state last passed to `save`, to resume from.
        validate: called every `eval_every` epochs and after the last; its numbers are added to the record.
        save: called after every epoch with the state and the epoch's record.
        watcher: receives an update after every step.
    """
    optimizer = recipe.optimizer.build(param_groups(model, objective, lr=recipe.optimizer.lr))
    first = 0
    if state is not None:
        model.load_state_dict(state["model"])
        objective.load_state_dict(state["objective"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"]
    wrapped, optimizer = fabric.setup(model, optimizer)
    for epoch in range(first, recipe.epochs):
        started = time.perf_counter()
        with torch.random.fork_rng():
            with fabric.autocast():
                objective.before_epoch(epoch, model, everything)
            record = _train_epoch(fabric, recipe, wrapped, objective, optimizer, data, epoch, watcher)
        record = {"epoch": epoch, **record}
        if (epoch + 1) % recipe.eval_every == 0 or epoch + 1 == recipe.epochs:
            record |= validate(wrapped)
        objective.after_epoch(model, record)
        record["seconds"] = time.perf_counter() - started
        save(
            {
                "epoch": epoch + 1,
                "model": model.state_dict(),
                "objective": objective.state_dict(),
                "optimizer": optimizer.state_dict(),
            },
            record,
        )
    trained: nn.Module = wrapped
    return trained


def _train_epoch(
    fabric: Any, recipe: Recipe, model: nn.Module, objective: Objective, optimizer: Any, data: Data, epoch: int,
    watcher: Watcher,
) -> EpochRecord:  # fmt: skip
    model.train()
    objective.train()
    stepped = [part for part in (*model.modules(), *objective.modules()) if isinstance(part, StepCounter)]
    sums: dict[str, float] = {}
    seen, rate, started = 0, 0.0, time.perf_counter()
    for step, batch in enumerate(data.epoch(epoch)):
        torch.manual_seed(Purpose.DROPOUT.seed(recipe.seed, epoch, step, fabric.global_rank))
        rate = recipe.optimizer.lr * recipe.schedule(epoch * data.steps + step, data.steps, recipe.epochs)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["lr_mult"]
        for part in stepped:
            part.set_step(epoch * data.steps + step)
        whole = (step + 1) % recipe.accumulate == 0 or step + 1 == data.steps
        with fabric.no_backward_sync(model, enabled=not whole):
            terms: Terms = objective(model, batch)
            fabric.backward(terms.total / min(recipe.accumulate, data.steps - step + step % recipe.accumulate))
        values = _values(terms)
        _stop_unless_finite(fabric, values, f"epoch {epoch}, step {step}", sums, seen)
        if whole:
            _average_gradients(fabric, objective)
            if recipe.clip:
                fabric.clip_gradients(model, optimizer, max_norm=recipe.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        images = round(fabric.world_size / batch.sample_weight)  # of the global batch
        seen += images
        for name, value in values.items():
            sums[name] = sums.get(name, 0.0) + value * images
        watcher.step(epoch, step, images, values["loss"])
    seconds = time.perf_counter() - started
    totals = fabric.all_reduce(torch.tensor(list(sums.values()), dtype=torch.float64), reduce_op="mean").tolist()
    means = {f"train/{name}": total / max(1, seen) for name, total in zip(sums, totals, strict=True)}
    return {**means, "lr": rate, "images_per_second": seen / seconds}


def _average_gradients(fabric: Any, objective: nn.Module) -> None:
    """Average the gradients of the objective's parameters over processes, as DDP does for the model."""
    if fabric.world_size > 1:
        for parameter in objective.parameters():
            found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.grad = fabric.all_reduce(found, reduce_op="mean")


def _values(terms: Terms) -> dict[str, float]:
    """Return the loss and its parts as floats."""
    named: dict[str, Tensor] = {"loss": terms.total, **terms.parts}
    return dict(zip(named, torch.stack([value.detach().double() for value in named.values()]).tolist(), strict=True))


def _stop_unless_finite(fabric: Any, values: dict[str, float], where: str, sums: dict[str, float], seen: int) -> None:
    """Raise an error that names the non-finite part of the loss; one process with such a loss stops all."""
    wrong = [name for name, value in values.items() if not math.isfinite(value)]
    stop = len(wrong)
    if fabric.world_size > 1:
        stop = int(fabric.all_reduce(torch.tensor(float(stop), device=fabric.device), reduce_op="sum"))
    if stop:
        before = ", ".join(f"{name} {total / seen:.4g}" for name, total in sums.items()) if seen else "none yet"
        raise DivergedError(
            f"the loss is not finite in {where} ({', '.join(wrong) or 'on another process'}); means of the epoch "
            f"before: {before}: lower the learning rate, add a warm-up, or clip gradients."
        )
