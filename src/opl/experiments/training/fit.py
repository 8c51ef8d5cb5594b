"""The only training loop.

It does not depend on the method or the data set. Order, augmentation, dropout and learning rate are functions of (seed,
epoch, step), so that a run resumed at any step continues exactly as an uninterrupted one would.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import nn

from ...errors import DivergedError, FeatureError, StoppedError
from ...schedules import StepCounter
from ..data.batches import Batches
from ..methods.base import Objective
from ..recipe import Recipe, checkpoint_interval
from ..seeds import Purpose
from ..types import Batch, EpochRecord
from .state import EpochTotals, Trained
from .step import (
    Loss,
    NotFinite,
    Pieces,
    Prepare,
    add_exact_gradients,
    add_gradients,
    add_up,
    average_gradients,
    gradients_are_finite,
    watch_outputs,
)
from .stopping import StopSignals, stopped

Save = Callable[[dict[str, Any], EpochRecord | None], None]
Watch = Callable[[int, int, int, float], None]
"""Called after each step with the epoch, the step, the number of images and the loss."""


def fit(
    fabric: Any,
    recipe: Recipe,
    model: nn.Module,
    objective: Objective,
    data: Batches,
    *,
    everything: Callable[[], Iterator[Batch]],
    state: dict[str, Any] | None,
    validate: Callable[[nn.Module], dict[str, float]],
    save: Save,
    watch: Watch,
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
        watch: called after every step, for instance to show progress.
        stop: the signals that end the run; the state is saved first.
    """
    trained = Trained(fabric, recipe, model, objective, state)
    objective.autocast = fabric.autocast
    steps = _Steps(fabric, recipe, trained, data, watch, stop, save)
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
            raise stopped(error.code - 128, f"in epoch {epoch + 1}, step {totals.step} of {data.steps}") from None
        with stop.deferred():
            objective.after_epoch(model, record)
            record["seconds"] = totals.seconds + time.perf_counter() - started
            save(trained.state(epoch + 1), record)
        totals = EpochTotals()


class _Agreement(NamedTuple):
    """What all processes know after the gradients of a step."""

    sums: dict[str, float]
    """The loss and its parts, summed over the images of the global batch."""
    images: int
    broken: bool
    """Whether an output of the model or a gradient is not finite."""
    signum: int
    """A signal that a process received, or 0."""
    due: bool
    """Whether it is time for a checkpoint."""

    @property
    def wrong(self) -> list[str]:
        """The parts of the loss that are not finite."""
        return [name for name, value in self.sums.items() if not math.isfinite(value)]


