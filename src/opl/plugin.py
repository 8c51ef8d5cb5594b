"""OPL inside somebody else's training: tap the features of a model that stays as it is, and add the loss to theirs."""

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

WRAPPERS = ("module.", "_orig_mod.")  # what DDP and torch.compile put before a layer's name


@runtime_checkable
class HasLogits(Protocol):
    """What many models return: an object with `logits`."""

    logits: Tensor


class LossParts(NamedTuple):
    """The parts of the last loss, detached, for logging; all but `base` are None where OPL was not computed."""

    base: Tensor
    projection: Tensor | None = None
    same: Tensor | None = None
    other: Tensor | None = None


class _Record:
    """The hook on the tapped layer, and what it saw last.

    It refers to no model, so a model and its criterion can be copied or pickled together, in any order, and find each
    other again through it; what it saw stays behind. A copy of the model alone has a record that nobody reads: it is
    `armed` only by the tap that owns it, so such a copy keeps nothing alive.
    """

    def __init__(self) -> None:
        self.armed = False
        self.features: Tensor | None = None

    def __call__(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if not self.armed or not inputs:
            return
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            return  # a checkpointed block runs again during backward: these features were seen before
        self.features = inputs[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"armed": False, "features": None}


class FeatureTap:
    """The input of a model's last `nn.Linear` or head of `opl.heads` (or of `layer`), without editing the model.

    It reads what passes by in every forward pass, through DDP and `torch.compile` as well (tap before the compiled
    model first runs), and changes neither the model's results nor its `state_dict`.

    Args:
        model: any module.
        layer: the name of a layer, as in `model.named_modules()`, or the layer itself; its input is taken.

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
        """The layer's input in the last forward pass, with its graph; (B, D, 1, 1) comes as (B, D)."""
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
        """The features, which are then forgotten: nothing keeps their graph alive."""
        features = self.features
        self.clear()
        return features

    def clear(self) -> None:
        """Forget the features."""
        self._record.features = None

    def close(self) -> None:
        """Take the tap off the model."""
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
    """Add OPL to a training: a criterion that is called as before, `criterion(output, target)`.

    Args:
        criterion: the loss so far, called with logits and target, for instance `nn.CrossEntropyLoss()`.
        model: the model whose features are meant; it is not changed.
        weight: the paper's lambda. With 0 the loss is the criterion's own, bit for bit, and s and d are still measured.
        gamma: weight of d against s.
        layer: whose input the features are; by default the last `nn.Linear`.
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
    """`criterion(output, target) + weight * OPL(features, target)`; made by `opl.regularize`.

    `output` is a tensor of logits or an object with `.logits`. OPL is added where it can change something: not after
    `criterion.eval()`, and not under `torch.no_grad()`; there the loss is the criterion's own. Hugging Face's `Trainer`
    takes it as `compute_loss_func`; its `num_items_in_batch` scales the loss for accumulated gradients.
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
        """The loss of `output`, which must come from the model's latest forward pass."""
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
        )  # as the Trainer counts: labels other than -100

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
        """The settings, for `print(criterion)`."""
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
    """The layer to tap and its name in the model."""
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
    """A layer's name without what wrappers put before it."""
    while name.startswith(WRAPPERS):
        name = name.split(".", 1)[1]
    return "" if f"{name}." in WRAPPERS else name


def _no_layer(layer: str, names: list[str]) -> str:
    near = difflib.get_close_matches(layer, names, n=3, cutoff=0.0)
    return f"the model has no layer {layer!r}: the nearest names are {', '.join(map(repr, near)) or 'none'}."
