"""Building the parts of a run from its recipe: model, batches and objective."""

from typing import Any

import torch
from torch import Tensor, nn

from ...errors import FolderError, OplError, OptionError
from ..data import DATA_SETS, NOISES, Normalize
from ..data.batches import Batches
from ..methods import METHODS
from ..methods.base import Objective
from ..models import MODELS, Network, WhitenedNetwork, load_pretrained, load_weights, prepend_standardize
from ..models.fast_net import IMAGES
from ..models.network import STANDARDIZE
from ..models.sur_resnet import is_adapter
from ..recipe import Recipe
from ..run_folder import RunFolder
from ..seeds import Purpose
from ..settings import Kinds, from_json, to_json
from ..types import DataSet, Images, LabelNoise, Method, Model, TaskShape

KINDS: Kinds = {DataSet: DATA_SETS, LabelNoise: NOISES, Model: MODELS, Method: METHODS}
"""The dataclasses that a recipe may contain, by protocol."""


def parse_recipe(content: dict[str, Any]) -> Recipe:
    """Rebuild a recipe from the output of `to_json`."""
    recipe = from_json(content, Recipe, KINDS)
    if not isinstance(recipe, Recipe):
        raise OptionError(f"a {type(recipe).__name__} is not a recipe: its file is damaged; restore or delete it.")
    return recipe


def complete_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run, completed by the defaults of settings that are newer than the run.

    Therefore the default of a new setting must mean what was done before it existed.
    """
    try:
        completed: dict[str, Any] = to_json(parse_recipe(settings))
    except OplError:  # a removed setting, or not a recipe
        return settings
    return completed


def build_model(recipe: Recipe, settings: Model | None = None) -> Network:
    """Build the model of a recipe, initialized from its seed; the global random state is unchanged.

    `settings` are the model's settings completed from an earlier run; without them, the recipe's are used.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Purpose.MODEL.seed(recipe.seed))
        model = (settings or recipe.model).build(recipe.data.channels, recipe.data.num_classes)
        if not isinstance(model, Network):
            raise OptionError(f"{type(recipe.model).__name__} does not build a Network: return one from build.")
        if recipe.method.head is not None:
            model.fc = recipe.method.head.build(TaskShape(recipe.data.num_classes, model.feature_dim))
    if recipe.normalize == "model":
        model = prepend_standardize(model, *image_statistics(recipe))
    if recipe.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def finished_recipe(folder: RunFolder) -> Recipe:
    """Read the recipe of a finished run."""
    if not folder.done:
        raise FolderError(f"{folder.path} is not a finished run: finish it with opl train first.")
    return parse_recipe(folder.recipe())


def finished_model(folder: RunFolder) -> Network:
    """Load the model of a finished run."""
    recipe = finished_recipe(folder)
    model = build_model(recipe, recipe.model.rebuilt(folder.result()))
    model.load_state_dict(folder.weights())
    return model


def initialize(recipe: Recipe, model: Network, before: Network | None) -> str:
    """Load the initial weights that the recipe names, if any, into a new model; return what the run starts from."""
    if recipe.inherit and before is not None:
        inherit(model, before, recipe)
    if recipe.weights:
        return f"{recipe.weights}, SHA-256 {load_pretrained(model, recipe.weights, recipe.checksum)}"
    return f"the run of {recipe.after}" if recipe.inherit else "scratch"


def fit_first_layer(recipe: Recipe, model: Network, train: Images) -> None:
    """Compute the whitening layer of a model, if any, from the first training images, normalized as in training."""
    if isinstance(model, WhitenedNetwork):
        mean, std = (input_statistics if recipe.normalize == "none" else image_statistics)(recipe)
        pixels, _ = train.take(torch.arange(min(IMAGES, len(train))))
        model.fit_images(Normalize(mean, std)(pixels.float() / 255))


def inherit(model: Network, before: Network, recipe: Recipe) -> None:
    """Copy the weights of an earlier run, including the classifier unless the recipe sets `new_head`.

    The model keeps its own normalization, because its data may differ from the earlier run's, and its adapters,
    which are new.
    """
    fcs = [network.fc for network in (model, before)]
    ours, theirs = (len(fc.weight) if isinstance(fc, nn.Linear) else 0 for fc in fcs)
    if ours != theirs and not recipe.new_head:
        raise OptionError(
            f"{recipe.after} has {theirs} classes and {recipe.name} {ours}, so the classifier cannot be inherited: "
            "add --new-head to initialize a new one."
        )
    kept = {
        name: value
        for name, value in model.state_dict().items()
        if name.startswith(f"{STANDARDIZE}.") or is_adapter(name)
    }
    load_weights(model, {**before.state_dict(), **kept}, skip_classifier=recipe.new_head)


def synchronize_batch_norm(recipe: Recipe, model: Network, device: torch.device) -> Network:
    """Make BatchNorm use the statistics of the global batch, if the recipe says so; the weights keep their names."""
    if not recipe.sync_batch_norm or recipe.devices * recipe.nodes == 1:
        return model
    if device.type == "cpu":
        raise OptionError(
            "sync_batch_norm needs accelerators, but this run is on the CPU: remove it, or use one process."
        )
    synchronized: Network = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
    return synchronized


def build_objective(
    recipe: Recipe, model: Network, train: Images, steps: int, teacher: Network | None = None
) -> Objective:
    """Build the objective of a recipe; its parameters depend on the recipe's seed, not on the global random state."""
    counts = tuple(class_counts(recipe, train).tolist())
    shape = TaskShape(recipe.data.num_classes, model.feature_dim, counts, steps, teacher, recipe.epochs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Purpose.OBJECTIVE.seed(recipe.seed))
        objective = recipe.method.build(shape)
    if not isinstance(objective, Objective):
        raise OptionError(f"{type(recipe.method).__name__} does not build an Objective: return one from build.")
    return objective


def class_counts(recipe: Recipe, train: Images) -> Tensor:
    """Return the (C,) number of training images of each class."""
    return torch.bincount(train.labels[train.rows], minlength=recipe.data.num_classes)


def batches(fabric: Any, recipe: Recipe, part: Images, alone: bool = False) -> Batches:
    """Return the batches of this process; with `alone`, the batches of the whole part."""
    mean, std = input_statistics(recipe)
    return Batches(
        part,
        recipe.batch_size,
        drop_last=recipe.drop_last,
        seed=recipe.seed,
        augment=recipe.data.augment,
        mean=mean,
        std=std,
        device=fabric.device,
        rank=0 if alone else fabric.global_rank,
        world=1 if alone else fabric.world_size,
        balance_domains=recipe.data.balance_domains,
        mirror_batches=recipe.data.mirror_batches,
        views=recipe.data.views,
        alternate_flip=recipe.data.alternate_flip,
        growing_sizes=recipe.data.growing_sizes,
        epochs=recipe.epochs,
        channels_last=recipe.channels_last,
    )


def input_statistics(recipe: Recipe) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and std that images are normalized with before the model; 0 and 1 if not normalized there."""
    if recipe.normalize == "data":
        return image_statistics(recipe)
    return (0.0,) * recipe.data.channels, (1.0,) * recipe.data.channels


def image_statistics(recipe: Recipe) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and std of every channel that images are normalized with, wherever that happens."""
    if recipe.model.scaling is None:
        return recipe.data.mean, recipe.data.std
    mean, std = recipe.model.scaling
    return (mean,) * recipe.data.channels, (std,) * recipe.data.channels
