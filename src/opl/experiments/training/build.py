"""The parts of a run from its recipe: model, batches, objective."""

from typing import Any

import torch
from torch import nn

from ...errors import FolderError, OptionError
from ..data import DATA_SETS, NOISES
from ..data.batches import Batches
from ..methods import METHODS
from ..methods.base import Objective
from ..models import MODELS, Network, load_pretrained, load_weights, prepend_standardize
from ..recipe import Kinds, Recipe, from_json
from ..run_folder import RunFolder
from ..seeds import Purpose
from ..types import DataSet, Images, LabelNoise, Method, Model, TaskShape

KINDS: Kinds = {DataSet: DATA_SETS, LabelNoise: NOISES, Model: MODELS, Method: METHODS}
"""What the settings of a recipe may be."""


def parse_recipe(content: dict[str, Any]) -> Recipe:
    """The recipe that `to_json` wrote."""
    recipe: Recipe = from_json(content, Recipe, KINDS)
    return recipe


def build_model(recipe: Recipe) -> Network:
    """The model of a recipe with the first weights of its seed; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Purpose.MODEL.seed(recipe.seed))
        model = recipe.model.build(recipe.data.channels, recipe.data.num_classes)
        if not isinstance(model, Network):
            raise OptionError(f"{type(recipe.model).__name__} builds no Network: let its build return one.")
        if recipe.method.head is not None:
            model.fc = recipe.method.head.build(TaskShape(recipe.data.num_classes, model.feature_dim))
    if recipe.normalize == "model":
        model = prepend_standardize(model, recipe.data.mean, recipe.data.std)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def finished_model(folder: RunFolder) -> Network:
    """The model of a finished run."""
    if not folder.done:
        raise FolderError(f"{folder.path} is no finished run, and one is needed: finish it with opl train first.")
    model = build_model(parse_recipe(folder.recipe()))
    model.load_state_dict(folder.weights())
    return model


def initialize(recipe: Recipe, model: Network, before: Network | None) -> str:
    """Put earlier weights into a new model, where the recipe names some; returns what the run starts from."""
    if recipe.inherit and before is not None:
        inherit(model, before, recipe)
    if recipe.weights:
        return f"{recipe.weights}, SHA-256 {load_pretrained(model, recipe.weights, recipe.checksum)}"
    return f"the run of {recipe.after}" if recipe.inherit else "scratch"


def inherit(model: Network, before: Network, recipe: Recipe) -> None:
    """Start from the weights of an earlier run, the classifier's too unless the recipe wants a new one."""
    ours, theirs = (_classes(network) for network in (model, before))
    if ours != theirs and not recipe.new_head:
        raise OptionError(
            f"{recipe.after} tells {theirs} classes and {recipe.name} {ours}, so the classifier cannot be inherited: "
            "set new_head (--new-head) to start it anew."
        )
    load_weights(model, before.state_dict(), skip_classifier=recipe.new_head)


def _classes(network: Network) -> int:
    """As many as its classifier has rows; 0 where that is no linear layer."""
    return len(network.fc.weight) if isinstance(network.fc, nn.Linear) else 0


def build_objective(
    recipe: Recipe, model: Network, train: Images, steps: int, teacher: Network | None = None
) -> Objective:
    """The objective of a recipe; what it learns starts from its seed, whatever the global generator."""
    counts = torch.bincount(train.labels[train.rows], minlength=recipe.data.num_classes).tolist()
    shape = TaskShape(recipe.data.num_classes, model.feature_dim, tuple(counts), steps, teacher)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Purpose.OBJECTIVE.seed(recipe.seed))
        objective = recipe.method.build(shape)
    if not isinstance(objective, Objective):
        raise OptionError(f"{type(recipe.method).__name__} builds no Objective: let its build return one.")
    return objective


def batches(fabric: Any, recipe: Recipe, part: Images, alone: bool = False) -> Batches:
    """The batches of this process; `alone`, all of them."""
    mean, std = input_statistics(recipe)
    return Batches(
        part,
        recipe.batch_size,
        seed=recipe.seed,
        augment=recipe.data.augment,
        mean=mean,
        std=std,
        device=fabric.device,
        rank=0 if alone else fabric.global_rank,
        world=1 if alone else fabric.world_size,
        balance_domains=recipe.data.balance_domains,
        mirror_batches=recipe.data.mirror_batches,
    )


def input_statistics(recipe: Recipe) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by which images are normalized before the model: 0 and 1, if that is not done there."""
    if recipe.normalize == "data":
        return recipe.data.mean, recipe.data.std
    return (0.0,) * recipe.data.channels, (1.0,) * recipe.data.channels
