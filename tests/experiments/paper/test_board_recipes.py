"""The board keeps to its plan, docs/study.md: all losses of table 1, one training, and one rule for schedules."""

import itertools
import math
from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.paper import board, fast, table_1
from opl.experiments.results.measures import OPEN_SET
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.run import run


def test_the_board_has_cross_entropy_label_smoothing_and_the_other_losses_of_table_1():
    keys = [row.recipe.removeprefix("board-") for row in board.THE_BOARD.rows]
    assert keys[:2] == ["ce", "smooth"]
    assert set(keys) == {"smooth", *table_1.VARIANTS}
    assert [row.label for row in board.THE_BOARD.rows if not row.baseline] == ["CE"]


def test_losses_differ_in_the_method_alone_and_small_is_the_paper_scale():
    bases = {base.scale: base for base in fast.half_width()}
    for row in board.THE_BOARD.rows:
        made = {scale: paper.recipe(row.recipe, scale) for scale in bases}
        for scale, base in bases.items():
            assert replace(made[scale], name="x", method=base.method) == replace(base, name="x")
        assert made["small"].method == made["paper"].method


@pytest.mark.parametrize("scale", ["small", "tiny"])
def test_every_margin_is_complete_after_seven_tenths_of_the_steps(scale):
    base = next(base for base in fast.half_width() if base.scale == scale)
    images = 49_500 if scale == "small" else 160
    steps = base.epochs * math.ceil(images / base.batch_size)
    assert board.STEPS[scale] == steps
    heads = {key: paper.recipe(board.name_of(key), scale).method.head for key in board.PACED}
    ends = {key: heads[key].warmup for key in ("lmc", "aam")}
    ends["lgm"] = 5 * heads["lgm"].double_every
    assert heads["lgm"].start * 2**4 < heads["lgm"].margin <= heads["lgm"].start * 2**5
    for key in ("a-softmax", "l-softmax"):
        head = heads[key]
        blends = ((step, head.base * (1 + head.gamma * step) ** -head.power) for step in itertools.count())
        ends[key] = next(step for step, blend in blends if blend <= head.floor * (1 + 1e-9))
    for key, end in ends.items():
        assert abs(end - 0.7 * steps) <= 2.5, key


def test_at_the_paper_scale_every_schedule_of_table_1_ends_earlier():
    for key, (end, _) in board.PACED.items():
        assert end / board.PAPER_STEPS < board.LATEST, key
    heads = {key: paper.recipe(table_1.name_of(key), "paper").method.head for key in board.PACED}
    for key in ("a-softmax", "l-softmax"):
        blend = heads[key].base * (1 + heads[key].gamma * board.PACED[key][0]) ** -heads[key].power
        assert blend == pytest.approx(5, rel=1e-3)
    assert 5 * heads["lgm"].double_every == board.PACED["lgm"][0]


def test_open_set_detection_is_measured_where_the_images_are_real():
    assert OPEN_SET in board.THE_BOARD.for_scale("small").metrics
    assert OPEN_SET not in board.THE_BOARD.for_scale("tiny").metrics
    assert OPEN_SET.startswith(f"{board.OUTSIDE.metric}/")


@pytest.mark.slow
def test_a_tiny_run_of_every_loss_has_every_measure(tmp_path, one_thread):
    metrics = board.THE_BOARD.for_scale("tiny").metrics
    for row in board.THE_BOARD.at("tiny"):
        run(paper.recipe(row.recipe, "tiny"), tmp_path)
        result = RunFolder.of(tmp_path, row.recipe, 0).result()
        assert all(math.isfinite(result[name]) for name in metrics), row.recipe
