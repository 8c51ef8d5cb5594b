"""Features and predictions of a finished run, for its test images, novel classes and other data sets."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...errors import DataError, OplWarning, OptionError, did_you_mean
from ..data import (
    Cifar10,
    Cifar100,
    CifarFS,
    Digits,
    FashionMnist,
    ImageFolder,
    MetaSource,
    MiniImageNet,
    Mnist,
    Pacs,
    is_here,
)
from ..models import Network
from ..recipe import Recipe
from ..run_folder import RunFolder, measure_name
from ..seeds import Purpose
from ..settings import to_json
from ..statistics import interval
from ..training.build import batches, finished_model, finished_recipe
from ..training.engine import commit, launch
from ..training.validation import Predictions, Validation, collect, plain_batches, validate, validate_part
from ..types import Images

Watch = Callable[[str, int, int], None]
"""Called with the name of a task, the amount done, and the total."""


def unwatched(task: str, done: int, total: int) -> None:
    """Ignore the progress of a task."""


def reopen(folder: RunFolder) -> tuple[Any, Recipe, Network]:
    """Load a finished run on a single process; return the Fabric, the recipe and the model."""
    recipe = replace(finished_recipe(folder), devices=1, nodes=1)
    fabric = launch(recipe)
    return fabric, recipe, finished_model(folder).to(fabric.device)


def write_numbers(
    folder: RunFolder, metric: str, numbers: dict[str, Any], settings: Any, arrays: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Write a measure of a run: its numbers, the settings behind them, and arrays; return what was written."""
    stored = settings if isinstance(settings, dict) else to_json(settings)
    content = {"numbers": numbers, "settings": stored, "commit": commit(), **more}
    folder.write_measure(measure_name(metric), content, arrays)
    return content


def summarize_accuracies(metric: str, accuracies: Tensor) -> dict[str, float]:
    """Return the mean accuracy of some episodes under the name `metric`, and the half-width of its interval."""
    confidence = interval(accuracies.tolist())
    return {metric: confidence.mean, f"{metric}/half": confidence.half}


def evaluate_geometry(folder: RunFolder) -> dict[str, Any]:
    """Compute the measures of the test images (of the training images if none were held out); write `test.npz`."""
    fabric, recipe, model = reopen(folder)
    splits = recipe.data.load(recipe.seed)
    part = splits.test if len(splits.test) else splits.train  # RFS, for example, trains on all base images
    validation = validate_part(fabric, recipe, model, part, keep=True)
    folder.write_outputs(validation.arrays)
    return _geometry(validation, len(folder.class_names()))


def evaluate_novel(folder: RunFolder) -> dict[str, Any]:
    """Compute the measures of classes that the run was not trained on; write `novel.npz`."""
    fabric, recipe, model = reopen(folder)
    part, names = recipe.data.novel_classes()
    plain = plain_batches(batches(fabric, recipe, part, alone=True), model)
    validation = validate(model, plain, len(names), keep=True, novel=True)
    folder.write_outputs({**validation.arrays, "class_names": np.array(names)}, "novel")
    return _geometry(validation, len(names))


def _geometry(validation: Validation, classes: int) -> dict[str, Any]:
    return {
        "images": len(validation.arrays["labels"]),
        "classes": classes,
        **validation.numbers,
        "kept": len(validation.arrays["features"]),
    }


