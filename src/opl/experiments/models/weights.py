"""Loading of external weights into a model: either all of them, or an error that names the mismatches."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import OptionError

NESTS = ("state_dict", "model_state_dict", "model")  # keys under which checkpoints store their weights
PREFIXES = ("module.", "_orig_mod.", "model.")  # of DDP, torch.compile and Lightning modules
CLASSIFIER = "fc."


def load_weights(model: nn.Module, state_dict: Mapping[str, Any], *, skip_classifier: bool = False) -> None:
    """Load all weights of `state_dict` into `model`, or raise an error and leave the model unchanged.

    Args:
        model: a model of this package, or any other whose classifier is `fc`; may be wrapped by DDP or `torch.compile`.
        state_dict: the weights by name; wrapper prefixes, and checkpoints with a key such as "state_dict", are handled.
        skip_classifier: load everything except the classifier `fc`, for a different set of classes.
    """
    given, own = _plain(_unnested(state_dict)), _plain(model.state_dict())
    if skip_classifier:
        given = {name: value for name, value in given.items() if not name.startswith(CLASSIFIER)}
        given |= {name: value for name, value in own.items() if name.startswith(CLASSIFIER)}
    _check(given, own)
    real_names = dict(zip(own, model.state_dict(), strict=True))
    model.load_state_dict({real_names[name]: value for name, value in given.items()})


def _unnested(checkpoint: Mapping[str, Any], depth: int = 0) -> Mapping[str, Any]:
    for nest in NESTS:
        if isinstance(checkpoint.get(nest), Mapping) and depth < 10:
            return _unnested(checkpoint[nest], depth + 1)
    return checkpoint


def _plain(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the wrapper prefixes that all names share."""
    if strange := [name for name in weights if not isinstance(name, str)]:
        raise OptionError(f"these are no weights by name: a key is a {type(strange[0]).__name__}. Give a state dict.")
    for prefix in PREFIXES:
        if weights and all(name.startswith(prefix) for name in weights):
            return _plain({name.removeprefix(prefix): value for name, value in weights.items()})
    return dict(weights)


def _check(given: Mapping[str, Any], own: Mapping[str, Tensor]) -> None:
    if strange := [name for name in own if name in given and not _is_dense(given[name])]:
        raise OptionError(f"these weights are no plain arrays: {_few(strange)}. Give the model's own state dict.")
    if strange := [name for name in own if name in given and _is_whole(given[name]) and not _is_whole(own[name])]:
        raise OptionError(f"these weights are whole numbers: {_few(strange)}. Give the model's own state dict.")
    # Weights older than PyTorch 0.4.1 (torchvision's first) have no `num_batches_tracked`; load_state_dict adds it.
    missing = [name for name in own if name not in given and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in given if name not in own]
    reshaped = [name for name in own if name in given and _shape(given[name]) != _shape(own[name])]
    wrong = {*missing, *unexpected, *reshaped}
    if wrong and all(name.startswith(CLASSIFIER) for name in wrong):
        raise OptionError(
            f"only the classifier does not fit: {_classes(given)} in the weights, {_classes(own)} in the model. "
            "Build the model with the same number of classes, or load everything else with skip_classifier=True."
        )
    if wrong:
        shapes = [f"{name} {_shape(given[name])} for {_shape(own[name])}" for name in reshaped]
        kinds = {"missing": missing, "unexpected": unexpected, "of another shape": shapes}
        faults = "; ".join(f"{_few(names)} {kind}" for kind, names in kinds.items() if names)
        raise OptionError(f"these weights are of another model: {faults}. Build the model that they were trained in.")


def _is_dense(value: Any) -> bool:
    """Whether a value is an array that holds every number of its shape, and no recipe for one."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized or value.is_meta:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def _is_whole(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex())


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def _classes(weights: Mapping[str, Any]) -> str:
    shape = _shape(weights.get(CLASSIFIER + "weight"))
    return f"{shape[0]} classes of {shape[1]} features" if len(shape) == 2 else "no fc"


def _few(names: Collection[str], most: int = 3) -> str:
    listed = ", ".join(list(names)[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed
