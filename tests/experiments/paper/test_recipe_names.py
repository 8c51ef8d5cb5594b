"""The names of recipes, as items declare them without torch, are those of the recipes that their files make."""

from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.scales import SCALES


@pytest.mark.parametrize("table", paper._TABLES, ids=lambda table: table.ITEM.name)
def test_an_item_declares_all_recipes_of_its_file_and_no_others(table):
    made = {recipe.name for recipe in paper._build(table.recipes)}
    assert set(table.ITEM.recipes) <= made
    assert made <= set(paper.recipe_names())
    if not table.ITEM.home:
        assert made == set(table.ITEM.recipes)


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("table-1", {"paper": 22 * 3600, "small": 600, "tiny": 0}),
        ("table-2", {"paper": 0, "small": 180, "tiny": 0}),
        ("table-4", {"paper": 0, "small": 360, "tiny": 0}),
        ("table-6", {"paper": 44 * 3600, "small": 1200, "tiny": 0}),
        ("table-s1", {"paper": 240, "small": 0, "tiny": 0}),
        ("study", {"paper": 0, "small": 480, "tiny": 0}),
        ("fast", {"paper": 1320, "small": 480, "tiny": 0}),
    ],
)
def test_the_cost_of_a_run_is_the_longest_time_that_is_stated_for_the_scale(name, seconds):
    item = paper.item(name)
    assert {scale: item.cost_at(scale) for scale in seconds} == seconds


def test_a_cost_without_a_scale_is_that_of_all_but_the_tiny_one():
    item = replace(paper.item("demo"), cost="10 to 20 s on 1 core")
    assert [item.cost_at(scale) for scale in SCALES] == [20, 20, 0]


def test_every_stated_cost_names_a_time_at_some_scale():
    for item in paper.ITEMS.values():
        assert bool(item.cost) == any(item.cost_at(scale) for scale in ("paper", "small")), item.name
