"""Where the features of given logits come from: a layer's input, a layer's output, or a function of the output."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from weakref import ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from ..errors import FeatureError, LayerError, TapError
from .hooks import Tap, attach
from .layers import WHERE, classifiers, find_layer
from .rows import GIVE, as_labels, as_vectors, class_axis, flat_rows, resize_labels, route
from .trace import Reached, Trace, search, trace

Pool = Callable[[Tensor], Tensor]
SETTLED = 8  # calls of a criterion after which layers that were never its classifier lose their hooks


class Rows(NamedTuple):
    """Feature vectors and their labels, row by row, and the tensors of the model that the features are made from."""

    features: Tensor
    labels: Tensor
    inputs: tuple[Tensor, ...] = ()


class Source(Protocol):
    """Finds the features of a batch."""

    @property
    def name(self) -> str:
        """What the features are, for messages."""
        ...

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """Feature vectors and labels of the logits that a criterion is given."""
        ...

    def close(self) -> None:
        """Take all hooks off the model."""
        ...


class ClassifierSource:
    """The input of the layer whose output becomes the logits, found in the autograd graph of each batch.

    Args:
        model: any module.
        layer: the layer or its name; by default it is found among all linear layers, 1 x 1 convolutions and heads.
        pool: what makes (B, D) of the input of a given layer that is not the classifier.
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | None = None, pool: Pool | None = None) -> None:
        self._given, self._pool = layer is not None, pool
        found = dict([find_layer(model, layer)]) if layer is not None else classifiers(model)
        self._model: ref[nn.Module] | None = ref(model)
        if not found:
            raise LayerError(
                f"{type(model).__name__} has no linear layer, 1 x 1 convolution or head of opl.heads whose input could "
                f"be the features: {WHERE}."
            )
        self._calls: dict[str, int] = {}
        self._tap(found)

    def _tap(self, layers: dict[str, nn.Module]) -> None:
        self._taps = {name: attach(layer, self) for name, layer in layers.items()}

    @property
    def name(self) -> str:
        """The name of the layer, or of all layers that were classifiers so far."""
        names = list(self._taps) if self._given else list(self._calls)
        return f"layer {', '.join(map(repr, names))}" if names else "the classifier, which the first batch will show"

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of the logits; raise `TapError` or `LayerError` if they cannot be told."""
        hooks = {tap.hook: name for name, tap in self._taps.items()}
        found = trace(logits, hooks)
        reached = found.reached or self._inside_compiled(logits)
        deep = self._given and not reached
        if deep:
            reached = search(logits, next(iter(hooks)))
        self._check(logits, [hooks[call.hook] for call in reached], found)
        for hook in hooks:
            hook.compiled = None
        layer = self._taps[hooks[reached[0].hook]].layer()
        features = _gather(reached, logits.device, hooks[reached[0].hook])
        self._settle(hooks[reached[0].hook])
        if deep:
            rows = plain_rows(torch.cat(features), logits, target, self._pool)
        else:
            conv = isinstance(layer, nn.modules.conv._ConvNd)
            rows = _classifier_rows(features, reached, found, logits, target, conv)
        return rows._replace(inputs=tuple(features))

    def close(self) -> None:
        """Take all hooks off the model."""
        for tap in self._taps.values():
            tap.release(id(self))

    def _inside_compiled(self, logits: Tensor) -> list[Reached]:
        """The call whose output was changed inside a compiled model, if it is given or has the values of the logits."""
        reached = []
        for tap in self._taps.values():
            if tap.hook.compiled is not None:
                features, output = tap.hook.compiled
                same = output.numel() == logits.numel() and torch.equal(output.flatten(), logits.flatten())
                if output.grad_fn is not None and (self._given or same):
                    reached.append(Reached(tap.hook, features, GradientEdge(output.grad_fn, output.output_nr)))
        return reached

    def _check(self, logits: Tensor, names: Sequence[str], found: Trace) -> None:
        if not names:
            raise TapError(self._not_found(logits, found))
        if not self._given and (len(set(names)) > 1 or found.obstacles):
            others = sorted({*map(repr, names), *found.obstacles})
            raise LayerError(
                f"the logits are made from {' and '.join(others)}, so it is not clear which features are theirs: "
                f"{WHERE}."
            )

    def _not_found(self, logits: Tensor, found: Trace) -> str:
        if logits.grad_fn is None:
            return (
                "these logits carry no gradient, so no features can be found for them: call the criterion with what "
                "the model returned with gradients enabled, not detached, or after criterion.eval()."
            )
        model = self._model() if self._model else None
        now = {} if model is None else classifiers(model)
        new = [name for name, layer in now.items() if all(tap.layer() is not layer for tap in self._taps.values())]
        between = f", they come from {', '.join(sorted(set(found.obstacles)))}" if found.obstacles else ""
        looked = ", ".join(map(repr, list(self._taps)[:6])) + (", ..." if len(self._taps) > 6 else "")
        none = f"these logits are the output of none of the layers {looked}{between}"
        if new and not self._calls:
            names = ", ".join(map(repr, new[:3]))
            return f"{none}: the model has got {names} since opl.regularize was called; call it again."
        return (
            f"{none}: the model was compiled and run before opl.regularize was called, or they are another model's; "
            f"otherwise {WHERE}."
        )

    def _settle(self, name: str) -> None:
        """Count a call; after some, keep only hooks that were of use, so that others hold nothing."""
        self._calls[name] = self._calls.get(name, 0) + 1
        if not self._given and sum(self._calls.values()) == SETTLED:
            for other in [other for other in self._taps if other not in self._calls]:
                self._taps.pop(other).release(id(self))

    def __getstate__(self) -> dict[str, Any]:
        layers = {name: tap.layer() for name, tap in self._taps.items()}
        return {**self.__dict__, "_taps": layers, "_model": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layers = state.pop("_taps")
        self.__dict__.update(state)
        self._tap(layers)


class OutputSource:
    """The output of a named layer."""

    def __init__(self, model: nn.Module, layer: str, pool: Pool | None = None) -> None:
        self._layer, module = find_layer(model, layer)
        self._pool = pool
        self._tap: Tap = attach(module, self, after=True)

    @property
    def name(self) -> str:
        """The name of the layer."""
        return f"the output of layer {self._layer!r}"

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of what the layer returned on the way to the logits."""
        reached = search(logits, self._tap.hook)
        if not reached and self._tap.hook.compiled is not None:
            features = [self._tap.hook.compiled[0]]
        elif not reached:
            raise TapError(f"these logits were not made from {self.name}: name a layer that the model uses.")
        else:
            features = _gather(reached, logits.device, self._layer)
        self._tap.hook.compiled = None
        return plain_rows(torch.cat(features), logits, target, self._pool)._replace(inputs=tuple(features))

    def close(self) -> None:
        """Take the hook off the model."""
        self._tap.release(id(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tap": self._tap.layer()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layer = state.pop("_tap")
        self.__dict__.update(state)
        self._tap = attach(layer, self, after=True)


class FunctionSource:
    """What a function makes of the model's output."""

    name = "features(output)"

    def __init__(self, function: Callable[[Any], Tensor], pool: Pool | None = None) -> None:
        self._function, self._pool = function, pool

    def rows(self, output: Any, logits: Tensor, target: Tensor) -> Rows:
        """The rows of the function's value."""
        value = _as_tensor(self._function(output), self.name)
        return plain_rows(value, logits, target, self._pool)._replace(inputs=(value,))

    def close(self) -> None:
        """Nothing: a function needs no hook."""


def plain_rows(features: Tensor, logits: Tensor, target: Tensor, pool: Pool | None) -> Rows:
    """Rows of features that are not the input of the classifier: vectors, tokens or maps."""
    features = pool(features) if pool else features
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features.flatten(1)
    if features.ndim == 4 and target.ndim == 3:
        return Rows(as_vectors(features, True), resize_labels(target, features.shape[2:]).reshape(-1))
    if features.ndim == 2 or (features.ndim == 3 and target.ndim == 2 and target.shape == features.shape[:2]):
        return Rows(as_vectors(features, False), as_labels(target, logits, class_axis(logits, target)))
    raise FeatureError(
        f"features have shape {tuple(features.shape)} and target {tuple(target.shape)}: pool them to one vector a "
        "label with pool='mean', 'first' or 'last', or with a function."
    )


def _classifier_rows(
    features: Sequence[Tensor], reached: Sequence[Reached], found: Trace, logits: Tensor, target: Tensor, conv: bool
) -> Rows:
    if found.resizes:
        [maps] = features
        return Rows(as_vectors(maps, True), resize_labels(target, maps.shape[2:]).reshape(-1))
    axis = class_axis(logits, target)
    vectors = torch.cat([as_vectors(each, conv) for each in features])
    labels = as_labels(target, logits, axis)
    if found.moves:
        vectors = route(reached, vectors, [conv] * len(reached), logits, axis)
    count = flat_rows(logits, axis)
    if len(vectors) != count:
        raise FeatureError(f"the classifier has {len(vectors)} rows of features and the logits have {count}: {GIVE}.")
    return Rows(vectors, labels)


def _gather(reached: Sequence[Reached], device: torch.device, name: str) -> list[Tensor]:
    """The features of all calls on one device; those of replicas are on theirs."""
    return [_as_tensor(call.features, f"layer {name!r}").to(device) for call in reached]


def _as_tensor(features: Any, name: str) -> Tensor:
    if not isinstance(features, Tensor):
        kind = type(features).__name__
        raise FeatureError(f"{name} has a {kind}, not a tensor: name another with layer= or features=.")
    return features
