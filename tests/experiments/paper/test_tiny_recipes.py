"""Tiny runs can see: every part has pairs of one class, and runs of different methods end with different weights."""

import math
from itertools import combinations

import pytest

from opl.experiments import paper
from opl.experiments.paper import table_1, table_s1
from opl.experiments.run_folder import MODEL, RunFolder
from opl.experiments.training.run import run

MINE = ("demo", "table-1", "table-8", "table-s1", "figure-2", "figure-6")


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


@pytest.mark.slow
@pytest.mark.parametrize("network", table_1.NETWORKS, ids=lambda network: network.name)
def test_all_rows_of_table_1_end_with_other_weights_and_finite_geometry(network, tmp_path, one_thread):
    names = [row.recipe for row in table_1.TABLE_1.at("tiny") if row.recipe.startswith(network.name)]
    for name in names:
        run(paper.recipe(name, "tiny"), tmp_path)
    folders = {name: RunFolder.of(tmp_path, name, 0) for name in names}
    for folder in folders.values():
        assert all(math.isfinite(record[key]) for record in folder.metrics() for key in ("s", "d", "train/loss"))
    weights = {name: (folder.path / MODEL).read_bytes() for name, folder in folders.items()}
    filters = {name: folder.weights()["conv1.weight"] for name, folder in folders.items()}
    for one, other in combinations(names, 2):
        assert weights[one] != weights[other], (one, other)
        assert not filters[one].equal(filters[other]), (one, other)
