"""Figure 6 and the table that it takes its weights from."""

from opl.experiments.tables import figure_6, table_8


def test_figure_6_takes_its_weights_from_table_8():
    weights = {
        recipe.name: recipe.method.weight for recipe in figure_6.recipes() if recipe.name.startswith(table_8.OPL)
    }
    for weight in table_8.PAPER:
        assert weights[table_8.name_of(weight)] == weight
