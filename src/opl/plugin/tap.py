"""Reading the features of a model by hand."""

from typing import Any
from weakref import finalize

import torch
from torch import Tensor, nn

from ..errors import FeatureError, LayerError, TapError
from .graph import WHERE, classifiers, find_layer


class _Record:
    """The hook on tapped layers, which keeps the input of the layer that ran last.

    The record has no reference to the model, so a model and its tap can be copied or pickled together, in any order,
    and stay connected through the shared record. A model that is copied alone has a record that no tap has armed: it
    keeps nothing.
    """

    def __init__(self) -> None:
        self.armed = True
        self.features: Any = None

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.armed:
            return
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1:
            return  # a checkpointed block runs again during backward: its features were kept already
        self.features = args[0] if args else next(iter(kwargs.values()), None)

    def __getstate__(self) -> dict[str, Any]:
        return {"armed": False, "features": None}


class FeatureTap:
    """Read the features of a model without editing it: the input of the classifier that ran last.

    A forward hook keeps the features in every forward pass, also under DDP and `torch.compile` (create the tap before
    the compiled model first runs). It changes neither the model's output nor its `state_dict`, and is removed with the
    tap.

    Args:
        model: any module.
        layer: the layer whose input to read, or its name as in `model.named_modules()`. By default it is the linear
            layer, 1 x 1 convolution or head of `opl.heads` that runs last.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
        >>> with FeatureTap(model) as tap:
        ...     _ = model(torch.ones(5, 4))
        ...     tap.features.shape
        torch.Size([5, 3])
    """

    def __init__(self, model: nn.Module, layer: str | nn.Module | None = None) -> None:
        layers = dict([find_layer(model, layer)]) if layer is not None else classifiers(model)
        if not layers:
            raise LayerError(f"{type(model).__name__} has no linear layer whose input could be the features: {WHERE}.")
        self.name = ", ".join(map(repr, layers)) if len(layers) == 1 else "the classifier"
        self._record = _Record()
        handles = [module.register_forward_pre_hook(self._record, with_kwargs=True) for module in layers.values()]
        self._remove = finalize(self, _remove, handles, self._record)

    @property
    def features(self) -> Tensor:
        """The layer's input in the last forward pass, with its autograd graph; (B, D, 1, 1) is flattened to (B, D)."""
        features = self._record.features
        if features is None:
            raise TapError(
                f"layer {self.name} was not run since its features were last taken: call the model first; if it did "
                "run, it may not use this layer (name another with layer=), or the tap was copied without its model."
            )
        if not isinstance(features, Tensor):
            raise FeatureError(
                f"the input of layer {self.name} has type {type(features).__name__}, not Tensor: name another layer "
                "with layer=."
            )
        return features.flatten(1) if features.ndim == 4 and features.shape[2:] == (1, 1) else features

    def take(self) -> Tensor:
        """Return the features and clear them, so that their graph is not kept alive."""
        features = self.features
        self.clear()
        return features

    def clear(self) -> None:
        """Clear the kept features."""
        self._record.features = None

    def close(self) -> None:
        """Remove the hook from the model."""
        if self._remove is not None:
            self._remove()
        self._record.armed, self._record.features = False, None

    def __enter__(self) -> "FeatureTap":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "_record": self._record, "_remove": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._record.armed = True


def _remove(handles: list[Any], record: _Record) -> None:
    for handle in handles:
        handle.remove()
    record.armed, record.features = False, None
