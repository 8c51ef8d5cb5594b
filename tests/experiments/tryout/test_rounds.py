"""Seeds are run one after the other as long as there is time; late runs are stopped, and finished ones are kept."""

import time

import pytest

from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.executor import Event
from opl.experiments.tryout.rounds import Clock, jobs_of_seeds, run_rounds


class Recipe:
    def __init__(self, name):
        self.name, self.epochs = name, 1


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
        rounds = [jobs_of_seeds([Recipe("a"), Recipe("b")], [seed], tmp_path) for seed in range(seeds)]
        return run_rounds(rounds, planned, tmp_path, executor, clock, expected), executor.names

    return start


def test_all_seeds_are_run_in_turn_if_there_is_time(run):
    outcome, names = run(minutes=60, seconds=10)
    assert names == [f"{arm} seed {seed}" for seed in range(4) for arm in "ab"]
    assert (outcome.failed, outcome.late, outcome.skipped) == ([], False, 0)


def test_no_seed_is_begun_that_would_not_end_in_time(run):
    outcome, names = run(minutes=5, seconds=60)  # two minutes a seed, and 15 seconds for the page
    assert names == ["a seed 0", "b seed 0", "a seed 1", "b seed 1"]
    assert outcome.skipped == 2


def test_seeds_beyond_the_plan_are_for_time_that_is_left_and_not_missed(run):
    outcome, names = run(minutes=5, seconds=60, planned=1)
    assert len(names) == 4
    assert outcome.skipped == 0


def test_the_first_seed_is_begun_whatever_was_expected(run):
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
    rounds = [jobs_of_seeds([Recipe("a")], [seed], tmp_path) for seed in range(2)]
    outcome = run_rounds(rounds, 2, tmp_path, Slow(clock, 0), clock, 1.0)
    assert (outcome.late, outcome.failed) == (True, [])
