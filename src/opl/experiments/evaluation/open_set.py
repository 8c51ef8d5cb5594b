"""Detection of images outside of a run's classes: other data sets, folders of images, and held-out classes.

Inliers are the run's test images, outliers the images of another data set, resized as `protocols.RESIZING` says. Every
score is higher for inliers. Scores that compare with training images use at most 10,000 of them, a stratified sample,
without augmentation.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import OptionError
from ...geometry import detection
from ..data.split import stratified_rows
from ..models import Network
from ..run_folder import RunFolder
from ..training.progress import task_bars
from ..training.validation import FEATURE_ROWS, Predictions
from .features import default_outside, outside_images, predictions, reopen, write_numbers
from .protocols import OpenSet

ROWS = 1000  # images whose similarities to all training images are computed together


def evaluate_open_set(folder: RunFolder, settings: Sequence[OpenSet]) -> dict[str, Any]:
    """Return AUROC, FPR95 and AUPR in percent of each score on each data set; write them with all scores."""
    fabric, recipe, model = reopen(folder)
    splits = recipe.data.load(recipe.seed)
    if not len(splits.test):
        raise OptionError(f"{recipe.name} has no test images as inliers: choose a run that holds out test images.")
    if settings[0].outside == "default":
        settings = [replace(settings[0], outside=name) for name in default_outside(recipe)]
    labels = splits.train.labels[splits.train.rows]
    sample = replace(splits.train, rows=splits.train.rows[stratified_rows(labels, FEATURE_ROWS)])
    known = predictions(fabric, recipe, model, sample)
    inliers = predictions(fabric, recipe, model, splits.test)
    numbers: dict[str, Any] = {}
    with task_bars() as watch:
        for index, protocol in enumerate(settings):
            scorer = Scorer(known, model, protocol.neighbors)
            inside = scorer(inliers)
            part = outside_images(recipe, protocol.outside, protocol.images, protocol.seed)
            outside = scorer(predictions(fabric, recipe, model, part))
            results = {name: detection(inside[name], outside[name]) for name in inside}
            values = {
                f"{protocol.metric}/{name}/{measure}": 100 * value
                for name, result in results.items()
                for measure, value in result._asdict().items()
            }
            arrays = {f"in/{name}": score.float().numpy() for name, score in inside.items()}
            arrays |= {f"out/{name}": score.float().numpy() for name, score in outside.items()}
            write_numbers(folder, protocol.metric, values, protocol, arrays, outliers=len(part))
            numbers |= values
            watch("data sets", index + 1, len(settings))
    return numbers


class Scorer:
    """Seven scores of how much an image looks like the training images.

    - `msp`: the largest softmax probability.
    - `max_logit`: the largest logit.
    - `energy`: log-sum-exp of the logits.
    - `knn`: cosine similarity to the k-th nearest training image.
    - `cosine`: largest cosine similarity to a class mean of the unit training features.
    - `mahalanobis`: minus the smallest squared Mahalanobis distance to a class mean, with a shared covariance.
    - `vim`: energy minus a multiple of the feature's length outside of the principal subspace (virtual-logit matching).

    Args:
        known: features, logits and labels of training images.
        model: its linear classifier defines the origin of the principal subspace; without one, the mean feature does.
        neighbors: k of `knn`.
    """

    def __init__(self, known: Predictions, model: Network, neighbors: int) -> None:
        x, ids = known.features.double(), torch.unique(known.labels, return_inverse=True)[1]
        members = F.one_hot(ids).T.to(x)
        members = members / members.sum(1, keepdim=True)
        self.units, self.neighbors = F.normalize(known.features, dim=1), min(neighbors, len(x))
        self.prototypes = F.normalize(members @ F.normalize(x, dim=1), dim=1)
        self.means = members @ x
        within = x - self.means[ids]
        self.precision = torch.linalg.pinv(within.T @ within / len(x), hermitian=True)
        self.origin = _origin(model, x)
        self.residual = _residual_space(x - self.origin)
        length = self._residual_length(x).mean()
        self.alpha = known.logits.double().amax(1).mean() / length if length > 0 else torch.zeros(())

    def __call__(self, images: Predictions) -> dict[str, Tensor]:
        """Return the (N,) scores by name."""
        logits, x = images.logits.double(), images.features.double()
        directions = F.normalize(images.features, dim=1)
        nearest = [
            (block @ self.units.T).topk(self.neighbors, dim=1).values[:, -1] for block in torch.split(directions, ROWS)
        ]
        energy = logits.logsumexp(1)
        x_precision, means_precision = x @ self.precision, self.means @ self.precision
        crossed = 2 * x_precision @ self.means.T
        distances = (x_precision * x).sum(1, keepdim=True) - crossed + (means_precision * self.means).sum(1)
        return {
            "msp": logits.softmax(1).amax(1),
            "max_logit": logits.amax(1),
            "energy": energy,
            "knn": torch.cat(nearest),
            "cosine": (F.normalize(x, dim=1) @ self.prototypes.T).amax(1),
            "mahalanobis": -distances.amin(1),
            "vim": energy - self.alpha * self._residual_length(x),
        }

    def _residual_length(self, x: Tensor) -> Tensor:
        length: Tensor = torch.linalg.vector_norm((x - self.origin) @ self.residual, dim=1)
        return length


def _origin(model: Network, x: Tensor) -> Tensor:
    """Return the feature whose logits are closest to 0, or the mean feature if the classifier is not linear."""
    if not isinstance(model.fc, nn.Linear) or model.fc.weight.shape[1] != x.shape[1]:
        return x.mean(0)
    weight = model.fc.weight.detach().cpu().double()
    bias = model.fc.bias.detach().cpu().double() if model.fc.bias is not None else weight.new_zeros(len(weight))
    origin: Tensor = -torch.linalg.pinv(weight) @ bias
    return origin


def _residual_space(x: Tensor) -> Tensor:
    """Return (D, D - P) directions beyond the P principal ones; P is 1,000, 512 or half of D, as published."""
    dim = x.shape[1]
    principal = 1000 if dim >= 2048 else 512 if dim >= 768 else dim // 2
    directions: Tensor = torch.linalg.eigh(x.T @ x).eigenvectors  # of ascending eigenvalues
    return directions[:, : dim - principal]
