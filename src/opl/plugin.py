"""Add OPL to an existing training loop: read the features of an unmodified model and extend its criterion."""

import difflib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from .errors import FeatureError, LayerError, OplWarning, OptionError, TapError, did_you_mean
from .functional import GAMMA, IGNORE_INDEX, WEIGHT, is_number
from .heads import Head
from .losses.projection import OrthogonalProjectionLoss

WRAPPERS = ("module.", "_orig_mod.")  # prefixes that DDP and torch.compile add to layer names


@runtime_checkable
class HasLogits(Protocol):
    """A model output with a `logits` attribute, as many libraries return."""

    logits: Tensor


class LossParts(NamedTuple):
    """The parts of the last loss, detached, for logging; all but `base` are None if OPL was not computed."""

    base: Tensor
    projection: Tensor | None = None
    same: Tensor | None = None
    other: Tensor | None = None


class _Record:
    """The hook on the tapped layer, which stores the layer's most recent input.

    The record holds no reference to the model, so a model and its criterion can be copied or pickled together, in any
    order, and stay connected through the shared record; the stored features are not copied. If the model is copied
    alone, no tap sets `armed` on the copied record, so the record stores nothing and keeps no graph alive.
    """

    def __init__(self) -> None:
        self.armed = False
        self.features: Tensor | None = None

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not self.armed or not inputs:
            return
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            return  # a checkpointed block is recomputed during backward: these features were stored already
        self.features = inputs[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"armed": False, "features": None}


class FeatureTap:
    """Read the features of a model without editing it: the input of its last `nn.Linear` or `opl.heads` head.

    A forward hook stores the features in every forward pass, also under DDP and `torch.compile` (create the tap before
    the compiled model first runs). It changes neither the model's output nor its `state_dict`.

    Args:
        model: any module.
        layer: the layer whose input to read instead, or its name as in `model.named_modules()`.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> with FeatureTap(model) as tap:
        ...     _ = model(torch.ones(5, 4))
        ...     tap.features.shape
        torch.Size([5, 3])
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | None = None) -> None:
        self.name, found = _find(model, layer)
        self._record = _Record()
        self._record.armed = True
        self._handle: Any = found.register_forward_pre_hook(self._record)

    @property
    def features(self) -> Tensor:
        """The layer's input in the last forward pass, with its autograd graph; (B, D, 1, 1) is flattened to (B, D)."""
        features = self._record.features
        if features is None:
            raise TapError(
                f"layer {self.name!r} was not run since its features were last taken: call the model first, once for "
                "each call of the criterion; if it did run, it may not use this layer (name another with layer=), or "
                "the criterion was copied without its model."
            )
        if not isinstance(features, Tensor):
            raise FeatureError(
                f"layer {self.name!r} takes a {type(features).__name__}, not a tensor: name another layer with layer=."
            )
        return features.flatten(1) if features.ndim == 4 and features.shape[2:] == (1, 1) else features

    def take(self) -> Tensor:
        """Return the features and clear them, so that their graph is not kept alive."""
        features = self.features
        self.clear()
        return features

    def clear(self) -> None:
        """Clear the stored features."""
        self._record.features = None

    def close(self) -> None:
        """Remove the hook from the model."""
        self._record.armed = False
        self.clear()
        if self._handle is not None:
            self._handle.remove()

    def __enter__(self) -> "FeatureTap":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_record": self._record, "_handle": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._record.armed = True


def regularize(
    criterion: Callable[..., Tensor],
    model: nn.Module,
    *,
    weight: float = WEIGHT,
    gamma: float = GAMMA,
    layer: str | nn.Module | None = None,
    **opl_options: Any,
) -> "RegularizedCriterion":
    """Return a criterion that adds OPL to `criterion` and is called the same way, `criterion(output, target)`.

    Args:
        criterion: the existing loss, called with logits and target, for instance `nn.CrossEntropyLoss()`.
        model: the model that computes the features; it is not modified.
        weight: the paper's lambda. With 0 the loss equals the criterion's bit for bit; s and d are still computed.
        gamma: weight of d relative to s.
        layer: the layer whose input is the features; by default the last `nn.Linear` or head of `opl.heads`.
        opl_options: `form`, `ignore_index`, `global_batch` of `opl.OrthogonalProjectionLoss`.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> criterion = regularize(nn.CrossEntropyLoss(), model)
        >>> loss = criterion(model(torch.ones(6, 4)), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> criterion.last._fields
        ('base', 'projection', 'same', 'other')
    """
    return RegularizedCriterion(
        criterion, FeatureTap(model, layer), weight, OrthogonalProjectionLoss(gamma, **_known(opl_options))
    )


