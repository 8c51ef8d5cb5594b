"""The features of test images after every epoch of a run, for an animation."""

import io
import sys
import tempfile
from contextlib import redirect_stderr

import numpy as np
from numpy.typing import NDArray

from ..models import Network
from ..recipe import Recipe
from ..training.engine import launch
from ..training.run import Part, run
from ..types import Splits
from .features import predictions


def features_by_epoch(recipe: Recipe) -> tuple[list[NDArray[np.float32]], NDArray[np.int64], tuple[str, ...]]:
    """Train a recipe once more and return its test features after every epoch, the labels, and the class names.

    Equal recipes yield equal weights, so these are the features of the run that is already on disk. Nothing is
    stored, because training the demo takes seconds.
    """
    print(f"training {recipe.name}, seed {recipe.seed}, to keep the features of every epoch ...", file=sys.stderr)
    fabric = launch(recipe)
    features: list[NDArray[np.float32]] = []
    labels: list[NDArray[np.int64]] = []
    names: list[str] = []

    def watch(model: Network, splits: Splits) -> None:
        outputs = predictions(fabric, recipe, model, splits.test)
        features.append(outputs.features.numpy())
        labels[:], names[:] = [outputs.labels.numpy()], splits.class_names

    with tempfile.TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):
        run(recipe, folder, Part(watch=watch))
    return features, labels[0], tuple(names)
