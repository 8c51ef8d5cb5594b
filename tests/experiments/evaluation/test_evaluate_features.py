"""Features and predictions of a run: references by NumPy, repeated evaluation, and usage errors."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from _tiny_runs import TINY, write_tiny_runs
from opl.errors import DamagedError, OptionError
from opl.experiments import cli
from opl.experiments.data import Cifar100
from opl.experiments.data.split import stratified_rows
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model
from opl.experiments.training.validation import FEATURE_ROWS, validate
from opl.experiments.types import Batch, Output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_runs(tmp_path_factory.mktemp("runs"))


def features_of(result, recipe):
    """Return features, labels, logits and pixels of the test images, computed without `Batches`."""
    model = build_model(recipe)
    model.load_state_dict(result.weights())
    test = recipe.data.load(recipe.seed).test
    pixels, labels = test.take(torch.arange(len(test)))
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        features, logits = model.eval()((pixels.float() / 255 - mean) / std)
    return features.numpy(), labels.numpy(), logits, pixels


def test_stored_arrays_equal_the_predictions_of_the_model(folder):
    result = RunFolder.of(folder, "cifar100-resnet56-opl", 1)
    arrays = result.outputs()
    features, labels, logits, pixels = features_of(result, replace(TINY["opl"], seed=1))
    assert (arrays["labels"] == labels).all()
    p = torch.softmax(logits, 1).numpy()
    assert (arrays["top5"][:, 0] == p.argmax(1)).mean() > 0.99  # a tie may fall either way
    np.testing.assert_allclose(arrays["p5"][:, 0], p.max(1), atol=2e-3)
    assert (np.diff(arrays["p5"].astype(float), axis=1) <= 0).all()
    np.testing.assert_allclose(arrays["features"], features, atol=2e-3, rtol=2e-3)
    pictures = arrays["pixels"]
    assert (pictures == pixels[: len(pictures)].permute(0, 2, 3, 1).numpy()).all()
    there = np.unique(labels)
    means = np.stack([features[labels == label].mean(0) for label in there])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(arrays["similarity"][np.ix_(there, there)], units @ units.T, atol=1e-4)


def test_repeated_evaluation_writes_equal_arrays(folder, capfd):
    result = RunFolder.of(folder, "cifar100-resnet56-ce", 0)
    before = result.outputs()
    (result.path / "test.npz").write_bytes(b"broken")
    with pytest.raises(DamagedError, match=r"test.npz is not what the run wrote"):
        result.outputs()
    assert cli.main(["evaluate", str(result.path), "geometry"]) == 0
    numbers = json.loads(capfd.readouterr().out)
    assert numbers["images"] == len(before["labels"])
    after = result.outputs()
    for name, value in before.items():
        np.testing.assert_allclose(after[name].astype(float), value.astype(float), atol=2e-3)


def test_usage_errors_are_one_sentence(folder, tmp_path, capfd):
    assert cli.main(["evaluate", str(tmp_path / "nowhere"), "geometry"]) == 2
    assert "not a finished run" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder / "cifar100-resnet56-ce" / "seed-0"), "novel"]) == 2
    assert "novel classes" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder), "horoscope"]) == 2
    assert "protocol 'horoscope' does not exist" in capfd.readouterr().err
    assert cli.main(["evaluate", str(folder), "geometry", "--nonsense"]) == 2
    assert "--nonsense" in capfd.readouterr().err
    with pytest.raises(OptionError, match="none is novel"):
        Cifar100().novel_classes()
    with pytest.raises(OptionError, match="not in 'val'"):
        Cifar100(classes=20).novel_classes("val")


class Embedding(nn.Module):
    """Features are looked up by pixel values; the logits are not used."""

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
def test_s_and_d_do_not_depend_on_the_order_of_images(order):
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
    result = validate(model, batches, classes, keep=True, novel=True)
    s, d = by_numpy(features.astype(np.float64), labels)
    assert result.numbers["s"] == pytest.approx(s, abs=1e-6)
    assert result.numbers["d"] == pytest.approx(d, abs=1e-6)
    kept = result.arrays["feature_rows"]
    assert len(kept) == len(result.arrays["features"]) == FEATURE_ROWS
    assert np.bincount(labels[kept]).tolist() == [FEATURE_ROWS // classes] * classes
    np.testing.assert_allclose(result.arrays["features"], features[kept], rtol=1e-3)


def test_stratified_sample_has_all_of_small_classes_and_equal_shares_of_others():
    labels = torch.tensor([0] * 50 + [1] * 3 + [2] * 40)
    rows = stratified_rows(labels, 23)
    assert labels[rows].bincount().tolist() == [10, 3, 10]
    assert rows.tolist() == sorted(rows.tolist())
    assert stratified_rows(labels, 100).tolist() == list(range(93))
    assert labels[stratified_rows(labels, 2)].tolist() == [0, 1]
