"""Chance in a run is a function of its step, and not that of the caller."""

from dataclasses import replace

import torch

from opl.experiments import paper
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run

TINY = paper.recipe("cifar-fs-rfs-opl", "tiny")


def test_validation_changes_no_weight_and_dropout_does(tmp_path):
    recipe = replace(TINY, epochs=3, model=replace(TINY.model, drop=0.3, ramp=6))
    rarely = replace(recipe, eval_every=3)
    without = replace(recipe, model=replace(TINY.model, drop=0.0))
    files = []
    for name, kind in (("often", recipe), ("rarely", rarely), ("without", without)):
        run(kind, tmp_path / name)
        files.append((RunFolder.of(tmp_path / name, kind.name, 0).path / "model.safetensors").read_bytes())
    assert files[0] == files[1] != files[2]


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(TINY, tmp_path)
    torch.testing.assert_close(torch.rand(3), expected)
