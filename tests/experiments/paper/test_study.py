"""The study keeps to its plan, docs/study.md: equal weights for all arms, and new seeds for the confirmation."""

from dataclasses import replace

import pytest

from opl.experiments import methods
from opl.experiments.paper import item, recipe
from opl.experiments.paper.study import ARMS, CHOSEN, WINNER
from opl.experiments.runner.jobs import jobs_of


def runs_of(name, tmp_path):
    table = item(name)
    jobs = jobs_of(table, "small", table.seeds_at("small"), tmp_path, lambda each: recipe(each, "small"))
    return [(job.recipe, job.seed) for job in jobs]


def test_the_confirmation_has_six_seeds_and_none_of_the_screens(tmp_path):
    assert {seed for _, seed in runs_of("study-screen", tmp_path)} == {0, 1, 2}
    assert {seed for _, seed in runs_of("study", tmp_path)} == {3, 4, 5, 6, 7, 8}


def test_the_second_round_of_the_screen_has_cross_entropy_and_one_weight_of_each_arm(tmp_path):
    runs = runs_of("study-screen", tmp_path)
    assert len(runs) == len(set(runs)) == 31 + 22
    assert sum(seed == 0 for _, seed in runs) == 31
    for seed in (1, 2):
        arms = [name.removeprefix("screen-resnet8-").rpartition("-")[0] or "ce" for name, own in runs if own == seed]
        assert arms == ["ce", "smooth", *ARMS]


def test_every_arm_of_the_screen_has_the_same_weights_and_otherwise_the_settings_of_cross_entropy():
    names = [row.recipe for row in item("study-screen").rows]
    for arm in ARMS:
        own = [name.rpartition("-")[2] for name in names if name.rpartition("-")[0] == f"screen-resnet8-{arm}"]
        assert own == ["0.1", "0.3", "1"], arm
    base = recipe("screen-resnet8-ce", "small")
    for name in names:
        other = recipe(name, "small")
        assert (other.data, other.model, other.optimizer, other.schedule, other.epochs) == (
            base.data, base.model, base.optimizer, base.schedule, base.epochs,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["study-noise", "study-few-shot", "study-domains"])
def test_elsewhere_the_winner_stands_in_the_place_of_opl_and_nothing_else_differs(name):
    winner = recipe(f"screen-resnet8-{WINNER}-{CHOSEN[WINNER]:g}", "small").method.opl
    rows = [row for row in item(name).rows if row.recipe.startswith("study-")]
    assert {scale for row in rows for scale in row.scales} == {"paper", "small", "tiny"}
    for row in rows:
        for scale in row.scales:
            with_winner, with_opl = recipe(row.recipe, scale), recipe(row.baseline, scale)
            assert with_opl.method.opl == methods.OPL()
            assert with_winner.method.opl == winner
            assert type(with_winner.method.baseline()) in (type(with_opl.method.baseline()), methods.Composite)
            assert replace(with_winner, name="x", method=with_opl.method) == replace(with_opl, name="x")


@pytest.mark.parametrize("name", ["study-screen", "study", "study-noise", "study-few-shot", "study-domains"])
def test_the_comparison_that_is_told_first_is_that_of_the_winner(name):
    told = recipe(item(name).headline, "small").method.opl
    assert told == recipe(f"screen-resnet8-{WINNER}-{CHOSEN[WINNER]:g}", "small").method.opl
