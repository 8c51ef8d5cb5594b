"""Evaluation of label noise: whether a network memorized wrong labels, and whether its loss separates them."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...errors import FolderError, OptionError
from ...geometry import detection
from ...losses.truncated import cross_entropies
from ..run_folder import RunFolder
from ..training.engine import commit
from ..training.validation import Predictions
from .features import predictions, reopen


def label_noise(trained: Predictions, true: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Measure memorization in percent; also return each image's cross-entropy and predicted class.

    `noise/fitted`: correct labels that the network predicts. `noise/memorized`: wrong labels that it predicts.
    `noise/recovered`: images with a wrong label for which it predicts the true class. `noise/told`: how often a wrong
    label has a larger cross-entropy than a correct label (the area under the ROC curve; 50 is chance). Percentages of
    empty sets are omitted.

    Args:
        trained: logits of the training images, not augmented, and the labels that they were trained with.
        true: (N,) true labels.
    """
    labels, predicted = trained.labels, trained.logits.argmax(1)
    entropy = cross_entropies(trained.logits, labels)
    wrong = labels != true
    shares = {
        "noise/fitted": (predicted == labels)[~wrong],
        "noise/memorized": (predicted == labels)[wrong],
        "noise/recovered": (predicted == true)[wrong],
    }
    numbers = {name: 100 * float(share.double().mean()) for name, share in shares.items() if len(share)}
    if wrong.any() and not wrong.all():
        numbers["noise/told"] = 100 * detection(entropy[wrong], entropy[~wrong]).auroc
    return numbers, {"predicted": predicted, "entropy": entropy}


def evaluate_label_noise(folder: RunFolder) -> dict[str, Any]:
    """Measure which wrong labels a finished run memorized, and whether its loss separates them.

    Writes the numbers, and the predicted class and cross-entropy of each training image.
    """
    fabric, recipe, model = reopen(folder)
    stored = folder.outputs("noise")
    if stored is None:
        raise OptionError(
            f"{folder.path} was trained without label noise, so there is nothing to measure: choose a run of table 3, "
            "or train with label noise (docs/noise.md)."
        )
    part = recipe.data.load(recipe.seed).train
    rows, labels = (torch.from_numpy(stored[name]) for name in ("train/rows", "train/labels"))
    if not torch.equal(rows, part.rows):
        raise FolderError(
            f"{folder.path} was trained on other images than the current copy of {recipe.data.name}: restore the data "
            "that it was trained on."
        )
    noisy = replace(part, labels=part.labels.scatter(0, rows, labels.to(part.labels)))
    numbers, arrays = label_noise(predictions(fabric, recipe, model, noisy), part.labels[rows])
    content = {"numbers": numbers, "commit": commit()}
    folder.write_measure("noise", content, {name: values.numpy() for name, values in arrays.items()})
    return numbers
