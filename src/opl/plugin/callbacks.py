"""Callbacks that log the parts of a regularized criterion, for Lightning and for Hugging Face's `Trainer`.

`LightningCallback` and `HuggingFaceCallback` are built on first access, so that a user of one library does not import
the other.
"""

import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    """Return the parts of a loss that were computed, by the names under which callbacks log them."""
    if last is None:
        return {}
    parts = {f"opl/{LOGGED.get(name, name)}": value for name, value in last._asdict().items()}
    return {name: value for name, value in parts.items() if value is not None}


@cache
def _lightning_callback() -> type[Any]:
    package = "lightning.pytorch" if "lightning.pytorch" in sys.modules else "pytorch_lightning"
    base: Any = import_module(package).Callback

    class LightningCallback(base):  # type: ignore[misc]
        """Log base loss, OPL, s and d of training batches as `opl/base`, `opl/projection`, `opl/s` and `opl/d`.

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

    class HuggingFaceCallback(TrainerCallback):
        """Log means of base loss, OPL, s and d since the last log, as `opl/base`, `opl/projection`, `opl/s`, `opl/d`.

        Example:
            trainer = Trainer(model, args, compute_loss_func=criterion, ...)
            HuggingFaceCallback.attach(trainer)
        """

        def __init__(self, criterion: RegularizedCriterion) -> None:
            self.criterion = criterion
            self._sums: dict[str, float] = {}
            self._steps = 0

        @classmethod
        def attach(cls, trainer: Any) -> "HuggingFaceCallback":
            """Add the callback to a trainer, before the callbacks that report, so that these see its numbers.

            Raises:
                OptionError: the trainer's loss does not come from `opl.regularize`, or the trainer was asked to smooth
                    labels, which has no effect beside `compute_loss_func`.
            """
            criterion = trainer.compute_loss_func
            if not isinstance(criterion, RegularizedCriterion):
                raise OptionError("the trainer has no criterion of opl: pass compute_loss_func=opl.regularize(...).")
            refuse_label_smoothing(trainer)
            callback = cls(criterion)
            trainer.callback_handler.callbacks.insert(0, callback)
            return callback

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Add the parts of the last loss to the sums."""
            self._steps += 1
            for name, value in name_parts(self.criterion.last).items():
                self._sums[name] = self._sums.get(name, 0.0) + float(value)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
            """Add the means since the last log of the training loss."""
            if logs is None or "loss" not in logs or not self._steps:
                return
            means = {name: value / self._steps for name, value in self._sums.items()}
            logs.update(means)
            state.log_history[-1].update(means)
            self._sums, self._steps = {}, 0

    return HuggingFaceCallback


def __getattr__(name: str) -> Any:
    """Build a callback class; pickle finds the class again under the same name."""
    builders = {"LightningCallback": _lightning_callback, "HuggingFaceCallback": _hugging_face_callback}
    if name not in builders:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(builders)}.")
    built = builders[name]()
    built.__qualname__ = name
    return built
