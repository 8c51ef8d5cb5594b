"""Other measures of a finished run, into its folder."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...errors import FolderError, OptionError
from ...geometry import measure
from ..models import Network
from ..recipe import Recipe, from_json, to_json
from ..run_folder import RunFolder
from ..statistics import interval
from ..training.build import batches, finished_model, input_statistics
from ..training.engine import launch
from ..training.outputs import FEATURE_ROWS, outputs
from ..training.predictions import plain_batches, predict_part
from ..training.progress import Counter
from ..training.provenance import commit
from ..types import Images
from .few_shot.evaluate import episodes
from .few_shot.settings import FewShot
from .label_noise import label_noise


def reopen(folder: RunFolder) -> tuple[Any, Recipe, Network]:
    """A finished run, on this process alone."""
    model = finished_model(folder)
    recipe: Recipe = replace(from_json(folder.recipe()), devices=1, nodes=1)
    fabric = launch(recipe)
    model.to(fabric.device)
    return fabric, recipe, model


def evaluate_geometry(folder: RunFolder) -> dict[str, Any]:
    """s and d of the test images (where none were held out, of the training images); writes `test.npz`."""
    fabric, recipe, model = reopen(folder)
    splits = recipe.data.load(recipe.seed)
    part = splits.test if len(splits.test) else splits.train  # RFS, for instance, trains on all base images
    found = predict_part(fabric, recipe, model, part)
    folder.write_outputs(found)
    return _geometry(found, len(folder.class_names()))


def evaluate_novel(folder: RunFolder) -> dict[str, Any]:
    """s and d of classes that the run never saw; writes `novel.npz`."""
    fabric, recipe, model = reopen(folder)
    part, names = _unseen(recipe)
    found = outputs(model, plain_batches(batches(fabric, recipe, part, alone=True), model), len(names))
    folder.write_outputs({**found, "class_names": np.array(names)}, "novel")
    return _geometry(found, len(names))


def _geometry(found: dict[str, Any], classes: int) -> dict[str, Any]:
    features = torch.from_numpy(found["features"]).float()
    space = measure(features, torch.from_numpy(found["labels"][:FEATURE_ROWS]))
    return {"images": len(found["labels"]), "classes": classes, "s": space.same, "d": space.other()}


def evaluate_noise(folder: RunFolder) -> dict[str, Any]:
    """Which wrong labels a finished run has memorized, and which its loss tells apart; writes the numbers, and the
    predicted class and the loss of each training image."""
    fabric, recipe, model = reopen(folder)
    made = folder.outputs("noise")
    if made is None:
        raise OptionError(
            f"{folder.path} was trained without label noise, so there is nothing to measure: take a run of table 3, or "
            "train one with label noise (docs/noise.md)."
        )
    part = recipe.data.load(recipe.seed).train
    rows, given = (torch.from_numpy(made[name]) for name in ("train/rows", "train/labels"))
    if not torch.equal(rows, part.rows):
        raise FolderError(f"{folder.path} was trained on other images than {recipe.data.name} has here now.")
    spoilt = replace(part, labels=part.labels.scatter(0, rows, given.to(part.labels)))
    with fabric.autocast():
        numbers, arrays = label_noise(
            model, plain_batches(batches(fabric, recipe, spoilt, alone=True), model), part.labels[rows]
        )
    found = {name: values.numpy() for name, values in arrays.items()}
    folder.write_measure("noise", {"numbers": numbers, "commit": commit()}, found)
    return numbers


def evaluate_episodes(folder: RunFolder, settings: Sequence[FewShot]) -> dict[str, Any]:
    """Few-shot episodes of classes that a finished run never saw; writes each protocol's numbers and accuracies."""
    fabric, recipe, model = reopen(folder)
    part, _ = _unseen(recipe, settings[0].part)
    center, spread = input_statistics(recipe)
    augment = recipe.data.augment
    numbers: dict[str, Any] = {}
    with Counter() as watch:
        found = episodes(
            model, part, settings, augment=augment, mean=center, std=spread, device=fabric.device, watch=watch
        )
    for protocol, each in zip(settings, found, strict=True):
        mean, half, _ = interval(each.tolist())
        own = {protocol.metric: mean, f"{protocol.metric}/half": half}
        content = {"numbers": own, "settings": to_json(protocol), "commit": commit()}
        folder.write_measure(f"episodes-{protocol.name}", content, {"each": each.float().numpy()})
        numbers |= own
    return numbers


def _unseen(recipe: Recipe, part: str = "test") -> tuple[Images, tuple[str, ...]]:
    """Images of classes that a run never saw, and their names."""
    unseen = getattr(recipe.data, "novel_classes", None)
    if unseen is None:
        raise OptionError(f"{recipe.data.name} has no classes beside those of the run: novel classes need some.")
    found: tuple[Images, tuple[str, ...]] = unseen(part)
    return found
