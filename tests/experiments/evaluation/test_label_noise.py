"""What became of wrong labels, against a loop over images and against scikit-learn."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

from opl.experiments import cli, paper
from opl.experiments.data import NoiseMatrix, UniformNoise
from opl.experiments.evaluation.label_noise import label_noise, probability_larger
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import finished_model
from opl.experiments.training.run import run
from opl.experiments.types import Batch, Output


class Table(nn.Module):
    """Its logits are written down: the image holds the row to look up."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, images):
        logits = self.logits[images.flatten().long()]
        return Output(logits, logits)


def batches(given, size):
    for rows in torch.arange(len(given)).split(size):
        yield Batch(rows.float().view(-1, 1, 1, 1), given[rows], rows, 1 / len(rows))


@pytest.mark.parametrize("seed", range(5))
def test_shares_are_those_of_a_loop_and_the_area_is_scikit_learns(seed):
    chance = torch.Generator().manual_seed(seed)
    true = torch.randint(4, (37,), generator=chance)
    given = torch.where(torch.rand(37, generator=chance) < 0.4, torch.randint(4, (37,), generator=chance), true)
    logits = torch.randint(3, (37, 4), generator=chance).float()  # many ties
    numbers, each = label_noise(Table(logits).train(), batches(given, 10), true)
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
    expected = {f"noise/{name}": 100 * np.mean(found) for name, found in outcomes.items()}
    expected["noise/told"] = 100 * roc_auc_score((given != true).numpy(), each["entropy"].numpy())
    assert numbers == pytest.approx(expected)
    np.testing.assert_allclose(each["entropy"], losses, rtol=1e-6)


def test_shares_of_nothing_are_left_out():
    true = torch.tensor([0, 1])
    model = Table(torch.eye(2))
    assert label_noise(model, batches(true, 2), true)[0] == {"noise/fitted": 100.0}
    assert label_noise(model, batches(1 - true, 2), true)[0] == {"noise/memorized": 0.0, "noise/recovered": 100.0}
    assert model.training


def test_equal_ones_count_half_as_in_all_pairs():
    these, those = torch.tensor([1.0, 2.0, 2.0, 5.0]), torch.tensor([2.0, 0.0, 5.0])
    by_hand = np.mean([float(a > b) + 0.5 * float(a == b) for a in these for b in those])
    assert probability_larger(these, those) == pytest.approx(by_hand)


def test_the_command_measures_a_run_with_the_labels_that_it_was_trained_on(tmp_path, capfd):
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
    mean, std = (torch.tensor(each).view(1, -1, 1, 1) for each in (recipe.data.mean, recipe.data.std))
    with torch.no_grad():
        answers = model((pixels - mean) / std).logits.argmax(1)
    wrong = given != train.labels[train.rows]
    assert printed["noise/memorized"] == pytest.approx(100 * (answers == given)[wrong].float().mean().item(), abs=0.5)
    assert printed["noise/fitted"] == pytest.approx(100 * (answers == given)[~wrong].float().mean().item(), abs=0.5)
    assert folder.result()["noise/told"] == printed["noise/told"] > 60
    assert len(folder.outputs("measures/noise")["entropy"]) == len(train)


def test_a_run_without_wrong_labels_gets_a_sentence_and_code_2(tmp_path, capfd):
    recipe = paper.recipe("digits-ce", "tiny")
    run(recipe, tmp_path)
    assert cli.main(["evaluate", str(tmp_path / recipe.name / "seed-0"), "noise"]) == 2
    assert "without label noise" in capfd.readouterr().err
