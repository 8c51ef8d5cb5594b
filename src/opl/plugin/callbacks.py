"""Callbacks that log the parts of a regularized criterion, for Lightning and for Hugging Face's `Trainer`.

`LightningCallback` and `HuggingFaceCallback` are built on first access, so that a user of one library does not import
the other.
"""

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..errors import OptionError
from .criterion import LossParts, RegularizedCriterion, refuse_label_smoothing

if TYPE_CHECKING:
    LightningCallback: Any
    HuggingFaceCallback: Any

LOGGED = {"same": "s", "other": "d"}  # names in logs that differ from those in `LossParts`


def find_criteria(module: nn.Module) -> list[RegularizedCriterion]:
    """Return all regularized criteria inside a module."""
    return [part for part in module.modules() if isinstance(part, RegularizedCriterion)]


def name_parts(last: LossParts | None) -> dict[str, Tensor]:
    """Return the parts of a loss that are defined in this batch, by the names under which callbacks log them."""
    if last is None:
        return {}
    parts = {f"opl/{LOGGED.get(name, name)}": value for name, value in last._asdict().items()}
    return {name: value for name, value in parts.items() if value is not None and not bool(value.isnan())}


@cache
def _lightning_callback() -> type[Any]:
    package = "lightning.pytorch" if "lightning.pytorch" in sys.modules else "pytorch_lightning"
    base: Any = import_module(package).Callback

    class LightningCallback(base):  # type: ignore[misc]
        """Log the parts of `criterion.last` of training batches, such as `opl/projection`, `opl/s` and `opl/d`.

        The criterion is found among the modules of the `LightningModule`, whose checkpoints then hold its state.

        Args:
            every: number of batches between two logs.

        Example:
            trainer = Trainer(callbacks=[LightningCallback()])
        """

        def __init__(self, every: int = 1) -> None:
            self.every = every

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """Log the parts of the last loss."""
            if batch_idx % self.every:
                return
            for criterion in find_criteria(pl_module):
                pl_module.log_dict(name_parts(criterion.last))

    return LightningCallback


@cache
def _hugging_face_callback() -> type[Any]:
    from transformers import TrainerCallback
    from transformers.trainer_callback import ExportableState

    class HuggingFaceCallback(TrainerCallback, ExportableState):
        """Log means of the parts of `criterion.last` since the last log, such as `opl/projection`, `opl/s` and `opl/d`.

        Checkpoints hold the state of the criterion, such as the step of an `opl.Ramp`, and a resumed training has it.

        Example:
            trainer = Trainer(model, args, compute_loss_func=criterion, ...)
            HuggingFaceCallback.attach(trainer)
        """

        criterion: RegularizedCriterion

        def __init__(self) -> None:
            self._sums: dict[str, tuple[float, int]] = {}

        @classmethod
        def attach(cls, trainer: Any) -> "HuggingFaceCallback":
            """Add the callback to a trainer, before the callbacks that report, so that these see its numbers.

            Raises:
                OptionError: the trainer's loss does not come from `opl.regularize`, or the trainer is set to smooth
                    labels, which has no effect beside `compute_loss_func`.
            """
            criterion = trainer.compute_loss_func
            if not isinstance(criterion, RegularizedCriterion):
                raise OptionError("the trainer has no opl criterion: pass compute_loss_func=opl.regularize(...).")
            refuse_label_smoothing(trainer)
            # A class per criterion, because the Trainer makes callbacks anew from their class when it resumes.
            callback: HuggingFaceCallback = type(cls.__name__, (cls,), {"criterion": criterion})()
            trainer.callback_handler.callbacks.insert(0, callback)
            return callback

        def state(self) -> dict[str, Any]:
            """Return the state of the criterion for the Trainer's checkpoint."""
            values = {name: value.tolist() for name, value in self.criterion.state_dict().items()}
            return {"args": {}, "attributes": {"saved": values}}

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Restore the state of the criterion from a checkpoint."""
            stored = state.stateful_callbacks.setdefault(type(self).__name__, self.state())
            current = self.criterion.state_dict()
            saved = (stored[0] if isinstance(stored, list) else stored)["attributes"]["saved"]
            self.criterion.load_state_dict(
                {name: torch.tensor(value, dtype=current[name].dtype) for name, value in saved.items()}
            )

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Add the parts of the last loss to the sums."""
            for name, value in name_parts(self.criterion.last).items():
                total, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = (total + float(value), count + 1)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
            """Add the means since the last log of the training loss."""
            if logs is None or "loss" not in logs or not self._sums:
                return
            means = {name: total / count for name, (total, count) in self._sums.items()}
            logs.update(means)
            state.log_history[-1].update(means)
            self._sums = {}

    return HuggingFaceCallback


def __getattr__(name: str) -> Any:
    """Build a callback class; pickle finds the class again under the same name."""
    builders = {"LightningCallback": _lightning_callback, "HuggingFaceCallback": _hugging_face_callback}
    if name not in builders:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: it has {', '.join(builders)}.")
    built = builders[name]()
    built.__qualname__ = name
    return built
