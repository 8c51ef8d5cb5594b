"""Proposals of Optuna: in their ranges, in its journal, and identical after a stop."""

import pytest

from opl.experiments.search.samplers import Goal, parse_space

pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'orthogonal-projection-loss[search]'")

from opl.experiments.search.samplers import OptunaSampler

SPACE = parse_space(("a=0.1:2:log", "b=x,y", "c=1:8"))


def sampler(folder, trials=12, batch=2):
    folder.mkdir(exist_ok=True)
    return OptunaSampler(SPACE, Goal("val/top1"), folder, trials, batch, seed=0)


def value_of(trial):
    return (
        -((float(trial.settings["a"]) - 0.5) ** 2) + 9 * (trial.settings["b"] == "y") + int(trial.settings["c"]) / 100
    )


def run(made, batches=1000):
    """Tell it the value of every trial; returns them."""
    finished = []
    while batches and (batch := made.propose()):
        for trial in batch:
            trial.value, trial.outcome = value_of(trial), "done"
            made.tell(trial)
        finished += batch
        batches -= 1
    return finished


def test_proposals_lie_in_their_ranges_and_end_with_the_number_of_trials(tmp_path):
    trials = run(sampler(tmp_path, trials=7))
    assert [trial.number for trial in trials] == list(range(7))
    for trial in trials:
        assert 0.1 <= float(trial.settings["a"]) <= 2
        assert trial.settings["b"] in ("x", "y")
        assert trial.settings["c"] in map(str, range(1, 9))


def test_stopped_search_continues_identically(tmp_path):
    whole = run(sampler(tmp_path / "whole"))
    part = sampler(tmp_path / "part")
    run(part, batches=2)
    part.propose()  # and is stopped before these two end
    again = run(sampler(tmp_path / "part"))
    assert [trial.settings for trial in again] == [trial.settings for trial in whole]
    assert len(whole) == 12


def test_the_setting_that_matters_is_the_important_one(tmp_path):
    made = sampler(tmp_path, trials=20, batch=5)
    trials = run(made)
    shares = made.importance(trials)
    assert max(shares, key=shares.get) == "b"
    assert sum(shares.values()) == pytest.approx(1)


def test_trials_below_the_median_of_earlier_ones_are_pruned(tmp_path):
    made = sampler(tmp_path, trials=6, batch=6)
    batch = made.propose()
    for trial in batch[:4]:
        trial.early[1] = trial.value = 50.0 + trial.number
        trial.outcome = "done"
        assert made.prune([trial], 1) == []
        made.tell(trial)
    for trial, value in zip(batch[4:], (40.0, 60.0), strict=True):
        trial.early[1] = value
    assert made.prune(batch[4:], 1) == [batch[4]]
