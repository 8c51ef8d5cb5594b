"""A callback for Hugging Face's `Trainer` that logs the parts of a regularized criterion."""

from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from ..errors import OptionError
from .caller import refuse_label_smoothing
from .criterion import RegularizedCriterion, name_parts


class LogProjection(TrainerCallback):
    """Log means of base loss, OPL, s and d since the last log, as `opl/base`, `opl/projection`, `opl/s` and `opl/d`.

    Example:
        trainer = Trainer(model, args, compute_loss_func=criterion, ...)
        LogProjection.attach(trainer)
    """

    def __init__(self, criterion: RegularizedCriterion) -> None:
        self.criterion = criterion
        self._sums: dict[str, float] = {}
        self._steps = 0

    @classmethod
    def attach(cls, trainer: Trainer) -> "LogProjection":
        """Add the callback to a trainer, before those that report, so that they see its numbers.

        Raises:
            OptionError: the trainer's loss is not that of `opl.regularize`, or label smoothing was given to the
                trainer, which has no effect on a loss of one's own.
        """
        criterion = trainer.compute_loss_func
        if not isinstance(criterion, RegularizedCriterion):
            raise OptionError("the trainer has no criterion of opl: give compute_loss_func=opl.regularize(...).")
        refuse_label_smoothing(trainer)
        callback = cls(criterion)
        trainer.callback_handler.callbacks.insert(0, callback)
        return callback

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Remember the parts of the last loss."""
        self._steps += 1
        for name, value in name_parts(self.criterion.last).items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **_: Any,
    ) -> None:
        """Add the means since the last log of the training loss."""
        if logs is None or "loss" not in logs or not self._steps:
            return
        means = {name: value / self._steps for name, value in self._sums.items()}
        logs.update(means)
        state.log_history[-1].update(means)
        self._sums, self._steps = {}, 0
