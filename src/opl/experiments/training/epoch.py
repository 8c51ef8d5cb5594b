"""The steps of an epoch: gradients, what all processes agree on, the optimizer step, and checkpoints in between."""

import math
import signal
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Protocol

import torch

from ...errors import DivergedError, FeatureError
from ...schedules import StepCounter
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


class Agreement(NamedTuple):
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


class Epoch:
    """Takes the steps of an epoch."""

    def __init__(
        self, fabric: Any, recipe: Recipe, trained: Trained, data: Data, watcher: Watcher, stop: StopSignals, save: Save
    ) -> None:
        self.fabric, self.recipe, self.trained, self.data = fabric, recipe, trained, data
        self.watcher, self.stop, self.save = watcher, stop, save
        self.model, self.objective, self.optimizer = trained.wrapped, trained.objective, trained.optimizer
        self.add_gradients = add_exact_gradients if recipe.accumulation == "exact" else add_gradients
        parts = (*self.model.modules(), *self.objective.modules())
        self.counters = [part for part in parts if isinstance(part, StepCounter)]
        self.seconds, self.steps = checkpoint_interval(recipe.checkpoint_every)
        self.saved = time.monotonic()
        if recipe.on_nan == "skip":
            watch_outputs(fabric, self.model)

    def take(self, epoch: int, totals: EpochTotals) -> None:
        """Take the steps of an epoch that are left; the totals say which, and are brought up to date."""
        self.model.train()
        self.objective.train()
        started, before = time.perf_counter(), totals.seconds
        batches = enumerate(self.data.epoch(epoch, totals.step), totals.step)
        for first in range(totals.step, self.data.steps, self.recipe.accumulate):
            count = min(self.recipe.accumulate, self.data.steps - first)
            agreed = self._step(epoch, first, count, islice(batches, count), totals)
            totals.step, totals.seconds = first + count, before + time.perf_counter() - started
            loss = agreed.sums.get("loss", math.nan) / max(1, agreed.images)
            self.watcher.step(epoch, totals.step - 1, agreed.images, loss)
            if agreed.signum:
                raise stopped(agreed.signum, f"in epoch {epoch}")
            if agreed.due and totals.step < self.data.steps:
                self.save(self.trained.state(epoch, totals), None)
                self.saved = time.monotonic()

    def _step(self, epoch: int, first: int, count: int, pieces: Pieces, totals: EpochTotals) -> Agreement:
        """Take one optimizer step, from `count` mini-batches."""
        last = first + count - 1
        base, where = epoch * self.data.steps, f"epoch {epoch}, step {last}"
        totals.rate = self.recipe.optimizer.lr * self.recipe.schedule(base + last, self.data.steps, self.recipe.epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = totals.rate * group["lr_mult"]

        def prepare(step: int) -> None:
            torch.manual_seed(Purpose.DROPOUT.seed(self.recipe.seed, epoch, step, self.fabric.global_rank))
            for counter in self.counters:
                counter.set_step(base + step)

        skips = self.recipe.on_nan == "skip"
        buffers = self._buffers(copied=True) if skips else {}
        found, broken = self._gradients(pieces, count, prepare, where)
        agreed = self._agree(found, broken, first, last + 1)
        fails = bool(agreed.wrong) or agreed.broken
        if fails and not skips:
            raise _diverged(where, agreed.wrong, totals)
        if fails:
            totals.skipped += 1
            for name, buffer in self._buffers().items():
                buffer.copy_(buffers[name])
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
            found = self.add_gradients(self.fabric, self.model, self.objective, pieces, count, prepare)
        except NotFinite:
            return Loss({}, 0), True
        except FeatureError as error:
            raise DivergedError(f"training stopped in {where}: {error}") from error
        average_gradients(self.fabric, self.objective)
        if self.recipe.on_nan == "stop" or self.recipe.precision == "16-mixed":  # its scaler looks at gradients itself
            return found, False
        return found, not gradients_are_finite((*self.model.parameters(), *self.objective.parameters()))

    def _agree(self, found: Loss, broken: bool, first: int, after: int) -> Agreement:
        """Add up what the processes have to say; the first one's clock tells whether a checkpoint is due."""
        late = self.seconds and time.monotonic() - self.saved >= self.seconds
        due = late if self.fabric.is_global_zero else False
        received = [self.stop.received == signum for signum in (signal.SIGTERM, signal.SIGINT)]
        flags = [float(flag) for flag in (broken, due, *received)]
        total = add_up(self.fabric, [*flags, *found.sums.values()])
        sums = {name: value / self.fabric.world_size for name, value in zip(found.sums, total[4:], strict=True)}
        signum = signal.SIGTERM if total[2] else signal.SIGINT if total[3] else 0
        counted = self.steps > 0 and after // self.steps > first // self.steps
        return Agreement(sums, found.images, bool(total[0]), signum, bool(total[1]) or counted)

    def _buffers(self, copied: bool = False) -> dict[str, torch.Tensor]:
        """The buffers of model and objective by name, or copies of them."""
        modules = {"model": self.model, "objective": self.objective}
        named = {f"{key}.{name}": value for key, module in modules.items() for name, value in module.named_buffers()}
        return {name: value.clone() for name, value in named.items()} if copied else named


def _diverged(where: str, wrong: list[str], totals: EpochTotals) -> DivergedError:
    before = ", ".join(f"{name} {value:.4g}" for name, value in totals.means().items()) or "none yet"
    return DivergedError(
        f"the loss is not finite in {where} ({', '.join(wrong)}); means of the epoch before: {before}: lower the "
        "learning rate, add a warm-up, or clip gradients."
    )
