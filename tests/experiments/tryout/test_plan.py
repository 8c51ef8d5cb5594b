"""What is planned fits into the time, and as much as fits is planned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opl.errors import OptionError
from opl.experiments.tryout.plan import LEAST_EPOCHS, MARGIN, MOST_SEEDS, Speed, Work, make_plan


def work(train=7000, jobs=2, wanted=36, arms=2):
    return Work(train, train // 7, train * 2 // 7, 7, arms, jobs, wanted)


@given(
    st.integers(50, 50_000),
    st.integers(1, 8),
    st.floats(20, 5000),
    st.floats(1, 30),
    st.floats(60, 7200),
    st.integers(2, 3),
)
def test_what_is_planned_takes_no_longer_than_the_time(train, jobs, images, start, budget, arms):
    task, speed = work(train, jobs, arms=arms), Speed(images, start)
    try:
        plan = make_plan(task, speed, budget)
    except OptionError:
        return
    assert plan.seconds * MARGIN <= budget + 1e-6
    assert 1 <= plan.seeds <= MOST_SEEDS
    assert plan.epochs >= min(LEAST_EPOCHS, task.wanted)
    assert plan.images <= train


def test_the_expected_time_is_that_of_runs_written_out_one_by_one():
    task, speed = work(jobs=3, arms=2), Speed(500.0, 8.0)
    run = 8 + (10 * 7000 + (10 * 1000 + 2000) / 2.5) / 500 + 10 * 0.5 + 3
    ends = [0.0] * 3
    for _ in range(4):  # the seeds, one after the other: with three places only one seed has room for both arms
        begin = max(ends)
        ends = [begin + run, begin + run, begin]
    assert task.total(10, 4, speed) == pytest.approx(max(ends))


@pytest.mark.parametrize(("minutes", "seeds", "epochs"), [(600, 5, 36), (60, 3, 27), (30, 2, 20), (12, 2, 8)])
def test_seeds_come_first_then_epochs(minutes, seeds, epochs):
    plan = make_plan(work(), Speed(200.0, 8.0), 60.0 * minutes)
    assert (plan.seeds, plan.epochs) == (seeds, epochs)


def test_too_little_time_for_eight_epochs_leaves_out_training_images():
    plan = make_plan(work(), Speed(200.0, 8.0), 300.0)
    assert (plan.seeds, plan.epochs) == (2, LEAST_EPOCHS)
    assert 200 <= plan.images < 7000


def test_a_time_that_is_too_short_is_an_error_that_says_how_much_is_needed():
    with pytest.raises(OptionError, match=r"take about \d+ minutes .*more --minutes"):
        make_plan(work(), Speed(20.0, 8.0), 60.0)


def test_given_epochs_and_seeds_are_taken_as_they_are():
    plan = make_plan(work(), Speed(20.0, 8.0), 60.0, epochs=5, seeds=4)
    assert (plan.epochs, plan.seeds, plan.images) == (5, 4, 0)
    assert make_plan(work(), Speed(200.0, 8.0), 1200.0, epochs=3).seeds == MOST_SEEDS
    assert make_plan(work(), Speed(200.0, 8.0), 1200.0, seeds=1).epochs == work().wanted - 9
