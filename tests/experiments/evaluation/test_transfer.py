"""Transfer to novel classes: retrieval and episodes vs scikit-learn on the features of a finished run."""

import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from torch.nn import functional as F

from opl.experiments import cli, paper
from opl.experiments.data.episode_sampling import Episodes
from opl.experiments.evaluation.episodes import feature_accuracies
from opl.experiments.evaluation.protocols import FewShot
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run


def test_episodes_on_features_equal_a_loop_with_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(140) % 7
    features = torch.randn(7, 6, generator=generator)[labels] + torch.randn(140, 6, generator=generator)
    settings = FewShot(shot=2, copies=1, queries=10, episodes=8, seed=3)
    accuracies = feature_accuracies(features, labels, settings)
    units = F.normalize(features, dim=1).double().numpy()
    episodes = Episodes(labels, way=5, shot=2, queries=10, episodes=8, seed=3, copies=1, views=5)
    for accuracy, episode in zip(accuracies.tolist(), map(episodes.__getitem__, range(8)), strict=True):
        truth = np.arange(5)
        model = LogisticRegression(tol=1e-8, max_iter=1000)
        model.fit(units[episode.support.flatten()], truth.repeat(2))
        assert accuracy == pytest.approx(100 * model.score(units[episode.queries.flatten()], truth.repeat(10)))


def test_command_measures_novel_classes_of_a_run(tmp_path, capfd):
    recipe = paper.recipe("cifar-fs-rfs", "tiny")
    run(recipe, tmp_path)
    folder = RunFolder.of(tmp_path, recipe.name, 0)
    argv = ["evaluate", str(folder.path)]
    assert cli.main([*argv, "transfer", "--target", "novel", "--episodes", "20"]) == 0
    numbers = json.loads(capfd.readouterr().out)
    part, _ = recipe.data.novel_classes()
    pixels, labels = part.take(torch.arange(len(part)))
    mean, std = (torch.tensor(values)[:, None, None] for values in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        features = finished_model(folder).eval()((pixels.float() / 255 - mean) / std).features
    nearest = NearestNeighbors(n_neighbors=2, metric="cosine").fit(features).kneighbors(features)[1][:, 1]
    expected = 100 * (labels[nearest] == labels).double().mean().item()
    assert numbers["transfer/novel/recall_at_1"] == pytest.approx(expected, abs=1)
    accuracies = folder.measure_arrays("transfer-novel")["5-shot"]
    assert numbers["transfer/novel/5-way-5-shot"] == pytest.approx(accuracies.mean(), rel=1e-5)
    assert folder.result()["transfer/novel/map_at_r"] == numbers["transfer/novel/map_at_r"]
    assert cli.main([*argv, "open-set"]) == 0  # novel classes are the default
    assert "open-set/novel/energy/auroc" in json.loads(capfd.readouterr().out)
