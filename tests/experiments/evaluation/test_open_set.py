"""Open-set detection: scores vs scikit-learn and NumPy, images of other data sets, and finished runs."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import NearestNeighbors
from torch import nn

from opl.errors import OplWarning, OptionError
from opl.experiments import cli, paper
from opl.experiments.evaluation import features as module
from opl.experiments.evaluation.features import default_outside, outside_images
from opl.experiments.evaluation.open_set import Scorer
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run
from opl.experiments.training.validation import Predictions

CLASSES, DIM = 4, 10


@pytest.fixture(scope="module")
def scored():
    """A linear classifier, training images, and images to score."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Module()
    model.fc = nn.Linear(DIM, CLASSES)
    labels = torch.arange(200) % CLASSES
    centers = 2 * torch.randn(CLASSES, DIM, generator=generator)
    known = (centers[labels] + torch.randn(200, DIM, generator=generator)).relu()
    images = torch.randn(50, DIM, generator=generator).relu()
    with torch.no_grad():
        model.fc.weight.copy_(torch.randn(CLASSES, DIM, generator=generator))
        train, test = (Predictions(x, model.fc(x), torch.zeros(len(x))) for x in (known, images))
    train = train._replace(labels=labels)
    return model, train, test, Scorer(train, model, neighbors=5)(test)


def test_scores_of_logits_equal_their_definitions(scored):
    _, _, test, scores = scored
    logits = test.logits.double().numpy()
    exponentials = np.exp(logits)
    np.testing.assert_allclose(scores["msp"], exponentials.max(1) / exponentials.sum(1), rtol=1e-9)
    np.testing.assert_allclose(scores["max_logit"], logits.max(1), rtol=1e-9)
    np.testing.assert_allclose(scores["energy"], np.log(exponentials.sum(1)), rtol=1e-9)