OUTSIDE: dict[str, Callable[[int, int], Sequence[Images]]] = {
    "cifar10": lambda size, seed: [Cifar10().load(seed).test],
    "cifar100": lambda size, seed: [Cifar100().load(seed).test],
    "cifar-fs": lambda size, seed: [CifarFS().novel_classes()[0]],
    "digits": lambda size, seed: [Digits().load(seed).test],
    "fashion-mnist": lambda size, seed: [FashionMnist().load(seed).test],
    "mini-imagenet": lambda size, seed: [MiniImageNet().novel_classes()[0]],
    "mnist": lambda size, seed: [Mnist().load(seed).test],
    "omniglot": lambda size, seed: [MetaSource(source="omniglot-8", size=size).novel_classes()[0]],
    "pacs": lambda size, seed: Pacs(target="photo", size=size).load(seed)[:3],
}
"""The data sets that a run's network can be tested on, as functions of image size and seed: their test images;
for few-shot data sets, their test classes; for PACS, all images."""
DEFAULTS = {
    "cifar100": ("cifar10", "mini-imagenet", "mnist", "pacs"),
    "cifar10": ("cifar100", "mini-imagenet", "mnist", "pacs"),
    "mnist": ("omniglot", "fashion-mnist"),
    "digits": ("mnist", "omniglot"),
}
"""The data sets that are used by default, by the data set of the run; novel classes are added."""
SMALLEST_FOLDER_SIZE = 32  # least pixels that images of a folder are decoded to before they are resized
BLOCK = 500  # images that are read together


def default_outside(recipe: Recipe) -> list[str]:
    """Return the data sets outside of a run's classes that suit it and are on this machine.

    Raises:
        OptionError: there is none.
    """
    names = []
    for name in ("novel", *DEFAULTS.get(recipe.data.name, ())):
        with suppress(OptionError):  # the run was trained on all classes of its data set
            try:
                if name in ("novel", "digits") or is_here(name):
                    _load(recipe, name)
                    names.append(name)
            except DataError as error:
                warnings.warn(f"{name} is left out: {error}", OplWarning, stacklevel=2)
    if not names:
        raise OptionError(
            f"{recipe.name} has no novel classes, and no suitable data set is on this machine: name a data set or a "
            "folder of images, or see opl data."
        )
    return names


def outside_images(recipe: Recipe, outside: str, count: int = 0, seed: int = 0) -> Images:
    """Load images outside of a run's classes, in the size and channels of its images; see `protocols.RESIZING`.

    Args:
        recipe: the run's recipe.
        outside: `novel`, a name of `OUTSIDE`, or a folder with one subfolder of images per class.
        count: number of random images; 0 returns all.
        seed: determines the choice of images.
    """
    parts = [part for part in _load(recipe, outside) if len(part)]
    rows = torch.arange(sum(map(len, parts)))
    if 0 < count < len(rows):
        rows = torch.randperm(len(rows), generator=Purpose.OUTSIDE_IMAGES.generator(seed))[:count].sort().values
    pixels, labels, first = [], [], 0
    for part in parts:
        inside = rows[(rows >= first) & (rows < first + len(part))] - first
        for block in torch.split(inside, part.most_at_once or BLOCK):
            images, ids = part.take(block)
            pixels.append(_convert(images, recipe.data.channels, recipe.data.size))
            labels.append(ids)
        first += len(part)
    return Images(torch.cat(pixels), torch.cat(labels), torch.arange(len(rows)))


def _load(recipe: Recipe, outside: str) -> Sequence[Images]:
    if outside == "novel":
        return [recipe.data.novel_classes()[0]]
    if outside in OUTSIDE:
        return OUTSIDE[outside](recipe.data.size, recipe.seed)
    if Path(outside).is_dir():
        folder = str(Path(outside).absolute())
        return ImageFolder(root=folder, size=max(recipe.data.size, SMALLEST_FOLDER_SIZE)).load(recipe.seed)[:3]
    raise OptionError(did_you_mean("data set or folder", outside, ["novel", *OUTSIDE]))


def _convert(pixels: Tensor, channels: int, size: int) -> Tensor:
    """Return (B, channels, size, size) uint8 pixels."""
    images = pixels.float()
    if images.shape[1] > channels:
        images = (images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    if images.shape[2:] != (size, size):
        images = F.interpolate(images, (size, size), mode="bilinear", antialias=True, align_corners=False)
    return images.round().clamp(0, 255).to(torch.uint8).expand(-1, channels, -1, -1)


def predictions(fabric: Any, recipe: Recipe, model: Network, part: Images) -> Predictions:
    """Pass images through the model of a run, normalized as in training but not augmented."""
    with fabric.autocast():
        return collect(model, plain_batches(batches(fabric, recipe, part, alone=True), model))
