"""Which layers of a model can be classifiers, and how they are named."""

import difflib

import torch
from torch import nn

from ..errors import LayerError
from ..heads import Head

PREFIXES = ("module.", "_orig_mod.")  # what DataParallel, DDP and torch.compile put before the names of layers
WRAPPERS = ("_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")  # what FSDP and checkpoint wrappers put into them
WHERE = "name the layer that takes the features with layer='...', one of model.named_modules()"


def named_layers(model: nn.Module) -> dict[str, nn.Module]:
    """All layers of a model by their names without wrappers; raise `LayerError` for what is no model."""
    if not isinstance(model, nn.Module):
        raise LayerError(f"model is a {type(model).__name__}: give the torch.nn.Module that makes the features.")
    if isinstance(model, torch.jit.ScriptModule):
        raise LayerError(
            "the model was made by torch.jit, which runs its layers where no hook sees them: give the Python model "
            "to opl.regularize, and script it after training."
        )
    if isinstance(model, torch.fx.GraphModule):
        raise LayerError(
            "the model was made by torch.export or torch.fx, which has no layers left to tap: give the Python model, "
            "or compute the features yourself with features=lambda output: ..."
        )
    return {bare_name(name): layer for name, layer in model.named_modules()}


def classifiers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers whose output may be logits: linear layers, 1 x 1 convolutions, and heads of `opl.heads`.

    What lies inside such a layer is a part of it.
    """
    found: dict[str, nn.Module] = {}
    inside: tuple[str, ...] = ()
    for name, layer in named_layers(model).items():
        if _may_classify(layer) and not name.startswith(inside):
            found[name] = layer
            inside = (*inside, f"{name}.") if next(layer.children(), None) is not None else inside
    return found


def find_layer(model: nn.Module, layer: str | nn.Module) -> tuple[str, nn.Module]:
    """Return the name and the module of a layer that is given by its name or itself."""
    named = named_layers(model)
    if isinstance(layer, nn.Module):
        for name, module in named.items():
            if module is layer:
                return name, module
        raise LayerError(f"the given {type(layer).__name__} is not a part of the model: pass one of its own layers.")
    if bare_name(layer) not in named:
        near = difflib.get_close_matches(layer, [name for name in named if name], n=3, cutoff=0.0)
        names = ", ".join(map(repr, near)) or "none"
        raise LayerError(f"the model has no layer {layer!r}: the nearest names are {names}.")
    return bare_name(layer), named[bare_name(layer)]


def bare_name(name: str) -> str:
    """Return a layer's name without what wrappers put into it.

    Example:
        >>> bare_name("module._orig_mod.body.fc"), bare_name("_fsdp_wrapped_module.fc"), bare_name("module")
        ('body.fc', 'fc', '')
    """
    dotted = f"{name}."
    for part in WRAPPERS:
        dotted = dotted.replace(part, "")
    while dotted.startswith(PREFIXES):
        dotted = dotted.split(".", 1)[1]
    return dotted.rstrip(".")


def _may_classify(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return set(layer.kernel_size) == {1}
    return isinstance(layer, nn.Linear | Head)
