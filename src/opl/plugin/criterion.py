"""A criterion that adds OPL to another one."""

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from .._kernels.validate import is_number
from ..errors import OplWarning, OptionError, did_you_mean
from ..functional import FORM, GAMMA, IGNORE_INDEX, WEIGHT, Form
from ..losses.projection import OrthogonalProjectionLoss
from ..schedules import Gamma
from .graph import ClassifierSource, FunctionSource, OutputSource, Pool, Source

POOLS: dict[str, Pool] = {
    "mean": lambda features: features.mean(1) if features.ndim == 3 else features.flatten(2).mean(2),
    "first": lambda features: features[:, 0],
    "last": lambda features: features[:, -1],
}
"""(B, T, D) tokens, or for the mean (B, D, H, W) maps too, to (B, D)."""


DIAGNOSED = ("gamma", "gamma_needed", "without_positive", "class_cosine")


@runtime_checkable
class HasLogits(Protocol):
    """A model output with a `logits` attribute, as many libraries return."""

    logits: Tensor


class LossParts(NamedTuple):
    """The parts of the last loss, detached, for logging; all but `base` are None if OPL was not computed.

    Those after `base` are the fields of `opl.losses.projection.Diagnosis`: with `gamma` below `gamma_needed`, OPL
    raises d instead of lowering it.
    """

    base: Tensor
    projection: Tensor | None = None
    same: Tensor | None = None
    other: Tensor | None = None
    gamma: Tensor | None = None
    gamma_needed: Tensor | None = None
    without_positive: Tensor | None = None
    class_cosine: Tensor | None = None


def regularize(
    criterion: Callable[..., Tensor],
    model: nn.Module,
    *,
    weight: float = WEIGHT,
    gamma: Gamma = GAMMA,
    layer: str | nn.Module | None = None,
    features: str | Callable[[Any], Tensor] | None = None,
    pool: str | Pool | None = None,
    form: Form = FORM,
    ignore_index: int | None = None,
    global_batch: bool = False,
) -> "RegularizedCriterion":
    """Return a criterion that adds OPL to `criterion` and is called the same way, `criterion(output, target)`.

    The features are the input of the layer whose output becomes the logits. It is found in the autograd graph of each
    batch, so several passes, several heads, and passes without gradients in between cannot be mixed up. Logits of
    tokens or pixels have one feature vector each.

    Args:
        criterion: the existing loss, called with logits and target, for instance `nn.CrossEntropyLoss()`.
        model: the model that computes the features; it is not modified.
        weight: the paper's lambda. With 0 the loss equals the criterion's bit for bit; s and d are still computed.
        gamma: weight of d relative to s: a number, `"auto"` for one that is large enough to lower d, or an `opl.Ramp`
            that grows during training. By default 0.5, the paper's choice.
        layer: the layer whose input is the features, or its name, where the classifier cannot or should not be found.
        features: instead, the name of a layer whose output is the features, or a function of the model's output.
        pool: what makes one vector a sample of the features of `layer` or `features`: `"mean"`, `"first"` or `"last"`
            token, or a function.
        form: how d is computed, see `opl.orthogonal_projection`.
        ignore_index: rows with this label are excluded; by default that of the criterion, or -100.
        global_batch: use the combined batch of all processes.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> criterion = regularize(nn.CrossEntropyLoss(), model)
        >>> loss = criterion(model(torch.ones(6, 4)), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> criterion.last._fields
        ('base', 'projection', 'same', 'other', 'gamma', 'gamma_needed', 'without_positive', 'class_cosine')
    """
    ignored = _ignore_index(criterion) if ignore_index is None else ignore_index
    projection = OrthogonalProjectionLoss(gamma=gamma, form=form, ignore_index=ignored, global_batch=global_batch)
    return RegularizedCriterion(criterion, _source(model, layer, features, pool), weight, projection)


