"""A criterion that adds OPL to another one."""

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from .._kernels.validate import is_number
from ..errors import OplWarning, OptionError, did_you_mean
from ..functional import FORM, IGNORE_INDEX, WEIGHT
from ..losses._balance import GradientBalance
from ..schedules import Gamma
from .caller import check_caller
from .projections import AnyProjectionLoss, ProjectionForm, build_projection
from .source import ClassifierSource, FunctionSource, OutputSource, Pool, Source
from .watch import GammaWatch

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
    gamma: Gamma | None = None,
    layer: str | nn.Module | None = None,
    features: str | Callable[[Any], Tensor] | None = None,
    pool: str | Pool | None = None,
    form: ProjectionForm = FORM,
    centered: bool = False,
    balanced: bool = False,
    feature_dim: int | None = None,
    num_classes: int | None = None,
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
            that grows during training. By default 0.5, the paper's choice, and 1 for the last two forms.
        layer: the layer whose input is the features, or its name, where the classifier cannot or should not be found.
        features: instead, the name of a layer whose output is the features, or a function of the model's output.
        pool: what makes one vector a sample of the features of `layer` or `features`: `"mean"`, `"first"` or `"last"`
            token, or a function.
        form: how d is computed, see `opl.orthogonal_projection`; or `"log_ratio"`, the logarithm of d / s; or
            `"prototypes"`, which compares features with running class means, see `opl.losses.prototypes`.
        centered: subtract a running mean of all features before the cosines are taken; takes `form="mean"`, unless
            another is given.
        balanced: make `weight` relative to the base loss: the gradient of OPL at the features is scaled to have the
            same norm there, as a running mean, times `weight`.
        feature_dim: the length of a feature, for the state of `centered` and `"prototypes"`.
        num_classes: the number of classes, for the state of `"prototypes"`.
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
    projection = build_projection(gamma, form, centered, feature_dim, num_classes, ignored, global_batch)
    balance = GradientBalance(global_batch) if balanced else None
    return RegularizedCriterion(criterion, _source(model, layer, features, pool), weight, projection, balance)


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
        projection: AnyProjectionLoss,
        balance: GradientBalance | None = None,
    ) -> None:
        super().__init__()
        if not is_number(weight) or not 0 <= weight < float("inf"):
            raise OptionError(f"weight is {weight!r}: give a number from 0 up, such as 1.0, the paper's choice.")
        self.criterion = criterion
        self.source = source
        self.weight = float(weight)
        self.projection = projection
        self.balance = balance
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
            check_caller()
            self._new_to_trainer = False
        # the Trainer counts the labels other than -100
        return loss * (target.ne(IGNORE_INDEX).sum() / num_items_in_batch)

    def _add(self, base: Tensor, output: Any, logits: Tensor, target: Tensor) -> Tensor:
        features, labels, inputs = self.source.rows(output, logits, target)
        if not features.requires_grad:
            _warn_frozen(self.source.name)
        with torch.set_grad_enabled(self.weight != 0):
            found = self.projection.diagnose(features, labels)
        self.last = LossParts(base.detach(), *(None if part is None else part.detach() for part in found))
        if self.weight == 0:
            return base
        self.watch.add(found.gamma, found.gamma_needed)
        if self.balance is None or not features.requires_grad:
            return base + self.weight * found.loss
        scaled: Tensor = self.balance(found.loss, inputs, base_gradients(base, inputs, self.source.name))
        return base + self.weight * scaled

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


def base_gradients(base: Tensor, inputs: tuple[Tensor, ...], name: str) -> tuple[Tensor, ...]:
    """The gradients of the base loss at the features; raise `OptionError` where they cannot be had."""
    try:
        found = torch.autograd.grad(base, inputs, retain_graph=True, allow_unused=True)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:  # Lightning Fabric allows no gradient but its own in mixed precision
        raise OptionError(
            f"balanced=True takes a gradient while the loss is computed, which is not possible here ({error}): leave "
            "balanced out and give a weight."
        ) from error
    some = tuple(slope for slope in found if slope is not None)
    if not some:
        raise OptionError(
            f"balanced=True compares gradients at the features, and in the graph the loss does not come from those at "
            f"{name}, as in a compiled model: leave balanced out and give a weight."
        )
    return some


def find_criteria(module: nn.Module) -> list[RegularizedCriterion]:
    """All regularized criteria inside a module."""
    return [part for part in module.modules() if isinstance(part, RegularizedCriterion)]


def name_parts(last: LossParts | None) -> dict[str, Tensor]:
    """The parts of a loss that were computed, by the names under which trainers log them."""
    if last is None:
        return {}
    named = {"opl/base": last.base, "opl/projection": last.projection, "opl/s": last.same, "opl/d": last.other}
    named |= {f"opl/{name}": value for name, value in last._asdict().items() if name in DIAGNOSED}
    return {name: value for name, value in named.items() if value is not None}


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
