"""Memorized and recovered wrong labels vs a loop over images and scikit-learn."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from opl.experiments import cli, paper
from opl.experiments.data import NoiseMatrix, UniformNoise
from opl.experiments.evaluation.label_noise import label_noise
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.training.validation import Predictions


def predictions(logits, labels):
    return Predictions(logits, logits, labels)


@pytest.mark.parametrize("seed", range(5))
def test_shares_equal_a_loop_and_the_auroc_equals_scikit_learn(seed):
    chance = torch.Generator().manual_seed(seed)
    true = torch.randint(4, (37,), generator=chance)
    given = torch.where(torch.rand(37, generator=chance) < 0.4, torch.randint(4, (37,), generator=chance), true)
    logits = torch.randint(3, (37, 4), generator=chance).float()  # many ties
    numbers, arrays = label_noise(predictions(logits, given), true)
    outcomes = {"fitted": [], "memorized": [], "recovered": []}
    losses = []
    for row in range(37):
        answer = max(range(4), key=lambda c: (logits[row, c].item(), -c))
        chances = np.exp(logits[row].double().numpy())
        losses.append(-np.log(chances[given[row]] / chances.sum()))
        if given[row] == true[row]:
            outcomes["fitted"].append(answer == given[row])
        else:
            outcomes["memorized"].append(answer == given[row])
            outcomes["recovered"].append(answer == true[row])
    expected = {f"noise/{name}": 100 * np.mean(result) for name, result in outcomes.items()}
    expected["noise/told"] = 100 * roc_auc_score((given != true).numpy(), arrays["entropy"].numpy())
    assert numbers == pytest.approx(expected)
    np.testing.assert_allclose(arrays["entropy"], losses, rtol=1e-6)


def test_percentages_of_empty_sets_are_omitted():
    true = torch.tensor([0, 1])
    assert label_noise(predictions(torch.eye(2), true), true)[0] == {"noise/fitted": 100.0}
    wrong = label_noise(predictions(torch.eye(2), 1 - true), true)[0]
    assert wrong == {"noise/memorized": 0.0, "noise/recovered": 100.0}


def test_command_uses_the_labels_that_the_run_was_trained_on(tmp_path, capfd):
    file = tmp_path / "matrix.json"
    file.write_text(json.dumps(UniformNoise(0.4).matrix(tuple("0123456789")).tolist()))
    recipe = paper.recipe("digits-ce", "small")
    run(replace(recipe, epochs=3, noise=NoiseMatrix(str(file))), tmp_path)
    file.unlink()
    folder = RunFolder.of(tmp_path, recipe.name, 0)
    assert cli.main(["evaluate", str(folder.path), "noise"]) == 0
    printed = json.loads(capfd.readouterr().out)
    train = recipe.data.load(0).train
    given = torch.from_numpy(folder.outputs("noise")["train/labels"])
    model = finished_model(folder).eval()
    pixels = train.pixels[train.rows].float() / 255
    mean, std = (torch.tensor(numbers).view(1, -1, 1, 1) for numbers in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        answers = model((pixels - mean) / std).logits.argmax(1)
    wrong = given != train.labels[train.rows]
    assert printed["noise/memorized"] == pytest.approx(100 * (answers == given)[wrong].float().mean().item(), abs=0.5)
    assert printed["noise/fitted"] == pytest.approx(100 * (answers == given)[~wrong].float().mean().item(), abs=0.5)
    assert folder.result()["noise/told"] == printed["noise/told"] > 60
    assert len(folder.outputs("measures/noise")["entropy"]) == len(train)


def test_run_without_label_noise_is_a_usage_error(tmp_path, capfd):
    recipe = paper.recipe("digits-ce", "tiny")
    run(recipe, tmp_path)
    assert cli.main(["evaluate", str(tmp_path / recipe.name / "seed-0"), "noise"]) == 2
    assert "without label noise" in capfd.readouterr().err