class RegularizedCriterion(nn.Module):
    """`criterion(output, target) + weight * OPL(features, target)`, as returned by `opl.regularize`.

    `output` is a tensor of logits, an object with `.logits`, a mapping with `"logits"`, or a tuple that begins with
    them. OPL is added only in training mode with gradients enabled: after `criterion.eval()` or under
    `torch.no_grad()` the loss is that of `criterion` alone. Hugging Face's `Trainer` accepts it as
    `compute_loss_func`; `num_items_in_batch` scales the loss for gradient accumulation. The Trainer's
    `label_smoothing_factor`, which has no effect on any such function, is refused.

    The hooks on the model go when the criterion goes; `close()` or leaving a `with` block takes them off at once.
    """

    def __init__(
        self,
        criterion: Callable[..., Tensor],
        source: Source,
        weight: float,
        projection: OrthogonalProjectionLoss,
    ) -> None:
        super().__init__()
        if not is_number(weight) or not 0 <= weight < float("inf"):
            raise OptionError(f"weight is {weight!r}: give a number from 0 up, such as 1.0, the paper's choice.")
        self.criterion = criterion
        self.source = source
        self.weight = float(weight)
        self.projection = projection
        self.watch = GammaWatch()
        self.last: LossParts | None = None
        self._new_to_trainer = True

    def forward(self, input: Any, target: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Return the loss of a model's output."""
        logits = _logits(input)
        base = self.criterion(logits, target)
        if self.training and torch.is_grad_enabled():
            loss = self._add(base, input, logits, target)
        else:
            loss, self.last = base, LossParts(base.detach())
        if num_items_in_batch is None:
            return loss
        if self._new_to_trainer:
            check_trainer()
            self._new_to_trainer = False
        # the Trainer counts the labels other than -100
        return loss * (target.ne(IGNORE_INDEX).sum() / num_items_in_batch)

    def _add(self, base: Tensor, output: Any, logits: Tensor, target: Tensor) -> Tensor:
        features, labels = self.source.rows(output, logits, target)
        if not features.requires_grad:
            _warn_frozen(self.source.name)
        with torch.set_grad_enabled(self.weight != 0):
            found = self.projection.diagnose(features, labels)
        self.last = LossParts(base.detach(), *(None if part is None else part.detach() for part in found))
        if self.weight == 0:
            return base
        self.watch.add(found.gamma, found.gamma_needed)
        return base + self.weight * found.loss

    def close(self) -> None:
        """Take the hooks off the model; the criterion cannot be used in training after that."""
        self.source.close()

    def __enter__(self) -> "RegularizedCriterion":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    def extra_repr(self) -> str:
        """Return the settings, for `print(criterion)`."""
        return f"weight={self.weight}, features={self.source.name}"


STEPS = 400  # about an epoch of CIFAR at the paper's batch size


class GammaWatch:
    """Compares gamma with what is needed, as means over some hundred steps; warns once."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps, self.count, self.warned = steps, 0, False
        self.gamma: Tensor | float = 0.0
        self.needed: Tensor | float = 0.0

    def add(self, gamma: Tensor | None, needed: Tensor | None) -> None:
        """Add a step; values are read, which synchronizes with an accelerator, only once in `steps` steps."""
        if self.warned or gamma is None or needed is None:
            return
        self.gamma, self.needed, self.count = (
            self.gamma + gamma.detach(),
            self.needed + needed.detach().nan_to_num(0),
            self.count + 1,
        )
        if self.count == self.steps:
            self.judge(float(self.gamma) / self.count, float(self.needed) / self.count, f"the last {self.count} steps")
            self.gamma, self.needed, self.count = 0.0, 0.0, 0

    def judge(self, gamma: float, needed: float, when: str) -> None:
        """Warn if gamma is smaller than needed, unless that was said before."""
        if self.warned or gamma >= needed:
            return
        self.warned = True
        warnings.warn(
            f"gamma was {gamma:.2f} on average over {when}, and OPL lowers d only with a gamma above (1 - s) / (1 - d) "
            f"({needed:.2f}); below it, OPL raises d. That is usual early in training; if it lasts, give gamma='auto' "
            "or an opl.Ramp.",
            OplWarning,
            stacklevel=2,
        )


def refuse_label_smoothing(trainer: Any) -> None:
    """Raise `OptionError` if Hugging Face's `Trainer` was asked to smooth labels, which its loss function ignores."""
    if trainer.args.label_smoothing_factor:
        raise OptionError(
            f"label_smoothing_factor is {trainer.args.label_smoothing_factor} and has no effect beside "
            "compute_loss_func: give it to the criterion, nn.CrossEntropyLoss(label_smoothing=...)."
        )


def check_trainer() -> None:
    """Refuse label smoothing of the calling `Trainer`, whose arguments can be read only from its stack frame."""
    module = sys.modules.get("transformers.trainer")
    frame = inspect.currentframe()
    while module is not None and frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, module.Trainer):
            refuse_label_smoothing(caller)
            return
        frame = frame.f_back


def _source(
    model: nn.Module,
    layer: str | nn.Module | None,
    features: str | Callable[[Any], Tensor] | None,
    pool: str | Pool | None,
) -> Source:
    if isinstance(pool, str):
        if pool not in POOLS:
            raise OptionError(did_you_mean("pool", pool, POOLS))
        pool = POOLS[pool]
    if features is None:
        return ClassifierSource(model, layer, pool)
    if layer is not None:
        raise OptionError("layer and features both say where the features are: give one of them.")
    if isinstance(features, str):
        return OutputSource(model, features, pool)
    if not callable(features):
        raise OptionError(
            f"features is a {type(features).__name__}: give the name of a layer or a function of the model's output."
        )
    return FunctionSource(features, pool)


def _ignore_index(criterion: Callable[..., Tensor]) -> int:
    """The label that the criterion leaves out."""
    if isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss):
        return criterion.ignore_index
    if isinstance(criterion, functools.partial):
        return int(criterion.keywords.get("ignore_index", IGNORE_INDEX))
    return IGNORE_INDEX


def _logits(output: Any) -> Tensor:
    logits = output
    if isinstance(output, HasLogits):
        logits = output.logits
    elif isinstance(output, Mapping):
        logits = output.get("logits")
    elif isinstance(output, tuple) and output:
        logits = output[0]
    if not isinstance(logits, Tensor):
        raise OptionError(
            f"the model returned a {type(output).__name__} without logits: call the criterion with the tensor of "
            "logits, an object that has .logits, a mapping with 'logits', or a tuple that begins with them."
        )
    return logits


def _warn_frozen(name: str) -> None:
    warnings.warn(
        f"the features at {name} carry no gradient, so OPL trains nothing: the backbone is frozen, or the layer is "
        "inside a re-entrant checkpoint (pass use_reentrant=False).",
        OplWarning,
        stacklevel=4,
    )
