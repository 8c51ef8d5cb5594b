"""Tiny runs can see: every part has pairs of one class, and runs of different methods end with different weights."""

import math
from itertools import combinations

import pytest

from opl.experiments import paper
from opl.experiments.paper import table_3, table_4, table_s1
from opl.experiments.run_folder import MODEL, RunFolder
from opl.experiments.training.run import run

MINE = ("demo", "table-1", "table-4", "table-8", "table-s1", "figure-2", "figure-6")


@pytest.mark.parametrize("name", MINE)
def test_every_part_of_tiny_data_has_several_images_of_each_class(name):
    for data in {paper.recipe(row.recipe, "tiny").data for row in paper.item(name).at("tiny")}:
        splits = data.load(0)
        for part in (splits.train, splits.val, splits.test):
            counts = part.labels[part.rows].bincount(minlength=data.num_classes)
            assert len(counts) == data.num_classes == len(splits.class_names)
            assert counts.min() >= 2


def test_three_classes_of_figure_2_are_three_at_every_scale():
    for row in table_s1.FIGURE_2.rows:
        for scale in row.scales:
            assert paper.recipe(row.recipe, scale).data.num_classes == (3 if "three" in row.recipe else 10)
    splits = paper.recipe(table_s1.THREE_OPL, "tiny").data.load(0)
    assert set(splits.train.labels[splits.train.rows].tolist()) == {0, 1, 2}


def test_at_most_two_seeds_are_run_at_the_tiny_scale():
    for item in paper.ITEMS.values():
        assert item.seeds_at("tiny") == min(2, item.seeds)
        assert item.seeds_at("small") == item.seeds_at("paper") == item.seeds


def rows_of(name, start=""):
    return [row.recipe for row in paper.item(name).at("tiny") if row.recipe.startswith(start)]


FEW_SHOT = ("rfs", "rfs-opl", "rfs-script", "skd", "skd-opl", "skd-gen1")
DIFFERENT = {
    # the model that prunes by the test images may have the same weights as the one that does not
    "table-3": [f"cifar10-noisy-uniform-{key}" for key in table_3.VARIANTS if not key.endswith("-peeking")],
    "table-4": [f"cifar10-robust-{key}" for key in ("pretrained", *table_4.VARIANTS)],
    "table-5": [f"pacs-{key}" for key in ("art-erm", "photo-erm", "photo-erm-opl", "photo-rsc", "photo-rsc-opl")],
}
SLOW = {
    "ResNet-56": rows_of("table-1", "cifar100-resnet56"),
    "ResNet-110": rows_of("table-1", "cifar100-resnet110"),
    "table-6": [*(f"cifar-fs-{key}" for key in FEW_SHOT), "mini-imagenet-rfs-opl", "tiered-imagenet-rfs-opl"],
    "study-pretrained": rows_of("study-pretrained")[:5],
    "study-few-images": rows_of("study-few-images")[:5],
}


@pytest.mark.parametrize("group", [*DIFFERENT, *(pytest.param(group, marks=pytest.mark.slow) for group in SLOW)])
def test_runs_of_different_methods_end_with_other_weights_and_sensible_geometry(group, tmp_path, one_thread):
    names, trained_enough = (DIFFERENT | SLOW)[group], group.startswith("table-")
    results = {name: run(paper.recipe(name, "tiny"), tmp_path) for name in names}
    losses = [result["test/loss"] for result in results.values()]
    assert len({round(loss, 4) if trained_enough else loss for loss in losses}) == len(names) > 4
    folders = {name: RunFolder.of(tmp_path, name, 0) for name in names}
    for name, folder in folders.items():
        known = (
            ("train/loss",) if group == "study-few-images" else ("s", "d", "train/loss")
        )  # it has no validation images
        assert all(math.isfinite(record[key]) for record in folder.metrics() for key in known), name
        assert not trained_enough or 0 < results[name]["test/d"] < results[name]["test/s"] <= 1, name
    weights = {name: (folder.path / MODEL).read_bytes() for name, folder in folders.items()}
    for one, other in combinations(names, 2):
        assert weights[one] != weights[other], (one, other)
        if group.startswith("ResNet-"):
            first, second = (folders[name].weights()["conv1.weight"] for name in (one, other))
            assert not first.equal(second), (one, other)
