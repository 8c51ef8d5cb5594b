"""`opl evaluate RUN geometry` covers all images of all classes, whatever their order in the file."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from opl.experiments.data import Synthetic
from opl.experiments.data.split import stratified_rows
from opl.experiments.training.validation import FEATURE_ROWS, validate
from opl.experiments.types import Batch, Output


class Embedding(nn.Module):
    """Features that are looked up by the pixel values, and logits that nobody needs."""

    def __init__(self, features: torch.Tensor) -> None:
        super().__init__()
        self.features = nn.Parameter(features)

    def forward(self, images):
        rows = images.flatten().long()
        return Output(self.features[rows], self.features[rows][:, :5])


def by_numpy(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """s and d over all pairs, by the full matrix of cosines, some rows at a time."""
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    same = other = same_pairs = other_pairs = 0.0
    for start in range(0, len(units), 1000):
        cosines = units[start : start + 1000] @ units.T
        alike = labels[start : start + 1000, None] == labels
        itself = np.arange(start, min(start + 1000, len(units)))
        same += cosines[alike].sum() - cosines[np.arange(len(itself)), itself].sum()
        other += cosines[~alike].sum()
        same_pairs += alike.sum() - len(itself)
        other_pairs += (~alike).sum()
    return same / same_pairs, abs(other / other_pairs)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_s_and_d_are_those_of_all_images_in_any_order(order):
    chance = np.random.default_rng(0)
    classes, images = 16, 12_800
    labels = np.sort(np.arange(images) % classes)
    if order == "shuffled":
        chance.shuffle(labels)
    centers = chance.random((classes, 8)) * np.linspace(0.2, 3, classes)[:, None]
    features = (centers[labels] + 0.3 * chance.random((images, 8))).astype(np.float32)
    model = Embedding(torch.from_numpy(features))
    rows = torch.arange(images)
    batches = [
        Batch(part.float().view(-1, 1, 1, 1), torch.from_numpy(labels)[part], part, 1 / len(part))
        for part in rows.split(500)
    ]
    found = validate(model, batches, classes, keep=True, novel=True)
    s, d = by_numpy(features.astype(np.float64), labels)
    assert found.numbers["s"] == pytest.approx(s, abs=1e-6)
    assert found.numbers["d"] == pytest.approx(d, abs=1e-6)
    kept = found.arrays["feature_rows"]
    assert len(kept) == len(found.arrays["features"]) == FEATURE_ROWS
    assert np.bincount(labels[kept]).tolist() == [FEATURE_ROWS // classes] * classes
    np.testing.assert_allclose(found.arrays["features"], features[kept], rtol=1e-3)


def test_a_sample_has_all_of_small_classes_and_equally_many_of_the_others():
    labels = torch.tensor([0] * 50 + [1] * 3 + [2] * 40)
    rows = stratified_rows(labels, 23)
    assert labels[rows].bincount().tolist() == [10, 3, 10]
    assert rows.tolist() == sorted(rows.tolist())
    assert stratified_rows(labels, 100).tolist() == list(range(93))
    assert labels[stratified_rows(labels, 2)].tolist() == [0, 1]


@dataclass(frozen=True)
class SortedDigits(Synthetic):
    """The synthetic digits, their test images sorted by class."""

    kind: ClassVar[str] = "sorted"

    def load(self, seed: int):
        splits = super().load(seed)
        rows = splits.test.rows
        return splits._replace(test=replace(splits.test, rows=rows[splits.test.labels[rows].argsort(stable=True)]))


def test_pictures_are_of_all_classes_of_a_sorted_file():
    from opl.experiments.training.validation import pictures

    part = SortedDigits(like="cifar10", test=4000).load(0).test
    kept = pictures(part)
    assert kept["pixels"].nbytes <= 600_000
    labels = part.labels[part.rows][torch.from_numpy(kept["pixel_rows"]).long()]
    assert len(labels.unique()) == 10
