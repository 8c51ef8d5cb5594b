"""A criterion that adds OPL to another criterion."""

import functools
import inspect
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from .._advice import LOWER_D
from .._kernels.normalize import SHORTEST
from .._kernels.validate import is_number, may_read_values
from ..errors import FeatureError, LabelError, OplWarning, OptionError, did_you_mean
from ..functional import GAMMA, IGNORE_INDEX, WEIGHT
from ..losses.projection import OrthogonalProjectionLoss
from ..schedules import AutoGamma, Gamma, Ramp, RampedValue, StepCounter
from .graph import ClassifierSource, FunctionSource, OutputSource, Pool, Rows, Source

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

    A quantity that is undefined in a batch, such as s without two samples of one class, is NaN.
    """

    base: Tensor
    """The base criterion's loss; its sum if it has several elements."""
    projection: Tensor | None = None
    """OPL, without its weight."""
    same: Tensor | None = None
    """The paper's s."""
    other: Tensor | None = None
    """The paper's d."""
    gamma: Tensor | None = None
    """The weight of d relative to s."""
    gamma_needed: Tensor | None = None
    """With a smaller gamma, OPL raises d instead of lowering it."""
    without_positive: Tensor | None = None
    """The share of samples that are alone in their class."""
    class_cosine: Tensor | None = None
    """The largest cosine between the means of two classes."""
    zero_features: Tensor | None = None
    """The share of features that are zero, or too short to have a direction."""
    feature_norm: Tensor | None = None
    """The mean norm of the features."""


def regularize(
    criterion: Callable[..., Any],
    model: nn.Module,
    *,
    weight: float | Ramp = WEIGHT,
    gamma: Gamma = GAMMA,
    layer: str | nn.Module | None = None,
    features: str | Callable[[Any], Tensor] | None = None,
    pool: str | Pool | None = None,
    labels: Callable[[Any], Tensor] | None = None,
    loss: Callable[[Any], Tensor] | None = None,
    in_eval: bool = False,
    ignore_index: int | None = None,
    **options: Any,
) -> "RegularizedCriterion":
    """Return a criterion that adds OPL to `criterion` and is called the same way, `criterion(output, target)`.

    The features are the input of the layer that computes the logits. This layer is found in the autograd graph of each
    batch, so several passes, several heads, and passes without gradients in between cannot be mixed up. Tokens and
    pixels have one feature vector each.

    Args:
        criterion: the existing loss, called with logits and target, for instance `nn.CrossEntropyLoss()`.
        model: the model that computes the features; it is not modified.
        weight: the paper's lambda, a number or an `opl.Ramp`. With 0 the loss equals the base criterion bit for bit,
            and s and d are still computed.
        gamma: weight of d relative to s: a number, `"auto"` for a gamma that is large enough to lower d, or an
            `opl.Ramp` that grows during training. By default 0.5, the paper's choice.
        layer: the layer whose input is the features, or its name, where the classifier cannot or should not be found.
        features: instead, the name of a layer whose output is the features, or a function of the model's output.
        pool: reduces the features of `layer` or `features` to one vector per sample: `"mean"`, `"first"` or `"last"`
            token, or a function.
        labels: a function of the target that returns the labels for OPL, or a boolean mask of the rows for OPL, where
            these are not the target itself.
        loss: a function that takes the scalar loss out of the value of a criterion that returns a tuple or dict.
        in_eval: whether to add OPL after `model.eval()` too, for instance for early stopping on the total loss.
        ignore_index: rows with this label are excluded; by default the criterion's `ignore_index`, or -100.
        options: `form`, `global_batch` and more, see `opl.OrthogonalProjectionLoss`.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> criterion = regularize(nn.CrossEntropyLoss(), model)
        >>> loss = criterion(model(torch.ones(6, 4)), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> criterion.last._fields[:4]
        ('base', 'projection', 'same', 'other')
    """
    _check_functions(criterion, labels, loss)
    _refuse_per_sample_gradients(model)
    if layer is None and features is None:
        _refuse_swapped(criterion, model)
        _refuse_own_classifier(criterion)
    ignored = _ignore_index(criterion) if ignore_index is None else ignore_index
    projection = OrthogonalProjectionLoss(gamma=gamma, ignore_index=ignored, **options)
    source = _source(model, layer, features, pool)
    return RegularizedCriterion(criterion, source, weight, projection, labels=labels, loss=loss, in_eval=in_eval)


