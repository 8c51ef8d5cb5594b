"""Finished runs with real weights, that were never trained: for the tests of what others get of a run."""

from dataclasses import replace
from pathlib import Path

from safetensors.torch import save

from _finished_runs import write_finished
from opl.experiments import paper
from opl.experiments.models import ResNet
from opl.experiments.recipe import Recipe
from opl.experiments.settings import to_json
from opl.experiments.training.build import build_model

DIGITS = paper.recipe("digits-ce", "small")
CUSTOM = replace(
    DIGITS, model=ResNet(depth=10, stem="cifar", width=8), epochs=1, scale="custom", changes=("epochs 1 (recipe: 40)",)
)
"""A run with settings of its own, and batch norms."""


def write_untrained(out: Path, recipe: Recipe = DIGITS, top1: float = 97.0, **more) -> Path:
    """A finished run with the weights that its recipe starts from; `more` as for `write_finished`."""
    weights = {name: value.contiguous() for name, value in build_model(recipe).state_dict().items()}
    settings, place = to_json(recipe), {"scale": recipe.scale, "weights": save(weights)}
    return write_finished(out, recipe.name, recipe.seed, top1, **{**place, "recipe": settings, **more})


def write_rows(out: Path, gains=(1.0, 1.5, 2.0)) -> Path:
    """Three seeds of CE at 95, 96 and 97 %, and of CE+OPL with these gains; returns OPL's seed 1."""
    for seed, gain in enumerate(gains):
        for name, top1 in (("digits-ce", 95.0 + seed), ("digits-opl", 95.0 + seed + gain)):
            write_untrained(out, replace(paper.recipe(name, "small"), seed=seed), top1)
    return out / "digits-opl" / "seed-1"
