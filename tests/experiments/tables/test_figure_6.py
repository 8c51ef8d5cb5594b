"""Figure 6 and the tables that it takes its weights and its base batch size from."""

import pytest

from opl.experiments import tables
from opl.experiments.scales import SCALES
from opl.experiments.tables import figure_6, table_8


def test_figure_6_takes_its_weights_from_table_8():
    weights = {
        recipe.name: recipe.method.weight for recipe in figure_6.recipes() if recipe.name.startswith(table_8.OPL)
    }
    for weight in table_8.PAPER:
        assert weights[table_8.name_of(weight)] == weight


@pytest.mark.parametrize("scale", SCALES)
def test_every_batch_size_is_run_once_and_that_of_table_1_reuses_its_rows(scale):
    made = [tables.recipe(row.recipe, scale) for row in figure_6.ITEM.at(scale)]
    plain = [recipe.batch_size for recipe in made if recipe.method.opl is None]
    projected = [recipe.batch_size for recipe in made if recipe.method.opl and recipe.method.opl.weight == 1]
    assert sorted(plain) == sorted(projected) == ([16, 32, 64] if scale == "tiny" else [32, 64, 128, 256, 512])
    assert plain[0] == projected[0] == tables.recipe(figure_6.CE.recipe, scale).batch_size


def test_tiny_batch_sizes_differ_in_their_number_of_steps():
    made = [tables.recipe(row.recipe, "tiny") for row in figure_6.ITEM.at("tiny")]
    steps = {recipe.batch_size: -(-recipe.data.rows // recipe.batch_size) for recipe in made}
    assert len(set(steps.values())) == len(steps)