def test_scores_of_neighbors_and_prototypes_equal_scikit_learn(scored):
    _, train, test, scores = scored
    distances, _ = NearestNeighbors(n_neighbors=5, metric="cosine").fit(train.features).kneighbors(test.features)
    np.testing.assert_allclose(scores["knn"], 1 - distances[:, -1], atol=1e-5)
    x, ids = train.features.numpy(), train.labels.numpy()
    units = x / np.linalg.norm(x, axis=1, keepdims=True)
    means = np.stack([units[ids == label].mean(0) for label in range(CLASSES)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    queries = test.features.numpy() / np.linalg.norm(test.features.numpy(), axis=1, keepdims=True)
    np.testing.assert_allclose(scores["cosine"], (queries @ means.T).max(1), atol=1e-5)


def test_mahalanobis_distance_equals_scikit_learn(scored):
    _, train, test, scores = scored
    x, ids = train.features.double().numpy(), train.labels.numpy()
    means = np.stack([x[ids == label].mean(0) for label in range(CLASSES)])
    covariance = EmpiricalCovariance(assume_centered=True).fit(x - means[ids])
    expected = [covariance.mahalanobis(test.features.double().numpy() - mean) for mean in means]
    np.testing.assert_allclose(scores["mahalanobis"], -np.min(expected, axis=0), rtol=1e-6)


def test_vim_equals_its_definition_in_numpy(scored):
    model, train, test, scores = scored
    weight, bias = (value.detach().double().numpy() for value in (model.fc.weight, model.fc.bias))
    origin = -np.linalg.pinv(weight) @ bias
    x = train.features.double().numpy() - origin
    values, vectors = np.linalg.eigh(x.T @ x)
    residual = vectors[:, np.argsort(values)[: DIM - DIM // 2]]
    alpha = train.logits.double().numpy().max(1).mean() / np.linalg.norm(x @ residual, axis=1).mean()
    length = np.linalg.norm((test.features.double().numpy() - origin) @ residual, axis=1)
    np.testing.assert_allclose(scores["vim"], scores["energy"].numpy() - alpha * length, rtol=1e-6)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    recipe = replace(paper.recipe("digits-ce", "small"), epochs=3)
    run(recipe, out)
    return RunFolder.of(out, recipe.name, 0), recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Color images of 40 x 30 pixels in two classes, each of one color."""
    root = tmp_path_factory.mktemp("images")
    for index, name in enumerate(("red", "blue")):
        (root / name).mkdir()
        for number in range(25):
            color = (250, 10, number) if index == 0 else (number, 10, 250)
            Image.new("RGB", (40, 30), color).save(root / name / f"{number}.png")
    return root


def test_images_of_a_folder_have_the_size_and_channels_of_the_run(digits, folder):
    _, recipe = digits
    images = outside_images(recipe, str(folder))
    assert images.pixels.shape == (50, 1, 8, 8)
    assert images.pixels.dtype == torch.uint8
    red = 0.299 * 250 + 0.587 * 10
    brightest = images.pixels.flatten(1).float().mean(1)
    assert brightest.max().item() == pytest.approx(red + 0.114 * 24, abs=1.5)
    assert sorted(images.labels.unique().tolist()) == [0, 1]
    few = outside_images(recipe, str(folder), 7)
    assert len(few) == 7
    assert torch.equal(few.pixels, outside_images(recipe, str(folder), 7).pixels)
    assert not torch.equal(few.pixels, outside_images(recipe, str(folder), 7, seed=1).pixels)


def test_command_detects_images_of_a_folder_and_not_the_test_images_themselves(digits, folder, capfd):
    run_folder, _ = digits
    argv = ["evaluate", str(run_folder.path), "open-set", "--outside", "digits", str(folder)]
    assert cli.main(argv) == 0
    printed = capfd.readouterr()
    numbers = json.loads(printed.out)
    assert "resized" in printed.err
    assert max(map(len, printed.err.splitlines())) < 100
    name = folder.name
    for score in ("msp", "max_logit", "energy", "knn", "cosine", "mahalanobis", "vim"):
        assert numbers[f"open-set/digits/{score}/auroc"] == pytest.approx(50, abs=1e-9)
        arrays = run_folder.measure_arrays(f"open-set-{name}")
        inside, outside = arrays[f"in/{score}"], arrays[f"out/{score}"]
        wins = (inside[:, None] > outside).mean() + (inside[:, None] == outside).mean() / 2
        assert numbers[f"open-set/{name}/{score}/auroc"] == pytest.approx(100 * wins, abs=1e-3)
    assert numbers[f"open-set/{name}/knn/auroc"] > 80
    assert run_folder.measure(f"open-set-{name}")["outliers"] == 50
    assert run_folder.result()[f"open-set/{name}/knn/fpr95"] == numbers[f"open-set/{name}/knn/fpr95"]


def test_default_data_sets_are_those_on_this_machine(digits, monkeypatch):
    _, recipe = digits
    monkeypatch.setattr(module, "is_here", lambda name: name == "mnist")
    monkeypatch.setattr(module, "_load", lambda recipe, name: recipe.data.novel_classes() if name == "novel" else [])
    assert default_outside(recipe) == ["mnist"]
    monkeypatch.setattr(module, "is_here", lambda name: False)
    with pytest.raises(OptionError, match="name a data set or a folder"):
        default_outside(recipe)


def test_default_data_set_that_cannot_be_read_is_left_out_with_a_warning(digits, monkeypatch):
    from opl.errors import DataError

    def load(recipe, name):
        if name == "novel":
            return recipe.data.novel_classes()
        if name == "mnist":
            raise DataError("the folder is damaged.")
        return []

    _, recipe = digits
    monkeypatch.setattr(module, "is_here", lambda name: True)
    monkeypatch.setattr(module, "_load", load)
    with pytest.warns(OplWarning, match="mnist is left out: the folder is damaged"):
        assert default_outside(recipe) == ["omniglot"]


def test_unknown_data_set_is_a_usage_error(digits, capfd):
    assert cli.main(["evaluate", str(digits[0].path), "open-set", "--outside", "cifar11"]) == 2
    assert "'cifar11' does not exist" in capfd.readouterr().err