class RegularizedCriterion(nn.Module):
    """`criterion(output, target) + weight * OPL(features, target)`, as returned by `opl.regularize`.

    `output` is a tensor of logits, an object with `.logits`, a mapping with `"logits"`, or a tuple that begins with
    them. Further arguments are passed to the base criterion. OPL is added once per batch, in training mode with
    gradients enabled: after `model.eval()`, `criterion.eval()` or under `torch.no_grad()` the loss is that of the base
    criterion alone. If the base criterion returns one loss per row, OPL is divided evenly among the rows that take
    part, so that their sum has it once.

    Attributes of the base criterion, such as `weight`, `reduction` and `label_smoothing`, can be read and set here; the
    weight of OPL is `opl_weight`. Hugging Face's `Trainer` accepts the criterion as `compute_loss_func`;
    `num_items_in_batch` scales the loss for gradient accumulation. The Trainer's `label_smoothing_factor`, which has no
    effect on any such function, is refused.

    The hooks on the model are removed with the criterion; `close()` or leaving a `with` block removes them at once.
    """

    def __init__(
        self,
        criterion: Callable[..., Any],
        source: Source,
        weight: float | Ramp,
        projection: OrthogonalProjectionLoss,
        *,
        labels: Callable[[Any], Tensor] | None = None,
        loss: Callable[[Any], Tensor] | None = None,
        in_eval: bool = False,
    ) -> None:
        super().__init__()
        self.source = source
        self.opl_weight = weight
        self.projection = projection
        self.labels, self.loss, self.in_eval = labels, loss, in_eval
        self.watch = GammaWatch()
        self.collapse = CollapseWatch()
        self.last: LossParts | None = None
        self._new_to_trainer, self._range_checked, self._manual = True, False, False
        self._skipped: int | None = 0
        self._batches = 0
        self.criterion = criterion  # last: from now on, its attributes are set there

    @property
    def opl_weight(self) -> float | Ramp:
        """The weight of OPL, the paper's lambda."""
        return self._weight if self._ramp is None else self._ramp.settings

    @opl_weight.setter
    def opl_weight(self, weight: float | Ramp) -> None:
        if not isinstance(weight, Ramp) and (not is_number(weight) or not 0 <= weight < math.inf):
            raise OptionError(
                f"weight is {weight!r} but must be a number of at least 0, such as 1.0 (the paper's choice), or an "
                "opl.Ramp."
            )
        self._weight = math.nan if isinstance(weight, Ramp) else float(weight)
        self._ramp = RampedValue(weight) if isinstance(weight, Ramp) else None

    def forward(
        self,
        input: Any,
        target: Any,
        *args: Any,
        opl_labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return the loss of a model's output.

        Args:
            input: the model's output.
            target: the target of the base criterion.
            args: further arguments of the base criterion.
            opl_labels: labels for OPL, or a boolean mask of the rows for OPL, where these are not the target.
            num_items_in_batch: the number of labels in all accumulated batches, which Hugging Face's `Trainer` passes.
            kwargs: further arguments of the base criterion.
        """
        logits = _logits(input, target)
        base = self._base(self.criterion(logits, target, *args, **kwargs))
        if self._is_active():
            loss = self._add(base, input, logits, target, opl_labels)
        else:
            loss, self.last = base, LossParts(base.detach().sum())
        if num_items_in_batch is None:
            return loss
        if self._new_to_trainer:
            check_trainer()
            self._new_to_trainer = False
        # the Trainer counts the labels other than -100
        share: Tensor = target.ne(IGNORE_INDEX).sum() / num_items_in_batch
        return loss * share

    def _base(self, value: Any) -> Tensor:
        loss = value if self.loss is None else self.loss(value)
        if not isinstance(loss, Tensor):
            raise OptionError(
                f"the criterion's value has type {type(loss).__name__}, not Tensor: pass loss=lambda value: ... that "
                "returns the loss."
            )
        return loss

    def _is_active(self) -> bool:
        """Return whether to add OPL; warn if the model has been in evaluation mode from the first batch on."""
        if not self.training or not torch.is_grad_enabled():
            return False
        if self.in_eval or self.source.training:
            self._skipped = None
            return True
        if self._skipped is not None:
            self._skipped += 1
            if self._skipped == ALWAYS_EVAL:
                self._skipped = None
                _warn(
                    f"the model was in evaluation mode in the first {ALWAYS_EVAL} batches, so OPL was not added: call "
                    "model.train(), or pass in_eval=True."
                )
        return False

    def _add(self, base: Tensor, output: Any, logits: Tensor, target: Any, opl_labels: Tensor | None) -> Tensor:
        _refuse_vmap(logits)
        labels = self._labels(target, opl_labels)
        self._check_soft_labels(labels, logits)
        rows = self.source.rows(output, logits, labels)
        if not self._range_checked and labels is target and isinstance(self.source, ClassifierSource):
            self._check_range(rows, logits)
        if not rows.features.requires_grad:
            _warn_frozen(self.source.name)
        if self._manual:
            for counter in self._counters():
                counter.training = False
        self._batches += 1
        weight: Tensor | float = self._weight if self._ramp is None else self._ramp(rows.features)
        measured = isinstance(weight, float) and weight == 0
        with torch.set_grad_enabled(not measured):
            opl = self.projection.diagnose(rows.features, rows.labels)
        self.last = self._parts(base, opl, rows)
        if measured:
            return base
        self.watch.add(self.last, len(rows.features), self.projection.gamma)
        self.collapse.add(self.last)
        term = weight * opl.loss
        return base + term if base.ndim == 0 else base + term * self._shares(base, labels)

    def _labels(self, target: Any, given: Tensor | None) -> Tensor:
        labels = given if given is not None else target if self.labels is None else self.labels(target)
        if not isinstance(labels, Tensor):
            kind = type(labels).__name__
            if given is not None:
                raise OptionError(f"opl_labels has type {kind}: pass a tensor of class ids, or a boolean mask of rows.")
            raise OptionError(
                f"the labels for OPL have type {kind}, not Tensor: pass labels=lambda target: ... that returns the "
                "class ids."
            )
        if labels.dtype == torch.bool and isinstance(target, Tensor) and labels is not target:
            sizes = zip(labels.shape, target.shape, strict=False)
            if labels.ndim > target.ndim or any(size not in (1, whole) for size, whole in sizes):
                raise LabelError(
                    f"the mask of rows for OPL has shape {tuple(labels.shape)} and the target {tuple(target.shape)}: "
                    "pass one value per row of the target."
                )
            ignored = self.projection.ignore_index
            mask = labels.view(*labels.shape, *[1] * (target.ndim - labels.ndim))
            return torch.where(mask, target, target.new_tensor(ignored))
        return labels

    def _check_soft_labels(self, labels: Tensor, logits: Tensor) -> None:
        """Raise `LabelError` for numbers that are no probabilities, such as regression targets, on the CPU only."""
        soft = labels.is_floating_point() and labels.numel() == logits.numel()
        if not soft or not may_read_values(labels, ordinary=False):
            return
        is_rows = labels.shape == logits.shape and logits.ndim > 1 and logits.shape[1] > 1
        most = math.inf if is_rows else 1  # label rows are scaled
        valid = ((labels >= 0) & (labels <= most)) | (labels == self.projection.ignore_index)
        if not bool(valid.all()):
            raise LabelError(
                f"a label for OPL is {labels[~valid][0].item():.4g} but must be a class id or a probability: pass "
                "labels=lambda target: ... that returns the class ids."
            )

    def _check_range(self, rows: Rows, logits: Tensor) -> None:
        """Raise `LabelError` for a label that is no class; on an accelerator, where reading it waits, only once."""
        labels, classes = rows.labels, rows.num_classes
        self._range_checked = not labels.is_cpu
        if labels.is_floating_point() or classes < 2 or not labels.numel():
            return
        ignored = self.projection.ignore_index
        top = int(labels.max())
        if top == ignored:
            top = int(labels.where(labels != ignored, -1).max())
        if top >= classes:
            raise LabelError(
                f"label {top} is not one of the {classes} classes of the logits: pass ignore_index={top} if the "
                "criterion ignores it, or labels=lambda target: ... for other labels."
            )

    def _parts(self, base: Tensor, opl: Any, rows: Rows) -> LossParts:
        with torch.no_grad():
            features = rows.features.detach()
            wide = torch.promote_types(features.dtype, torch.float32)
            norms = torch.linalg.vector_norm(features, dim=1, dtype=wide)
            if not rows.labels.is_floating_point():
                kept = rows.labels.reshape(-1) != self.projection.ignore_index
                norms = norms.where(kept, torch.nan)
            zero = (norms < SHORTEST.get(features.dtype, SHORTEST[wide])).sum() / norms.isfinite().sum()
            parts = {name: value.detach() for name, value in opl._asdict().items() if value is not None}
            return LossParts(
                base.detach().sum(),
                projection=parts.pop("loss"),
                zero_features=zero,
                feature_norm=norms.nanmean(),
                **parts,
            )

    def _shares(self, base: Tensor, labels: Tensor) -> Tensor:
        """Return how OPL is divided among the rows of a loss that is not reduced."""
        kept = torch.ones_like(base)
        if not labels.is_floating_point() and labels.numel() == base.numel():
            kept = (labels.reshape(base.shape) != self.projection.ignore_index).to(base.dtype)
        return kept / kept.sum().clamp(min=1)

    def step(self) -> None:
        """Advance every `opl.Ramp` by one step.

        Without it a ramp counts batches. With accumulated gradients, call it after each `optimizer.step()`: from the
        first call on, a ramp counts these calls alone.
        """
        for counter in self._counters():
            counted = 0 if self._manual else self._batches
            counter.set_step(int(counter.step) - counted + 1)
        self._manual = True

    def _counters(self) -> list[StepCounter]:
        return [module for module in self.modules() if isinstance(module, StepCounter)]

    def close(self) -> None:
        """Remove the hooks from the model; the criterion cannot be used in training afterwards."""
        self.source.close()

    def __enter__(self) -> "RegularizedCriterion":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the base criterion."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            base = self.__dict__.get("criterion") or self.__dict__.get("_modules", {}).get("criterion")
            if base is None or name.startswith("__"):
                raise
            return getattr(base, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; those that only the base criterion has are set there."""
        base = self.__dict__.get("criterion") or self.__dict__.get("_modules", {}).get("criterion")
        inherited = name in self.__dict__ or hasattr(type(self), name)
        registered = any(name in self.__dict__[kind] for kind in ("_modules", "_buffers", "_parameters") if base)
        if base is not None and not inherited and not registered and hasattr(base, name):
            setattr(base, name, value)
        else:
            super().__setattr__(name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "RegularizedCriterion":
        """Move everything, but keep running means in single precision after `half()`."""
        kept = {id(buffer): buffer for buffer in self.projection.buffers()}
        super()._apply(  # type: ignore[no-untyped-call]
            lambda tensor: tensor.to(fn(tensor).device) if id(tensor) in kept else fn(tensor), recurse
        )
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    def extra_repr(self) -> str:
        """Return the settings, for `print(criterion)`."""
        return f"opl_weight={self.opl_weight}, features={self.source.name}"


STEPS = 400  # about an epoch of CIFAR at the paper's batch size
ALWAYS_EVAL = 100  # batches
VANISHED, STILL = 0.1, 0.95  # shares of the first norm and of the first base loss
CURES = {
    "constant": f"if it lasts and d should fall, use {LOWER_D.take}, or gamma='auto' or an opl.Ramp.",
    "recipe": f"if it lasts and d should fall, use {LOWER_D.take}.",
    "auto": "if it lasts, use gamma=opl.AutoGamma(margin=...) with a larger margin.",
    "ramp": "if it lasts, use an opl.Ramp with a larger end or fewer steps.",
}


def _setting(gamma: Gamma) -> str:
    if isinstance(gamma, Ramp):
        return "ramp"
    return "auto" if isinstance(gamma, str | AutoGamma) else "constant"


class GammaWatch:
    """Compares gamma with the gamma needed, as means over several hundred steps; warns once."""

    def __init__(self, steps: int = STEPS) -> None:
        self.steps, self.warned, self.largest = steps, False, 0
        self.count = 0
        self.sums: Tensor | None = None

    def add(self, parts: LossParts, rows: int, gamma: Gamma) -> None:
        """Add a step; values are read, which synchronizes with an accelerator, only once in `steps` steps.

        A batch that is smaller than another, such as the last of an epoch, does not count.
        """
        self.largest = max(self.largest, rows)
        if self.warned or parts.gamma is None or parts.gamma_needed is None or rows < self.largest:
            return
        needed = parts.gamma_needed.to(parts.gamma)
        needed = torch.where(needed.isnan(), 0, needed)  # without a threshold, any gamma lowers d
        values = torch.stack([parts.gamma, needed, torch.ones_like(parts.gamma)])
        values = torch.where(values.isfinite().all(), values, 0)
        self.sums, self.count = values if self.sums is None else self.sums + values, self.count + 1
        if self.count >= self.steps:
            gammas, thresholds, count = self.sums.tolist()
            if count:
                self.judge(gammas / count, thresholds / count, f"the last {self.count} steps", _setting(gamma))
            self.sums, self.count = None, 0

    def judge(self, gamma: float, needed: float, when: str, setting: str = "constant") -> None:
        """Warn if gamma is smaller than needed, at most once."""
        if self.warned or not gamma < needed:
            return
        self.warned = True
        _warn(
            f"gamma was {gamma:.2f} on average over {when}, and OPL lowers d only above {needed:.2f}; below it, OPL "
            f"raises d: this is usual early in training; {CURES[setting]}"
        )


class CollapseWatch:
    """Warns once when features collapse to zero, where OPL has no gradient and d = 0 looks perfect."""

    def __init__(self, steps: int = 10) -> None:
        self.steps, self.warned, self.count = steps, False, 0
        self.sums: Tensor | None = None
        self.first: Tensor | None = None

    def add(self, parts: LossParts) -> None:
        """Add a step; values are read after `steps` steps, then more and more rarely."""
        if self.warned or parts.zero_features is None or parts.feature_norm is None:
            return
        values = torch.stack([parts.zero_features, parts.feature_norm, parts.base.to(parts.feature_norm)])
        self.first = values if self.first is None else self.first
        self.sums, self.count = values if self.sums is None else self.sums + values, self.count + 1
        if self.count < self.steps:
            return
        zero, _, base = (value / self.count for value in self.sums.tolist())
        norm = float(values[1])
        _, first_norm, first_base = self.first.tolist()
        self.sums, self.count, self.steps = None, 0, min(STEPS, self.steps + self.steps // 4)
        if zero > 0.5 or (norm < VANISHED * first_norm and base > STILL * first_base):
            self.warned = True
            _warn(
                f"features collapse ({zero:.0%} are zero; mean norm {norm:.2g}, at first {first_norm:.2g}), so a d "
                "near 0 means nothing: use a smaller weight or gamma, BatchNorm before the classifier, or a later "
                "start, weight=opl.Ramp(0, 1, steps=..., delay=...)."
            )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, OplWarning, stacklevel=2)


def refuse_label_smoothing(trainer: Any) -> None:
    """Raise `OptionError` if Hugging Face's `Trainer` is set to smooth labels, which its loss function ignores."""
    if trainer.args.label_smoothing_factor:
        raise OptionError(
            f"label_smoothing_factor is {trainer.args.label_smoothing_factor} and has no effect beside "
            "compute_loss_func: set it in the criterion, nn.CrossEntropyLoss(label_smoothing=...)."
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


def _pool_by_name(name: str, features: Tensor) -> Tensor:
    if features.ndim < 3:
        raise FeatureError(
            f"pool is {name!r} and the features have shape {tuple(features.shape)}, which is one vector per sample: "
            "leave out pool=."
        )
    return POOLS[name](features)


def _source(
    model: nn.Module,
    layer: str | nn.Module | None,
    features: str | Callable[[Any], Tensor] | None,
    pool: str | Pool | None,
) -> Source:
    if isinstance(pool, str):
        if pool not in POOLS:
            raise OptionError(did_you_mean("pool", pool, POOLS))
        pool = functools.partial(_pool_by_name, pool)
    elif pool is not None and not callable(pool):
        raise OptionError(f"pool is {pool!r} but must be {', '.join(map(repr, POOLS))} or a function.")
    if pool is not None and layer is None and features is None:
        raise OptionError("pool= is set without layer= or features=: name the layer whose features it reduces.")
    if features is None:
        return ClassifierSource(model, layer, pool)
    if layer is not None:
        raise OptionError("both layer= and features= are set: pass only one of them.")
    if isinstance(features, str):
        return OutputSource(model, features, pool)
    if not callable(features):
        raise OptionError(
            f"features has type {type(features).__name__}: pass the name of a layer, or a function of the model's "
            "output."
        )
    return FunctionSource(model, features, pool)


def _ignore_index(criterion: Callable[..., Any]) -> int:
    """Return the label that the criterion or its parts ignore."""
    if isinstance(criterion, functools.partial):
        return int(criterion.keywords.get("ignore_index", _ignore_index(criterion.func)))
    parts = list(criterion.modules()) if isinstance(criterion, nn.Module) else [criterion]
    values = {value for part in parts if isinstance(value := getattr(part, "ignore_index", None), int)}
    if len(values) > 1:
        given = " and ".join(map(str, sorted(values)))
        raise OptionError(
            f"the criterion's parts ignore different labels ({given}): pass one of them as ignore_index=."
        )
    return values.pop() if values else IGNORE_INDEX


def _logits(output: Any, target: Any) -> Tensor:
    logits = output
    if isinstance(output, HasLogits):
        logits = output.logits
    elif isinstance(output, Mapping):
        logits = output.get("logits")
    elif isinstance(output, tuple) and output:
        logits = output[0]
    if not isinstance(logits, Tensor):
        raise OptionError(
            f"the model's output has type {type(output).__name__} and no logits: call the criterion with the tensor of "
            "logits, an object that has .logits, a mapping with 'logits', or a tuple that begins with them."
        )
    if isinstance(target, Tensor) and target.requires_grad and not logits.requires_grad:
        raise OptionError("output and target are swapped: call criterion(output, target).")
    if hasattr(logits, "full_tensor"):
        raise OptionError("the logits are a DTensor: call the criterion with logits.full_tensor().")
    return logits


def _check_functions(criterion: object, labels: object, loss: object) -> None:
    """Raise `OptionError` for an argument that must be called and cannot be."""
    if isinstance(criterion, type):
        raise OptionError("the criterion is a class: pass an instance, such as nn.CrossEntropyLoss().")
    for name, value, argument in (("labels", labels, "target"), ("loss", loss, "criterion's value")):
        if value is not None and not callable(value):
            raise OptionError(f"{name} has type {type(value).__name__}: pass a function of the {argument}.")


def _refuse_swapped(criterion: object, model: object) -> None:
    """Raise `OptionError` if the criterion has parameters and the model, which is a loss then, has none."""

    def has_parameters(module: object) -> bool:
        return isinstance(module, nn.Module) and next(module.parameters(), None) is not None

    if has_parameters(criterion) and callable(model) and not has_parameters(model):
        raise OptionError("criterion and model are swapped: call opl.regularize(criterion, model).")


def _refuse_own_classifier(criterion: Callable[..., Any]) -> None:
    """Raise `OptionError` for a loss that contains the classifier, whose input is features and not logits."""
    weights = criterion.named_parameters() if isinstance(criterion, nn.Module) else ()
    for name, weight in weights:
        if weight.ndim > 1 and weight.requires_grad:
            raise OptionError(
                f"the criterion has weights ({name}), so its input is features rather than logits: pass "
                "features=lambda output: output to use its input, or layer= to use another layer's."
            )


def _refuse_per_sample_gradients(model: nn.Module) -> None:
    if any(kind.__name__ == "GradSampleModule" for kind in type(model).__mro__):
        raise OptionError(
            "the model is wrapped by Opacus for gradients per sample, and the gradient of OPL at a sample depends on "
            "the other samples: train without Opacus, or with the base criterion alone."
        )


def _refuse_vmap(logits: Tensor) -> None:
    """Raise `OptionError` inside `torch.func.vmap`, where a batch is one sample."""
    functorch = torch._C._functorch
    inner: Any = logits
    while functorch.is_functorch_wrapped_tensor(inner):
        if functorch.is_batchedtensor(inner):
            raise OptionError(
                "torch.func.vmap calls the criterion on single samples, where OPL has no pairs: call the criterion on "
                "the whole batch, or use the base criterion."
            )
        inner = functorch.get_unwrapped(inner)


def _warn_frozen(name: str) -> None:
    warnings.warn(
        f"the features ({name}) carry no gradient, so OPL trains nothing: the backbone is frozen, or the layer is "
        "inside a re-entrant checkpoint (pass use_reentrant=False).",
        OplWarning,
        stacklevel=6,  # the line that called the criterion: three frames of opl and two of nn.Module lie between
    )
