"""Chance in a run is a function of its step, and not that of the caller."""

from dataclasses import replace

import torch

from opl.experiments import paper
from opl.experiments.methods import OPL, Rotations
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run

TINY = paper.recipe("cifar-fs-rfs-opl", "tiny")


def test_dropout_and_dropblock_are_functions_of_the_step(tmp_path, stopped):
    method = Rotations(auxiliary=(OPL(),))
    recipe = replace(TINY, method=method, epochs=3, model=replace(TINY.model, drop=0.3, ramp=6))
    run(recipe, tmp_path / "whole")

    torch.manual_seed(123)
    stopped(recipe, tmp_path / "broken", 2)
    torch.manual_seed(456)
    run(recipe, tmp_path / "broken")
    run(replace(recipe, eval_every=3), tmp_path / "rarely")  # evaluation changes nothing
    whole, broken, rarely = (
        RunFolder.of(tmp_path / name, recipe.name, 0).path for name in ("whole", "broken", "rarely")
    )
    wanted = (whole / "model.safetensors").read_bytes()
    assert (broken / "model.safetensors").read_bytes() == wanted
    assert (rarely / "model.safetensors").read_bytes() == wanted
    other = replace(recipe, model=replace(recipe.model, drop=0.0))
    run(other, tmp_path / "other")
    assert (RunFolder.of(tmp_path / "other", recipe.name, 0).path / "model.safetensors").read_bytes() != wanted


def test_training_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run(TINY, tmp_path)
    torch.testing.assert_close(torch.rand(3), expected)
