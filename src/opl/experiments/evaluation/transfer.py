"""Retrieval and 5-way few-shot episodes on classes and data sets that a run was not trained on.

The features are computed by the frozen network from images without augmentation, resized as `protocols.RESIZING`
says. Episodes have 15 queries per class; their classifier is a logistic regression on unit features.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...geometry import retrieval
from ..run_folder import RunFolder
from ..training.progress import task_bars
from .episodes import feature_accuracies
from .features import default_outside, outside_images, predictions, reopen, summarize_accuracies, write_numbers
from .protocols import FewShot, Transfer

SHOTS = (1, 5)


def evaluate_transfer(folder: RunFolder, settings: Sequence[Transfer]) -> dict[str, Any]:
    """Return retrieval measures and episode accuracies in percent on each target; write them."""
    fabric, recipe, model = reopen(folder)
    if settings[0].target == "default":
        settings = [replace(settings[0], target=name) for name in default_outside(recipe)]
    numbers: dict[str, Any] = {}
    with task_bars() as watch:
        for index, protocol in enumerate(settings):
            part = outside_images(recipe, protocol.target, protocol.images, protocol.seed)
            images = predictions(fabric, recipe, model, part)
            labels = torch.unique(images.labels, return_inverse=True)[1]
            shares = retrieval(images.features, labels)._asdict()
            values = {f"{protocol.metric}/{name}": 100 * value for name, value in shares.items()}
            arrays = {}
            for shot in SHOTS:
                episodes = FewShot(shot=shot, copies=1, episodes=protocol.episodes, seed=protocol.seed)
                accuracies = feature_accuracies(images.features, labels, episodes)
                values |= summarize_accuracies(f"{protocol.metric}/5-way-{shot}-shot", accuracies)
                arrays[f"{shot}-shot"] = accuracies.float().numpy()
            write_numbers(folder, protocol.metric, values, protocol, arrays, images=len(part))
            numbers |= values
            watch("data sets", index + 1, len(settings))
    return numbers
