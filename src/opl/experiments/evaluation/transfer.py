"""Retrieval and 5-way few-shot episodes on classes and data sets that a run was not trained on.

The features are those of the frozen network, for images without augmentation that are resized as `protocols.RESIZING`
says. Episodes have 15 queries per class; their classifier is a logistic regression on unit features.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...geometry import retrieval
from ..run_folder import RunFolder, measure_name
from ..settings import to_json
from ..statistics import interval
from ..training.engine import commit
from ..training.progress import Counter
from .episodes import feature_accuracies
from .features import default_outside, outside_images, predictions, reopen
from .protocols import FewShot, Transfer

SHOTS = (1, 5)


def evaluate_transfer(folder: RunFolder, settings: Sequence[Transfer]) -> dict[str, Any]:
    """Return retrieval measures and episode accuracies in percent on each target; write them."""
    fabric, recipe, model = reopen(folder)
    if settings[0].target == "default":
        settings = [replace(settings[0], target=name) for name in default_outside(recipe)]
    numbers: dict[str, Any] = {}
    with Counter() as watch:
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
                confidence, metric = interval(accuracies.tolist()), f"{protocol.metric}/5-way-{shot}-shot"
                values |= {metric: confidence.mean, f"{metric}/half": confidence.half}
                arrays[f"{shot}-shot"] = accuracies.float().numpy()
            content = {"numbers": values, "settings": to_json(protocol), "commit": commit(), "images": len(part)}
            folder.write_measure(measure_name(protocol.metric), content, arrays)
            numbers |= values
            watch("data sets", index + 1, len(settings))
    return numbers
