"""A grid: all combinations, halved by early epochs, and the shares of the settings in the differences."""

from itertools import product

import numpy as np
import pytest

from opl.experiments.search.grid import Grid
from opl.experiments.search.space import parse_space
from opl.experiments.search.trial import Goal

SPACE = parse_space(("a=1,2,3", "b=x,y"))


def test_every_combination_is_proposed_once():
    grid = Grid(SPACE, Goal("val/top1"))
    trials = grid.propose()
    assert [tuple(trial.words.values()) for trial in trials] == list(product("123", "xy"))
    assert grid.propose() == []


@pytest.mark.parametrize(("metric", "kept"), [("val/top1", {3, 4, 5}), ("val/loss", {0, 1, 2})])
def test_the_better_half_continues(metric, kept):
    grid = Grid(SPACE, Goal(metric))
    trials = grid.propose()
    for trial in trials:
        trial.early[5] = float(trial.number)
    assert {trial.number for trial in trials} - {trial.number for trial in grid.prune(trials, 5)} == kept


def test_importance_is_the_share_of_the_main_effects_in_the_variance():
    grid = Grid(SPACE, Goal("val/top1"))
    trials = grid.propose()
    values = np.random.default_rng(0).normal(size=(3, 2))
    for trial, value in zip(trials, values.ravel(), strict=True):
        trial.value = float(value)
    expected = {"a": values.mean(1).var() / values.var(), "b": values.mean(0).var() / values.var()}
    assert grid.importance(trials) == pytest.approx(expected)
    for trial in trials:
        trial.value = 1.0
    assert grid.importance(trials) == {}
