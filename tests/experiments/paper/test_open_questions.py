"""The open questions keep to their plan, docs/study.md: what rows share, what they differ in, and what they measure."""

import math
from dataclasses import replace

import pytest

from opl.experiments import paper
from opl.experiments.methods import OPL
from opl.experiments.paper import board, fast, open_questions
from opl.experiments.run_folder import RunFolder
from opl.experiments.scales import SCALES
from opl.experiments.training.run import run

ROWS = open_questions.OPEN_QUESTIONS.rows


def method_of(recipe):
    return paper.recipe(recipe, "small").method


def test_a_row_with_opl_is_its_baseline_with_the_paper_s_opl():
    for row in ROWS:
        if row.recipe.startswith(open_questions.TAIL) and row.baseline:
            assert method_of(row.recipe).opl == OPL()
            assert method_of(row.recipe).baseline() == method_of(row.baseline)
    assert method_of("cifar10-views-nt-xent-opl").baseline() == method_of("cifar10-views-nt-xent")


@pytest.mark.parametrize("scale", SCALES)
def test_all_losses_of_a_question_share_everything_but_the_method(scale):
    for name in (open_questions.TAIL, open_questions.VIEWS):
        made = [paper.recipe(row.recipe, scale) for row in ROWS if row.recipe.startswith(name)]
        assert len({repr(replace(recipe, name="x", method=made[0].method)) for recipe in made}) == 1
        assert len({repr(recipe.method) for recipe in made}) == len(made)


def test_imbalanced_training_has_the_network_and_the_number_of_steps_of_the_board():
    half = next(base for base in fast.half_width() if base.scale == "small")
    recipe = paper.recipe("cifar100-lt-ce", "small")
    assert replace(recipe, name=half.name, data=half.data, epochs=half.epochs, method=half.method) == half
    steps = recipe.epochs * math.ceil(10_837 / recipe.batch_size)
    assert abs(steps - board.STEPS["small"]) <= 5


@pytest.mark.slow
def test_a_tiny_run_of_every_row_has_every_number(tmp_path, one_thread):
    for row in ROWS:
        run(paper.recipe(row.recipe, "tiny"), tmp_path)
        result = RunFolder.of(tmp_path, row.recipe, 0).result()
        assert all(math.isfinite(result[name]) for name in open_questions.OPEN_QUESTIONS.metrics), row.recipe
        groups = [name for name in open_questions.CLASS_GROUPS.metrics if name in result]
        assert len(groups) == (3 if row.recipe.startswith(open_questions.TAIL) else 0), row.recipe
