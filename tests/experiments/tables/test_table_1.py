"""Table 1: a row is one line."""

from opl.experiments.tables import table_1


def test_one_line_adds_a_row_with_its_recipes_to_table_1(monkeypatch):
    line = table_1.Variant("New", (1.0, 2.0), None, lambda m: m.Composite(criterion=m.criteria.Focal(gamma=3.0)))
    monkeypatch.setitem(table_1.VARIANTS, "new", line)
    rows = {row.recipe: row for row in table_1.rows()}
    made = {(recipe.name, recipe.scale): recipe for recipe in table_1.recipes()}
    for network in (table_1.RESNET56, table_1.RESNET110):
        row = rows[table_1.name_of("new", network)]
        assert row.baseline == table_1.name_of("ce", network)
        for scale in row.scales:
            assert made[row.recipe, scale].method.criterion.gamma == 3.0