class _Steps:
    """The steps of an epoch: gradients, agreement of all processes, the optimizer step, and checkpoints in between."""

    def __init__(
        self, fabric: Any, recipe: Recipe, trained: Trained, data: Batches, watch: Watch, stop: StopSignals, save: Save
    ) -> None:
        self.fabric, self.recipe, self.trained, self.data = fabric, recipe, trained, data
        self.watch, self.stop, self.save = watch, stop, save
        self.model, self.objective, self.optimizer = trained.wrapped, trained.objective, trained.optimizer
        self.add_gradients = add_exact_gradients if recipe.accumulation == "exact" else add_gradients
        parts = (*self.model.modules(), *self.objective.modules())
        self.counters = [part for part in parts if isinstance(part, StepCounter)]
        self.seconds, self.steps = checkpoint_interval(recipe.checkpoint_every)
        self.saved = time.monotonic()
        if recipe.on_nan == "skip":
            watch_outputs(fabric, self.model)

    def take(self, epoch: int, totals: EpochTotals) -> None:
        """Take the remaining steps of an epoch, starting at `totals.step`, and update the totals."""
        self.model.train()
        self.objective.train()
        started, before = time.perf_counter(), totals.seconds
        batches = enumerate(self.data.epoch(epoch, totals.step), totals.step)
        for first in range(totals.step, self.data.steps, self.recipe.accumulate):
            count = min(self.recipe.accumulate, self.data.steps - first)
            agreed = self._step(epoch, first, count, islice(batches, count), totals)
            totals.step, totals.seconds = first + count, before + time.perf_counter() - started
            loss = agreed.sums.get("loss", math.nan) / max(1, agreed.images)
            self.watch(epoch, totals.step - 1, agreed.images, loss)
            if agreed.signum:
                raise stopped(agreed.signum, f"in epoch {epoch + 1}")
            if agreed.due and totals.step < self.data.steps:
                self.save(self.trained.state(epoch, totals), None)
                self.saved = time.monotonic()

    def _step(self, epoch: int, first: int, count: int, pieces: Pieces, totals: EpochTotals) -> _Agreement:
        """Take one optimizer step, from `count` mini-batches."""
        last = first + count - 1
        base, where = epoch * self.data.steps, f"epoch {epoch + 1}, step {last + 1}"
        totals.rate = self.recipe.optimizer.lr * self.recipe.schedule(base + last, self.data.steps, self.recipe.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = totals.rate * group["lr_mult"]

        def prepare(step: int) -> None:
            torch.manual_seed(Purpose.DROPOUT.seed(self.recipe.seed, epoch, step, self.fabric.global_rank))
            for counter in self.counters:
                counter.set_step(base + step)

        skips = self.recipe.on_nan == "skip"
        buffers = [buffer.clone() for buffer in self._buffers()] if skips else []
        loss, broken = self._gradients(pieces, count, prepare, where)
        agreed = self._agree(loss, broken, first, last + 1)
        fails = bool(agreed.wrong) or agreed.broken
        if fails and not skips:
            before = ", ".join(f"{name} {value:.4g}" for name, value in totals.means().items()) or "none yet"
            raise DivergedError(
                f"the loss is not finite in {where} ({', '.join(agreed.wrong)}); means of the epoch so far: {before}: "
                "lower the learning rate, add a warm-up, or clip gradients."
            )
        if fails:
            totals.skipped += 1
            for buffer, kept in zip(self._buffers(), buffers, strict=True):
                buffer.copy_(kept)
        else:
            if self.recipe.clip:
                self.fabric.clip_gradients(
                    self.model, self.optimizer, max_norm=self.recipe.clip, error_if_nonfinite=False
                )
            self.optimizer.step()
            totals.add(agreed.sums, agreed.images)
        self.optimizer.zero_grad(set_to_none=True)
        return agreed

    def _gradients(self, pieces: Pieces, count: int, prepare: Prepare, where: str) -> tuple[Loss, bool]:
        """Compute the gradients; return the loss, and whether something else is not finite."""
        try:
            loss = self.add_gradients(self.fabric, self.model, self.objective, pieces, count, prepare)
        except NotFinite:
            return Loss({}, 0), True
        except FeatureError as error:
            raise DivergedError(f"training stopped in {where}: {error}") from error
        average_gradients(self.fabric, self.objective)
        if self.recipe.on_nan == "stop" or self.recipe.precision == "16-mixed":  # its scaler checks gradients itself
            return loss, False
        return loss, not gradients_are_finite((*self.model.parameters(), *self.objective.parameters()))

    def _agree(self, loss: Loss, broken: bool, first: int, after: int) -> _Agreement:
        """Add up the values of all processes; the clock of the first process decides whether a checkpoint is due."""
        late = self.seconds and time.monotonic() - self.saved >= self.seconds
        due = late if self.fabric.is_global_zero else False
        received = [self.stop.received == signum for signum in (signal.SIGTERM, signal.SIGINT)]
        flags = [float(flag) for flag in (broken, due, *received)]
        total = add_up(self.fabric, [*flags, *loss.sums.values()])
        sums = {name: value / self.fabric.world_size for name, value in zip(loss.sums, total[4:], strict=True)}
        signum = signal.SIGTERM if total[2] else signal.SIGINT if total[3] else 0
        counted = self.steps > 0 and after // self.steps > first // self.steps
        return _Agreement(sums, loss.images, bool(total[0]), signum, bool(total[1]) or counted)

    def _buffers(self) -> Iterator[torch.Tensor]:
        """Return the buffers of model and objective."""
        return chain(self.model.buffers(), self.objective.buffers())
