"""Table 1: a row is one line, its columns are the paper's, and short runs introduce a loss as long ones do."""

import itertools
from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.paper import table_1


def test_one_line_adds_a_row_with_its_recipes_to_table_1(monkeypatch):
    line = table_1._loss("New", (1.0, 2.0), (), lambda m: m.Composite(criterion=m.criteria.Focal(gamma=3.0)))
    monkeypatch.setitem(table_1.VARIANTS, "new", line)
    rows = {row.recipe: row for network in table_1.NETWORKS for row in [table_1._row("new", network)]}
    made = {(recipe.name, recipe.scale): recipe for recipe in table_1.recipes()}
    for network in (table_1.RESNET56, table_1.RESNET110):
        row = rows[table_1.name_of("new", network)]
        assert row.baseline == table_1.name_of("ce", network)
        for scale in row.scales:
            assert made[row.recipe, scale].method.criterion.gamma == 3.0


def test_resnet_110_has_the_rows_of_the_paper():
    for scale, missing in (("paper", set()), ("tiny", {"l-softmax", "rbf"})):
        names = [row.recipe for row in table_1.TABLE_1.at(scale)]
        for network, left_out in ((table_1.RESNET56, set()), (table_1.RESNET110, missing)):
            wanted = {table_1.name_of(key, network) for key in table_1.VARIANTS if key not in left_out}
            assert {name for name in names if name.startswith(network.name)} == wanted


def test_the_small_scale_shares_the_runs_of_the_board_and_trains_two_losses_with_full_width():
    table, board = paper.item("table-1"), paper.item("board")
    names = [row.recipe for row in table.at("small")]
    assert set(names) == {*(row.recipe for row in board.rows), "cifar100-wide-ce", "cifar100-wide-opl"}
    assert {item.home for item in table_1.ITEMS} == {board.name}
    for key in table_1.WIDE:
        half, full = paper.recipe(f"board-{key}", "small"), paper.recipe(f"cifar100-wide-{key}", "small")
        assert (half.model.half, full.model.half, half.data.num_classes) == (True, False, 100)
        assert replace(full, name=half.name, model=half.model) == half


def test_figures_are_drawn_from_cross_entropy_and_opl_at_every_scale():
    for name in ("figure-3", "figure-4", "figure-s3"):
        for scale, network in (("paper", "cifar100-resnet56"), ("small", "board"), ("tiny", "cifar100-resnet56")):
            assert [row.recipe for row in paper.item(name).at(scale)] == [f"{network}-ce", f"{network}-opl"]


@pytest.mark.parametrize(("scale", "images"), [("tiny", 160)])
def test_short_runs_reach_the_margins_at_the_same_fraction_of_their_steps(scale, images):
    lgm, soft = (paper.recipe(table_1.name_of(key), scale) for key in ("lgm", "l-softmax"))
    steps = lgm.epochs * len(range(0, images, lgm.batch_size))
    assert steps == table_1.TINY_STEPS
    settings = lgm.method.head
    full = next(
        step for step in range(steps)
        if settings.start * 2 ** (step // settings.double_every) >= settings.margin
    )  # fmt: skip
    assert full / steps == pytest.approx(500 / 710, abs=0.04)
    head = soft.method.head
    floor = next(
        step for step in itertools.count()
        if head.base * (1 + head.gamma * step) ** -head.power <= head.floor
    )  # fmt: skip
    assert soft.epochs - 1 <= floor * soft.epochs / steps < soft.epochs
