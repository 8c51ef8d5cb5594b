"""Features and predictions of a finished run, for its test images and for novel classes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..models import Network
from ..recipe import Recipe
from ..run_folder import RunFolder
from ..training.build import batches, finished_model, parse_recipe
from ..training.engine import launch
from ..training.validation import Validation, plain_batches, validate, validate_part

Watch = Callable[[str, int, int], None]
"""Called with the name of a task, the amount done, and the total."""


def reopen(folder: RunFolder) -> tuple[Any, Recipe, Network]:
    """Load a finished run on a single process; return the Fabric, the recipe and the model."""
    model = finished_model(folder)
    recipe = replace(parse_recipe(folder.recipe()), devices=1, nodes=1)
    fabric = launch(recipe)
    model.to(fabric.device)
    return fabric, recipe, model


def evaluate_geometry(folder: RunFolder) -> dict[str, Any]:
    """Compute s and d of the test images (of the training images if none were held out); write `test.npz`."""
    fabric, recipe, model = reopen(folder)
    splits = recipe.data.load(recipe.seed)
    part = splits.test if len(splits.test) else splits.train  # RFS, for example, trains on all base images
    validation = validate_part(fabric, recipe, model, part, keep=True)
    folder.write_outputs(validation.arrays)
    return _geometry(validation, len(folder.class_names()))


def evaluate_novel(folder: RunFolder) -> dict[str, Any]:
    """Compute s and d of classes that the run was not trained on; write `novel.npz`."""
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
        "s": validation.numbers["s"],
        "d": validation.numbers["d"],
        "kept": len(validation.arrays["features"]),
    }
