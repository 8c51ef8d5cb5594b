"""The only training loop.

It does not depend on the method or the data set. Order, augmentation, dropout and learning rate are functions of (seed,
epoch, step), so that a run resumed at any step continues exactly as an uninterrupted one would.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from ...errors import StoppedError
from ..methods.base import Objective
from ..recipe import Recipe
from ..types import Batch
from .epoch import Data, Epoch, Save, Watcher
from .state import EpochTotals, Trained
from .stopping import StopSignals, stopped


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
    save: Save,
    watcher: Watcher,
    stop: StopSignals,
) -> None:
    """Train from `state` (or from scratch) to the last epoch, or until the method ends training.

    The model then has the final weights.

    Args:
        fabric: a launched Lightning Fabric; the model and the optimizer are set up on it here.
        recipe: epochs, optimizer, schedule, clipping, accumulation, strategy, checkpoints.
        model: returns `Output`.
        objective: `objective(model, batch) -> Terms`; its parameters are trained too.
        data: the training batches of this process.
        everything: returns this process's shard of the training images, not augmented, for objectives that need it.
        state: the state last passed to `save`, to resume from.
        validate: called every `eval_every` epochs and after the last; its numbers are added to the record.
        save: called with the state and the record of each epoch, and inside an epoch with a state and None.
        watcher: receives an update after every step.
        stop: the signals that end the run; the state is saved first.
    """
    trained = Trained(fabric, recipe, model, objective, state)
    steps = Epoch(fabric, recipe, trained, data, watcher, stop, save)
    totals = EpochTotals(**(state or {}).get("totals", {}))
    for epoch in range(state["epoch"] if state else 0, recipe.epochs):
        if objective.ended:
            break
        try:
            with stop.deferred(), torch.random.fork_rng():
                if not totals.step:
                    with fabric.autocast():
                        objective.before_epoch(epoch, model, everything)
                steps.take(epoch, totals)
                trained.refresh()
            started = time.perf_counter()
            record = {"epoch": epoch, **totals.record()}
            if recipe.on_nan == "skip":
                record["skipped_steps"] = totals.skipped
            if (epoch + 1) % recipe.eval_every == 0 or epoch + 1 == recipe.epochs:
                record |= validate(model)
        except StoppedError as error:
            stop.hold()
            if totals.step:
                save(trained.state(epoch, totals), None)
            raise stopped(error.code - 128, f"in epoch {epoch}, step {totals.step} of {data.steps}") from None
        with stop.deferred():
            objective.after_epoch(model, record)
            record["seconds"] = totals.seconds + time.perf_counter() - started
            save(trained.state(epoch + 1), record)
        totals = EpochTotals()
