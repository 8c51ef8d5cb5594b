"""Table 8 and figure 6, which share the runs of their weights."""

from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.paper import table_1, table_8
from opl.experiments.scales import SCALES


def test_figure_6_takes_its_weights_from_table_8():
    weights = {recipe.name: recipe.method.opl.weight for recipe in table_8.recipes() if recipe.method.opl}
    for weight in table_8.PAPER:
        assert weights[table_8.name_of(weight)] == weight


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("rule", table_8.RULES)
def test_every_batch_size_is_run_once_by_each_rule_and_that_of_table_8_reuses_its_rows(scale, rule):
    base = paper.recipe(table_8.CE, scale)
    rows = [row for row in table_8.FIGURE_6.at(scale) if row.recipe in (table_8.CE, table_8.OPL)]
    rows += [
        row
        for row in table_8.FIGURE_6.at(scale)
        if "batch" in row.recipe and row.recipe.endswith("scaled") == bool(rule)
    ]
    made = [paper.recipe(row.recipe, scale) for row in rows]
    plain = [recipe.batch_size for recipe in made if recipe.method.opl is None]
    projected = [recipe.batch_size for recipe in made if recipe.method.opl]
    assert sorted(plain) == sorted(projected) == ([16, 32, 64] if scale == "tiny" else [32, 64, 128, 256, 512])
    for recipe in made:
        factor = recipe.batch_size / base.batch_size if rule else 1
        assert recipe.optimizer.lr == pytest.approx(base.optimizer.lr * factor)


@pytest.mark.parametrize("scale", SCALES)
def test_every_cell_of_table_8_has_its_weight_and_gamma_and_is_decided_by_held_out_images(scale):
    cells = [row for row in table_8.TABLE_8.at(scale) if row.baseline]
    assert [row.baseline for row in cells] == [table_8.CE] * 15
    for row in cells:
        recipe = paper.recipe(row.recipe, scale)
        assert f"weight {recipe.method.weight:g}, gamma {recipe.method.gamma:g}" in row.label
        assert recipe.data.val > 0
        assert (recipe.selection, recipe.oracle) == ("last", False)
    assert list(table_8.TABLE_8.metrics) == ["val/top1"]


def test_the_paper_scale_of_table_8_is_that_of_table_1():
    for key, name in {"ce": table_8.CE, "opl": table_8.name_of(*table_8.CHOSEN)}.items():
        assert replace(paper.recipe(table_1.name_of(key), "paper"), name=name) == paper.recipe(name, "paper")


def test_tiny_batch_sizes_differ_in_their_number_of_steps():
    made = [paper.recipe(row.recipe, "tiny") for row in table_8.FIGURE_6.at("tiny")]
    steps = {recipe.batch_size: -(-recipe.data.rows // recipe.batch_size) for recipe in made}
    assert len(set(steps.values())) == len(steps)
