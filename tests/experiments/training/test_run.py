"""Whole runs: every kind of recipe, interrupted and resumed, refused, diverged."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from _digits_methods import DIGITS, METHODS
from opl.errors import DivergedError
from opl.experiments import cli, paper
from opl.experiments.methods import OPL, RSC, AdversarialTraining, Composite, CrossEntropyOPL, OPLVariant, Rotations
from opl.experiments.methods.base import Objective
from opl.experiments.recipe import Recipe
from opl.experiments.run_folder import RunFolder
from opl.experiments.settings import to_json
from opl.experiments.training.build import parse_recipe
from opl.experiments.training.run import run


def tiny(name: str = "digits-opl", **changes) -> Recipe:
    return replace(paper.recipe(name, "tiny"), **changes)


def weights(out: Path, name: str = "digits-opl", seed: int = 0) -> bytes:
    return (RunFolder.of(out, name, seed).path / "model.safetensors").read_bytes()


def kinds(value) -> str:
    """The settings of a recipe without its name and numbers: recipes with equal kinds run the same code."""
    if isinstance(value, dict):
        return str({key: kinds(item) for key, item in value.items() if key not in ("name", "target")})
    return str([kinds(item) for item in value]) if isinstance(value, list) else str(value) * isinstance(value, str)


def chain(name: str) -> list[str]:
    """A recipe, preceded by the recipes that it needs."""
    before = tiny(name).after
    return [*(chain(before) if before else []), name]


def check_run(name: str, out: Path) -> None:
    """Train a recipe, and the recipes that it needs, on synthetic data; the run folder must be complete."""
    for needed in chain(name):
        result = run(tiny(needed), out)
    folder = RunFolder.of(out, name, 0)
    assert folder.done, name
    assert 0 <= result["test/top1"] <= result["test/top5"] <= 100, name
    assert result["scale"] == "tiny", name
    record = folder.metrics()[-1]
    assert {"epoch", "train/loss", "seconds", "images_per_second", "lr"} <= set(record), name
    assert parse_recipe(folder.recipe()) == tiny(name), name


@pytest.mark.parametrize("name", ["digits-opl", "cifar100-noisy-class-tl-opl", "cifar-fs-rfs-opl-distilled"])
def test_a_recipe_runs_on_synthetic_data_and_leaves_a_complete_folder(tmp_path, name):
    check_run(name, tmp_path)


@pytest.mark.slow
def test_every_kind_of_recipe_runs_on_synthetic_data_and_leaves_a_complete_folder(tmp_path):
    names = [name for name in reversed(paper.recipes()) if "tiny" in paper.recipes()[name]]
    different = {kinds(to_json(tiny(name))): name for name in names}.values()
    assert len(different) > 50
    for name in different:
        check_run(name, tmp_path)


def test_equal_recipes_give_equal_bytes_and_seeds_differ(tmp_path):
    for out in ("a", "b"):
        run(tiny(), tmp_path / out)
    run(tiny(seed=1), tmp_path / "a")
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert weights(tmp_path / "a", seed=1) != weights(tmp_path / "a")


VARIANT = OPLVariant(variant="prototypes", rule="linear", gamma=0.0, end=1.0, balanced=True)
RESUMED = {
    **{name: replace(DIGITS, method=method) for name, method in METHODS.items()},
    "cross-entropy and opl": tiny(epochs=3),
    "variant of opl": tiny("digits-ce", method=Composite(auxiliary=(VARIANT,)), epochs=3),
    "rsc": tiny("pacs-art-rsc-opl", method=RSC(every=1, auxiliary=(OPL(),)), epochs=3),
    "dropout and dropblock": tiny("cifar-fs-rfs-opl", method=Rotations(auxiliary=(OPL(),)), epochs=3),
    "attacks": replace(DIGITS, method=AdversarialTraining(steps=2, auxiliary=(OPL(),)), normalize="model"),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_run_interrupted_after_an_epoch_resumes_bit_identically(tmp_path, stopped, name):
    recipe = RESUMED[name]
    run(recipe, tmp_path / "whole")
    for epoch in (1, 2):
        stopped(recipe, tmp_path / "stopped", epoch)
        torch.rand(1)  # the global generator may have moved in between
    run(recipe, tmp_path / "stopped")
    assert weights(tmp_path / "stopped", recipe.name) == weights(tmp_path / "whole", recipe.name)
    epochs = [record["epoch"] for record in RunFolder.of(tmp_path / "stopped", recipe.name, 0).metrics()]
    assert epochs == [0, 1, 2]


class Broken(CrossEntropyOPL):
    def build(self, shape):
        objective = super().build(shape)

        class Wrapper(Objective):
            def __init__(self):
                super().__init__()
                self.inner, self.calls = objective, 0

            def forward(self, model, batch):
                self.calls += 1
                terms = self.inner(model, batch)
                bad = terms.parts["projection"] * (float("nan") if self.calls > 2 else 1)
                return terms._replace(total=terms.total + bad, parts={**terms.parts, "projection": bad})

        return Wrapper()


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(tmp_path):
    with pytest.raises(DivergedError) as caught:
        run(tiny(method=Broken()), tmp_path)
    for text in ("epoch 1, step 3", "loss, projection", "entropy", "learning rate"):
        assert text in str(caught.value)
    assert "not finite" in RunFolder.of(tmp_path, "digits-opl", 0).error()


def test_a_finished_run_is_read_and_other_settings_are_refused(tmp_path, capfd):
    first = run(tiny(), tmp_path)
    before = weights(tmp_path)
    assert run(tiny(), tmp_path) == first
    assert cli.main(["train", "digits-opl", "--scale", "tiny", "--epochs", "7", "--out", str(tmp_path)]) == 2
    assert "other settings (epochs)" in capfd.readouterr().err
    assert weights(tmp_path) == before
