"""Plans fit into the time budget; seeds run while time is left; late runs are stopped and finished runs kept."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opl.errors import OptionError
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.executor import Event
from opl.experiments.runner.jobs import Job
from opl.experiments.tryout.plan import (
    MARGIN,
    MOST_SEEDS,
    Clock,
    Speed,
    Work,
    make_plan,
    run_rounds,
)


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
    total = task.total(plan.epochs, plan.seeds, speed, plan.images)
    assert total * MARGIN <= budget + 1e-6
    rounds = math.ceil(plan.seeds / task.together) * math.ceil(arms * min(plan.seeds, task.together) / jobs)
    assert total == pytest.approx(plan.run_seconds * rounds)
    assert 1 <= plan.seeds <= MOST_SEEDS
    assert plan.epochs >= min(task.least, task.wanted)
    assert plan.images <= train


def test_the_expected_time_is_that_of_runs_written_out_one_by_one():
    task, speed = work(jobs=3, arms=2), Speed(500.0, 8.0)
    run = 8 + (10 * 7000 + (11 * 1000 + 2000 + 5000) / 2.5) / 500 + 10 * 0.5 + 3
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
    assert (plan.seeds, plan.epochs) == (2, work().least)
    assert 200 <= plan.images < 7000


def test_a_time_budget_that_is_too_small_is_refused_with_the_time_needed():
    with pytest.raises(OptionError, match=r"take about \d+ minutes .*raise --minutes"):
        make_plan(work(), Speed(20.0, 8.0), 60.0)


def test_given_epochs_and_seeds_are_taken_as_they_are():
    plan = make_plan(work(), Speed(20.0, 8.0), 60.0, epochs=5, seeds=4)
    assert (plan.epochs, plan.seeds, plan.images) == (5, 4, 0)
    assert make_plan(work(), Speed(200.0, 8.0), 1200.0, epochs=3).seeds == MOST_SEEDS
    assert make_plan(work(), Speed(200.0, 8.0), 1200.0, seeds=1).epochs == work().wanted - 9


def jobs_of_seeds(names, seeds, out):
    """The runs of some seeds, of one epoch each."""
    return [Job(name, seed, 1, RunFolder.of(out, name, seed)) for seed in seeds for name in names]


class Executor:
    """Finishes each task at once: `seconds` pass on a clock of its own."""

    patience = 0.0

    def __init__(self, clock, seconds, fails=()):
        self.clock, self.seconds, self.fails = clock, seconds, fails
        self.tasks, self.names, self.cancelled = [], [], False

    def submit(self, task):
        self.tasks.append(task)

    def watch(self):
        while self.tasks and not self.cancelled:
            task = self.tasks.pop(0)
            self.names.append(task.name)
            self.clock.pass_by(self.seconds)
            if task.name in self.fails:
                yield Event(task.name, "failed")
                continue
            folder = RunFolder(task.log.parent)
            folder.start({"name": task.name}, {}, lambda settings: settings)
            folder.finish({}, {})
            yield Event(task.name, "done")

    def cancel(self):
        self.cancelled = True


class Ticker(Clock):
    """A clock that a test moves."""

    def __init__(self, minutes):
        self.gone = 0.0
        super().__init__(minutes)

    def pass_by(self, seconds):
        self.gone += seconds

    @property
    def spent(self):
        return self.gone


@pytest.fixture
def run(tmp_path, monkeypatch):
    def start(minutes, seconds, fails=(), seeds=4, expected=100.0, planned=4):
        clock = Ticker(minutes)
        monkeypatch.setattr(time, "monotonic", lambda: clock.gone)
        executor = Executor(clock, seconds, fails)
        rounds = [jobs_of_seeds("ab", [seed], tmp_path) for seed in range(seeds)]
        return run_rounds(rounds, planned, executor, clock, expected), executor.names

    return start


def test_all_seeds_are_run_in_turn_if_there_is_time(run):
    outcome, names = run(minutes=60, seconds=10)
    assert names == [f"{arm} seed {seed}" for seed in range(4) for arm in "ab"]
    assert (outcome.failed, outcome.late, outcome.skipped) == ([], False, 0)


def test_no_seed_is_started_that_would_not_end_in_time(run):
    outcome, names = run(minutes=5, seconds=60)  # two minutes a seed, and 15 seconds for the page
    assert names == ["a seed 0", "b seed 0", "a seed 1", "b seed 1"]
    assert outcome.skipped == 2


def test_seeds_beyond_the_plan_are_for_time_that_is_left_and_not_missed(run):
    outcome, names = run(minutes=5, seconds=60, planned=1)
    assert len(names) == 4
    assert outcome.skipped == 0


def test_the_first_seed_is_always_started(run):
    outcome, names = run(minutes=1, seconds=100, expected=1e9)
    assert names == ["a seed 0", "b seed 0"]
    assert outcome.skipped == 3


def test_a_failed_run_does_not_end_the_others(run):
    outcome, names = run(minutes=60, seconds=1, fails=["a seed 1"])
    assert [job.name for job in outcome.failed] == ["a seed 1"]
    assert len(names) == 8


def test_finished_seeds_are_not_run_again(run):
    run(minutes=60, seconds=1, seeds=2)
    assert run(minutes=60, seconds=1, seeds=3)[1] == ["a seed 2", "b seed 2"]


def test_runs_that_are_late_are_stopped_and_are_no_failures(tmp_path):
    class Slow(Executor):
        def watch(self):
            yield Event(self.tasks[0].name, "running")
            while not self.cancelled:
                time.sleep(0.01)
            yield Event(self.tasks.pop(0).name, "failed")

    clock = Clock(0.001)
    clock.started -= 1  # it is over
    rounds = [jobs_of_seeds("a", [seed], tmp_path) for seed in range(2)]
    outcome = run_rounds(rounds, 2, Slow(clock, 0), clock, 1.0)
    assert (outcome.late, outcome.failed) == (True, [])
