"""Settings to search, all combinations of a grid, and the proposals of Optuna."""

from itertools import product

import numpy as np
import pytest

from _said import says
from opl.errors import OptionError
from opl.experiments.search.samplers import Goal, Grid, parse_setting, parse_space


def test_a_range_is_spaced_evenly_or_by_logarithms():
    assert np.allclose([float(word) for word in parse_setting("x=0.1:2:log:7").grid()], np.geomspace(0.1, 2, 7))
    assert np.allclose([float(word) for word in parse_setting("x=-1:2.0").grid()], np.linspace(-1, 2, 5))


def test_integer_ranges_have_unique_integers():
    assert parse_setting("epochs=1:4:7").grid() == ("1", "2", "3", "4")
    assert parse_setting("x=1:4.0").whole is False


def test_values_of_a_list_are_kept_as_they_are():
    assert parse_setting("method.form=mean_abs,mean").grid() == ("mean_abs", "mean")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("method.weight", "no name"), ("=1,2", "no name"), ("x=", "no values"), ("x=1,,2", "empty"),
        ("x=1,1", "repeated"), ("x=2:1", "smaller"), ("x=1:1", "smaller"), ("x=a:b", "range"), ("x=0:1:log", "above 0"),
        ("x=0:inf", "smaller"), ("x=nan:1", "smaller"), ("x=0:1:0", "smaller"), ("x=0:1:3:4", "smaller"),
        ("seed=1,2", "cannot be searched"), ("x=1:2:lag", "range"),
    ],
)  # fmt: skip
def test_invalid_settings_are_refused_with_a_sentence(text, expected):
    says(lambda: parse_setting(text), OptionError, [text.split("=")[0], expected])


def test_space_needs_settings_without_repetition():
    says(lambda: parse_space(()), OptionError, ["--over"])
    says(lambda: parse_space(("x=1,2", "x=3:4")), OptionError, ["x twice"])


SPACE = parse_space(("a=1,2,3", "b=x,y"))


def test_every_combination_is_proposed_once():
    grid = Grid(SPACE, Goal("val/top1"))
    trials = grid.propose()
    assert [tuple(trial.settings.values()) for trial in trials] == list(product("123", "xy"))
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
