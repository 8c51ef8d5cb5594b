"""Runs on wrong labels: recorded, the same for every method, never tested on, and refused in one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from _vouched import vouch
from opl.errors import FolderError
from opl.experiments import cli, paper
from opl.experiments.data import NoiseMatrix, UniformNoise
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json
from opl.experiments.training.run import run


def tiny(name, **changes):
    return replace(paper.recipe(f"cifar100-noisy-{name}", "tiny"), epochs=1, **changes)


def test_every_variant_of_a_seed_sees_the_same_labels_and_the_folder_tells_them(tmp_path):
    for seed in (0, 1):
        arrays, facts = [], []
        for name in ("uniform-ce", "uniform-tl-opl-left-out"):
            result = run(tiny(name, seed=seed), tmp_path)
            folder = RunFolder.of(tmp_path, f"cifar100-noisy-{name}", seed)
            arrays.append(folder.outputs("noise"))
            facts.append(folder.noise())
            assert result["noise/train"] == facts[-1]["rates"]["train"]
            assert result["noise/val"] == facts[-1]["rates"]["val"]
        assert facts[0] == facts[1]
        assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
        splits = tiny("uniform-ce").data.load(seed)
        clean = splits.train.labels[splits.train.rows].numpy()
        assert ((arrays[0]["train/labels"] != clean) == arrays[0]["train/wrong"]).all()
        assert facts[0]["rates"]["train"] == (arrays[0]["train/labels"] != clean).mean()
        np.testing.assert_allclose(facts[0]["matrix"], UniformNoise(0.4).matrix(splits.class_names))
    first, second = (RunFolder.of(tmp_path, "cifar100-noisy-uniform-ce", seed).outputs("noise") for seed in (0, 1))
    assert not np.array_equal(first["train/labels"], second["train/labels"])


def test_the_network_is_trained_on_the_wrong_labels_and_tested_on_the_right_ones(tmp_path):
    wrong = tmp_path / "all-wrong.json"  # every label is the next class
    wrong.write_text(json.dumps(torch.eye(10).roll(1, dims=1).tolist()))
    recipe = paper.recipe("digits-ce", "small")
    data = replace(recipe.data, val=100)
    result = run(replace(recipe, data=data, epochs=12, noise=NoiseMatrix(str(wrong))), tmp_path)
    assert result["noise/train"] == 1.0
    assert result["val/top1"] > 70
    assert result["test/top1"] < 10
    actual = RunFolder.of(tmp_path, recipe.name, 0).outputs()
    assert ((actual["labels"] + 1) % 10 == actual["top5"][:, 0]).mean() > 0.7


def test_a_run_is_not_resumed_with_a_different_noise_matrix(tmp_path):
    file = tmp_path / "matrix.json"
    recipe = tiny("uniform-ce", noise=NoiseMatrix(str(file)))
    file.write_text(json.dumps(torch.eye(10).tolist()))
    folder = RunFolder.of(tmp_path, recipe.name, 0)
    run(recipe, tmp_path)
    (folder.path / "done").unlink()
    vouch(folder.path, done=False)
    file.write_text(json.dumps(torch.eye(10).roll(1, dims=1).tolist()))
    with pytest.raises(FolderError, match="another noise matrix"):
        run(recipe, tmp_path)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--noise.rate", "1.0"], "rate is 1.0"),
        (["--noise.rate", "-0.2"], "rate is -0.2"),
        (["--data.classes", "6"], "only selected class of its superclass"),
        (["--data.val", "0"], "--data.val"),
        (["--method.start", "0"], "start is 0"),
    ],
)
def test_usage_errors_are_one_sentence_and_code_2(argv, sentence, tmp_path, capfd):
    assert cli.main(["train", "cifar100-noisy-class-tl", "--scale", "tiny", "--out", str(tmp_path), *argv]) == 2
    printed = capfd.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1


def test_a_missing_file_is_one_sentence_and_code_2(tmp_path, capfd):
    recipe = tiny("uniform-ce", noise=NoiseMatrix("/nowhere/m.npy"))
    (tmp_path / "recipe.json").write_text(json.dumps({"recipe": to_json(recipe)}))
    assert cli.main(["train", "--recipe", str(tmp_path / "recipe.json"), "--out", str(tmp_path)]) == 2
    assert "'/nowhere/m.npy' cannot be read" in capfd.readouterr().err