class RegularizedCriterion(nn.Module):
    """`criterion(output, target) + weight * OPL(features, target)`, as returned by `opl.regularize`.

    `output` is a tensor of logits or an object with `.logits`. OPL is added only in training mode with gradients
    enabled: after `criterion.eval()` or under `torch.no_grad()` the loss is that of `criterion` alone. Hugging Face's
    `Trainer` accepts it as `compute_loss_func`; `num_items_in_batch` scales the loss for gradient accumulation.
    """

    def __init__(
        self, criterion: Callable[..., Tensor], tap: FeatureTap, weight: float, projection: OrthogonalProjectionLoss
    ) -> None:
        super().__init__()
        if not is_number(weight) or not 0 <= weight < float("inf"):
            raise OptionError(f"weight is {weight!r}: give a number from 0 up, such as 1.0, the paper's choice.")
        self.criterion = criterion
        self.tap = tap
        self.weight = float(weight)
        self.projection = projection
        self.last: LossParts | None = None

    def forward(self, output: Any, target: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Return the loss of `output`, which must come from the model's latest forward pass."""
        logits = output.logits if isinstance(output, HasLogits) else output
        if not isinstance(logits, Tensor):
            raise OptionError(
                f"the model returned a {type(output).__name__} without logits: call the criterion with the tensor of "
                "logits, or with an object that has .logits."
            )
        base = self.criterion(logits, target)
        if self.training and torch.is_grad_enabled():
            loss = self._add(base, self.tap.take(), target)
        else:
            self.tap.clear()
            loss, self.last = base, LossParts(base.detach())
        if num_items_in_batch is None:
            return loss
        return loss * (
            target.ne(IGNORE_INDEX).sum() / num_items_in_batch
        )  # the Trainer counts the labels other than -100

    def _add(self, base: Tensor, features: Tensor, target: Tensor) -> Tensor:
        if not features.requires_grad:
            _warn_frozen(self.tap.name)
        with torch.set_grad_enabled(self.weight != 0):
            projection = self.projection.project(features, target)
        self.last = LossParts(base.detach(), *(part.detach() for part in projection))
        return base if self.weight == 0 else base + self.weight * projection.loss

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    def extra_repr(self) -> str:
        """Return the settings, for `print(criterion)`."""
        return f"weight={self.weight}, layer={self.tap.name!r}"


def _warn_frozen(name: str) -> None:
    warnings.warn(
        f"the features at layer {name!r} carry no gradient, so OPL trains nothing: the backbone is frozen, or the "
        "layer is inside a re-entrant checkpoint (pass use_reentrant=False).",
        OplWarning,
        stacklevel=4,
    )


def _known(options: dict[str, Any]) -> dict[str, Any]:
    names = ("form", "ignore_index", "global_batch")
    for name in options:
        if name not in names:
            raise OptionError(did_you_mean("option", name, names))
    return options


def _find(model: nn.Module, layer: str | nn.Module | None) -> tuple[str, nn.Module]:
    """Return the name and the module of the layer to tap."""
    if not isinstance(model, nn.Module):
        raise LayerError(f"model is a {type(model).__name__}: give the torch.nn.Module that makes the features.")
    named = {_bare(name): module for name, module in model.named_modules()}
    if isinstance(layer, nn.Module):
        for name, module in named.items():
            if module is layer:
                return name, module
        raise LayerError(f"the given {type(layer).__name__} is not a part of the model: pass one of its own layers.")
    if layer is not None:
        if _bare(layer) not in named:
            raise LayerError(_no_layer(layer, [name for name in named if name]))
        return _bare(layer), named[_bare(layer)]
    for name, module in reversed(named.items()):
        if isinstance(module, nn.Linear | Head):
            return name, module
    raise LayerError(
        f"{type(model).__name__} has no nn.Linear whose input could be the features: name the layer that takes them "
        "with layer='...', one of model.named_modules()."
    )


def _bare(name: str) -> str:
    """Return a layer's name without the prefixes of wrappers."""
    while name.startswith(WRAPPERS):
        name = name.split(".", 1)[1]
    return "" if f"{name}." in WRAPPERS else name


def _no_layer(layer: str, names: list[str]) -> str:
    near = difflib.get_close_matches(layer, names, n=3, cutoff=0.0)
    return f"the model has no layer {layer!r}: the nearest names are {', '.join(map(repr, near)) or 'none'}."
