"""Measures beside accuracy: paired differences, verdicts in the good direction, and the largest changes."""

import doctest
import math

import numpy as np
import pytest

from _runs import write_run
from opl.experiments.results import measures
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.statistics import GAIN, LOSS, UNDECIDED, Decision, holm


def rows_of(folder, values):
    """The runs of two rows with the given measures by seed."""
    for name, by_measure in values.items():
        for seed in range(len(next(iter(by_measure.values())))):
            write_run(folder, name, seed)
    runs = read_runs(folder)
    for run in runs:
        run.result.update({name: numbers[run.seed] for name, numbers in values[run.name].items()})
    return [select_runs(runs, name, "small") for name in values]


def test_examples_in_docstrings_are_true():
    assert not doctest.testmod(measures).failed


def test_p_values_are_those_of_scipy_adjusted_for_the_known_measures(tmp_path):
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    base = {"test/map_at_r": (75.0, 75.5, 74.8), "test/ece": (0.013, 0.012, 0.015), "test/nc1": (0.6, 0.7, 0.65)}
    other = {"test/map_at_r": (81.0, 81.3, 81.2), "test/ece": (0.030, 0.031, 0.027), "test/nc1": (0.3, 0.5, 0.35)}
    made = {change.name: change for change in measures.changes(*rows_of(tmp_path, {"ce": base, "opl": other}))}
    assert list(made) == list(measures.MEASURES)
    expected = [stats.ttest_rel(other[name], base[name]).pvalue for name in base]
    assert [made[name].decision.p for name in base] == pytest.approx(expected)
    assert [made[name].decision.adjusted for name in base] == pytest.approx(holm(expected))
    assert made["test/map_at_r"].verdict == "better"
    assert made["test/ece"].verdict == "worse"
    assert made["test/map_at_r"].difference.mean == pytest.approx(
        np.mean(np.subtract(other["test/map_at_r"], base["test/map_at_r"]))
    )


def test_measures_of_older_runs_are_dashes_and_seeds_without_them_are_left_out(tmp_path):
    before, after = rows_of(
        tmp_path, {"ce": {"test/knn": (97.0, math.nan, 97.2)}, "opl": {"test/knn": (97.5, 97.4, 97.6)}}
    )
    made = {change.name: change for change in measures.changes(before, after)}
    assert made["test/knn"].before == (97.0, 97.2)
    assert made["test/map_at_r"].values == measures.ABSENT
    assert measures.format_difference(made["test/map_at_r"].info, made["test/map_at_r"].difference) == measures.ABSENT
    assert measures.describe_largest([made["test/map_at_r"]]) == ""


def test_verdicts_are_in_the_good_direction():
    infos = {info.better: info for info in measures.MEASURES.values()}
    for better, expected in {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}.items():
        lines = [
            measures.describe_verdict(infos[better], Decision(0.01, 0.01, 1, math.nan, word)) for word in (GAIN, LOSS)
        ]
        assert tuple(lines) == expected
        undecided = Decision(0.5, 0.5, 1, math.nan, UNDECIDED)
        assert measures.describe_verdict(infos[better], undecided) == UNDECIDED


def test_the_measures_that_moved_most_are_ranked_by_the_spread_of_the_seeds():
    small = measures.compare_values("test/knn", {0: 97.0, 1: 98.0}, {0: 97.5, 1: 98.5})
    clear = measures.compare_values("test/ece", {0: 0.010, 1: 0.011}, {0: 0.030, 1: 0.031})
    middle = measures.compare_values("test/map_at_r", {0: 75.0, 1: 76.0}, {0: 80.0, 1: 81.0})
    ranked = measures.compare_values("test/nc1", {0: 1.0, 1: 1.0}, {0: 0.0, 1: 0.0})  # no good direction
    text = measures.describe_largest([small, middle, ranked, clear])
    assert text.startswith("Moved most: ECE 0.0105 → 0.0305 (worse, 2 of 2 seeds), MAP@R 75.50 → 80.50 (better")
    alone = measures.compare_values("test/nll", {0: 0.5}, {0: 0.4})
    assert measures.describe_largest([alone]) == "Moved most: NLL 0.500 → 0.400 (better)."
    one = measures.compare_values("test/nll", {0: 0.5}, {0: 0.5})
    assert measures.describe_largest([one]) == "Moved most: NLL 0.500 → 0.500 (unchanged)."


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ((78.0, 79.2, 77.5), "+0.78 in 3 of 3 seeds, too few seeds to tell"),  # equal but for the last bits
        ((78.0, 79.2, 77.501), "+0.78 in 3 of 3 seeds, too few seeds to tell"),  # equal as shown
        ((78.0, 79.2, 77.6), "+0.81 [+0.67, +0.96], better"),
    ],
)
def test_seeds_with_equal_differences_say_nothing_about_their_spread(after, text):
    before = {seed: value - 0.78 for seed, value in enumerate((78.0, 79.2, 77.5))}
    change = measures.compare_values("test/knn", before, dict(enumerate(after)))
    assert measures.describe_change(change.info, change.difference, change.decision) == text
    assert measures.format_difference(change.info, change.difference) == text.rpartition(", ")[0]


def test_measures_with_equal_differences_are_not_counted_in_the_adjustment(tmp_path):
    base = {"test/knn": (70.0, 71.0, 72.0), "test/map_at_r": (75.0, 75.5, 74.8)}
    other = {"test/knn": (70.3, 71.3, 72.3), "test/map_at_r": (81.0, 81.3, 81.2)}
    made = {change.name: change for change in measures.changes(*rows_of(tmp_path, {"ce": base, "opl": other}))}
    assert made["test/knn"].verdict == "too few seeds to tell"
    assert made["test/map_at_r"].decision.adjusted == made["test/map_at_r"].decision.p
