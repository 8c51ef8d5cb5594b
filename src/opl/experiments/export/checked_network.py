"""The network of a finished run as config and weights, checked against the network of the run itself."""

import dataclasses
import hashlib
import inspect
from typing import Any

import torch
from torch import nn

from ... import __version__
from ...errors import FolderError
from ...heads import LinearHead
from ..data import Normalize
from ..models import Network, ResNet
from ..models.exported import HeadConfig, NetworkConfig, parse_config, rebuild
from ..models.network import STANDARDIZE
from ..recipe import Recipe
from ..run_folder import RunFolder
from ..settings import to_json
from ..training.build import finished_model, input_statistics, parse_recipe

TORCHVISION = {18: "resnet18", 34: "resnet34", 50: "resnet50", 101: "resnet101"}
"""The functions of torchvision.models that build a ResNet of a depth."""


def export_network(folder: RunFolder) -> tuple[NetworkConfig, bytes]:
    """The config and the safetensors of a finished run, whose logits are those of the run's own network."""
    from safetensors.torch import load, save

    recipe, network = parse_recipe(folder.recipe()), finished_model(folder)
    normalized = recipe.normalize != "none"
    config = NetworkConfig(
        recipe=recipe.name,
        seed=recipe.seed,
        scale=recipe.scale,
        data=recipe.data.name,
        model=recipe.model.rebuilt(folder.result()),
        head=_head(recipe, network),
        channels=recipe.data.channels,
        size=recipe.data.size,
        num_classes=recipe.data.num_classes,
        class_names=folder.class_names(),
        mean=recipe.data.mean if normalized else (),
        std=recipe.data.std if normalized else (),
        torchvision=torchvision_name(recipe, network),
        precision=recipe.precision,
        opl_version=__version__,
    )
    weights = {name: value for name, value in folder.weights().items() if not name.startswith(f"{STANDARDIZE}.")}
    data = save(weights, metadata={"format": "pt"})
    config = dataclasses.replace(config, sha256=hashlib.sha256(data).hexdigest())
    _check_equal(rebuild(parse_config(to_json(config)), load(data)), network, recipe)
    return config, data


def torchvision_name(recipe: Recipe, network: Network) -> str:
    """The function of torchvision.models that builds a network with these names and shapes; empty if there is none."""
    model, linear = recipe.model, isinstance(network.fc, nn.Linear | LinearHead)
    if not isinstance(model, ResNet) or not linear or recipe.data.channels != 3:
        return ""
    return TORCHVISION.get(model.depth, "") if model.stem == "imagenet" and model.width == 64 else ""


def _head(recipe: Recipe, network: Network) -> HeadConfig | None:
    """The head that replaced the linear classifier; settings that are not its arguments belong to the loss."""
    settings: Any = recipe.method.head
    if settings is None:
        return None
    known = inspect.signature(type(network.fc)).parameters
    options = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    given = {name: value for name, value in options.items() if name in known}
    return HeadConfig(type(network.fc).__name__, given)


@torch.no_grad()
def _check_equal(exported: Network, network: Network, recipe: Recipe) -> None:
    data = recipe.data
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(2, data.channels, data.size, data.size, generator=chance)
    images = images.contiguous(memory_format=torch.channels_last)
    expected = network.eval()(Normalize(*input_statistics(recipe))(images)).logits
    if not torch.equal(exported(images).logits, expected):
        raise FolderError(
            f"the network of {recipe.name} cannot be exported: built again from its config it has other logits than "
            "the run's own."
        )
