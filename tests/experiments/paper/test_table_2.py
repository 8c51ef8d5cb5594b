"""Table 2 and the figures drawn from its runs."""

import pytest
import torch

from opl.experiments import cli, paper
from opl.experiments.paper import table_2
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run

pytestmark = pytest.mark.usefixtures("apart", "one_thread")


def test_the_papers_numbers_are_there():
    paper = {row.recipe: tuple(row.paper.values()) for row in table_2.TABLE_2.rows if row.paper}
    assert paper == {
        "imagenet-resnet18-ce": (69.91, 89.08),
        "imagenet-resnet18-opl": (70.27, 89.60),
        "imagenet-resnet50-ce": (76.15, 92.87),
        "imagenet-resnet50-opl": (76.98, 93.30),
        "photos-resnet18-ce": (69.91, 89.08),  # beside the narrow ResNet-18 of the small scale
        "photos-resnet18-opl": (70.27, 89.60),
    }


def test_both_published_settings_of_opl_have_a_row():
    for network in ("resnet18", "resnet50", "vit-s16"):
        methods = [paper.recipe(f"imagenet-{network}-{key}", "paper").method for key in ("opl", "opl-released")]
        assert [(method.weight, method.gamma) for method in methods] == [(1.0, 0.5), (0.1, 2.0)]


def test_the_released_schedule_has_recipes_of_its_own():
    ce, opl = (paper.recipe(f"imagenet-resnet50-script-{key}", "paper") for key in ("ce", "opl-released"))
    assert (ce.batch_size, ce.optimizer.lr) == (opl.batch_size, opl.optimizer.lr) == (1024, 0.01)


@pytest.mark.parametrize("name", ["imagenet-resnet18-opl", "imagenet-vit-s16-opl"])
def test_a_tiny_run_learns_and_keeps_pictures(tmp_path, name):
    result = run(paper.recipe(name, "tiny"), tmp_path)
    assert result["test/top1"] > 10  # chance is 10 %
    kept = RunFolder.of(tmp_path, name, 0).outputs()
    assert kept["pixels"].shape == (80, 32, 32, 3)


def test_workers_change_no_byte_of_a_run(tmp_path):
    from dataclasses import replace

    recipe = paper.recipe("imagenet-resnet18-ce", "tiny")
    weights = []
    for workers in (0, 2):
        other = replace(recipe, data=replace(recipe.data, workers=workers), epochs=1)
        run(other, tmp_path / str(workers))
        weights.append(RunFolder.of(tmp_path / str(workers), recipe.name, 0).weights())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipes"), [("figure-5", "imagenet-resnet50"), ("figure-s2", "imagenet-resnet18")])
def test_a_gallery_is_drawn_from_the_runs(tmp_path, capfd, name, recipes):
    assert cli.main(["reproduce", name, "--scale", "tiny", "--seeds", "1", "--out", str(tmp_path)]) == 0
    assert "test images (most confident first), seed 0" in capfd.readouterr().out
    assert (tmp_path / "tiny" / "table-2" / f"{recipes}-opl" / "seed-0" / "done").exists()


@pytest.mark.parametrize("name", ["figure-5", "figure-s2", "figure-s4"])
@pytest.mark.parametrize("scale", ["paper", "small", "tiny"])
def test_a_figure_has_cross_entropy_and_what_is_compared_with_it_at_each_scale(name, scale):
    ce, *others = paper.item(name).at(scale)
    assert len(others) == (2 if (name, scale) == ("figure-s4", "small") else 1)
    assert [ce.baseline, *(row.baseline for row in others)] == ["", *[ce.recipe] * len(others)]


def test_changing_the_workers_leaves_a_run_in_its_table():
    from opl.experiments.cli.flags import change_settings

    recipe = paper.recipe("pacs-jpegs-opl", "small")
    assert change_settings(recipe, ["--data.workers", "3"]).scale == "small"
    assert change_settings(recipe, ["--data.size", "32"]).scale == "custom"
