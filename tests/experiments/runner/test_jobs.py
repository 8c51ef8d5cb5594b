"""Runs and measures of an item: order, failures, estimated time, and what is printed."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from _instant import Instant
from opl.errors import FolderError
from opl.experiments import paper
from opl.experiments.item import Item, Row
from opl.experiments.paper import item
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.display import Step
from opl.experiments.runner.executor import SHARE
from opl.experiments.runner.jobs import Job, JobProgress, evaluate_all, jobs_of, measure_all, run_all, seconds_left


def test_runs_start_after_the_runs_that_they_need_and_fail_with_them(tmp_path):
    after = {"teacher": "", "student": "teacher", "pupil": "student", "other": ""}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name], members=())  # noqa: E731
    table = Item("x", "x", "x", {}, (Row("P", "pupil", {}), Row("O", "other", {})))
    jobs = jobs_of(table, "tiny", 2, tmp_path, look)
    assert [job.recipe for job in jobs] == ["teacher", "student", "pupil", "other"] * 2
    order = []

    def train(argv, log):
        options = ("--scale", "tiny", "--out", str(tmp_path), "--wait", "30.0")
        assert argv == ("train", argv[1], "--seed", argv[3], *options)
        folder = RunFolder.of(tmp_path, argv[1], int(argv[3]))
        assert log == folder.log_file
        folder.start({"name": argv[1]}, {})
        order.append(f"{argv[1]} {argv[3]}")
        if order[-1] == "student 1":
            return 1
        folder.finish({"x": torch.zeros(1)}, {})
        return 0

    with Instant(2, train) as executor:
        failed = run_all(jobs, "tiny", tmp_path, executor)
    for seed in (0, 1):
        assert order.index(f"teacher {seed}") < order.index(f"student {seed}")
    assert order.index("student 0") < order.index("pupil 0")
    assert "pupil 1" not in order
    assert "other 1" in order
    assert [(job.recipe, job.seed) for job in failed] == [("student", 1), ("pupil", 1)]
    assert "it needs student, which failed" in failed[1].state


def test_members_of_a_family_run_with_its_row_and_wait_only_for_their_base(tmp_path):
    after = {"base": "", "one": "base", "two": "base", "row": "base"}
    members = {"row": ("one", "two")}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name], members=members.get(name, ()))  # noqa: E731
    jobs = jobs_of(Item("x", "x", "x", {}, (Row("R", "row", {}),)), "tiny", 2, tmp_path, look)
    assert [(job.recipe, job.after) for job in jobs] == [
        ("base", ""), ("one", "base"), ("two", "base"), ("row", "base"),
    ] * 2  # fmt: skip


def test_a_finished_run_is_not_started_again(tmp_path):
    look = lambda name: SimpleNamespace(epochs=1, after="", members=())  # noqa: E731
    jobs = jobs_of(Item("x", "x", "x", {}, (Row("O", "only", {}),)), "tiny", 1, tmp_path, look)
    jobs[0].folder.start({"name": "only"}, {})
    jobs[0].folder.finish({"x": torch.zeros(1)}, {})
    with Instant(1, lambda argv, log: 1) as executor:
        assert run_all(jobs, "tiny", tmp_path, executor) == []
    assert jobs[0].state == "done"


def job(recipe, seed, state, reached, cost=0.0, took=0.0):
    made = Job(recipe, seed, 10, RunFolder("nowhere"), cost=cost, state=state, took=took, known=reached)
    made.reached = lambda: reached
    return made


def test_the_time_left_follows_from_the_epochs_of_the_run_then_of_its_recipe_then_of_all_runs():
    jobs = [
        job("a", 0, "done", JobProgress(10, 100.0), took=107.0),  # 10 s per epoch, 7 s to start
        job("a", 1, "running", JobProgress(4, 80.0)),  # 20 s per epoch: 6 epochs, 120 s
        job("a", 2, "waiting", JobProgress()),  # the mean of the recipe, 15 s: 150 s and 7
        job("b", 0, "waiting", JobProgress(), cost=1e6),  # the mean of all runs, the same
        job("c", 0, "failed (x)", JobProgress()),
    ]
    assert seconds_left(jobs, 1) == pytest.approx(120 + 157 + 157)
    assert seconds_left(jobs, 2) == pytest.approx((120 + 157 + 157) / 2)
    assert seconds_left(jobs, 100) == pytest.approx(157)  # no shorter than the longest


def test_before_any_epoch_the_time_left_is_the_cost_of_the_item_or_unknown():
    assert seconds_left([job("a", seed, "waiting", JobProgress(), cost=30.0) for seed in (0, 1)], 1) == 60
    assert seconds_left([job("a", 0, "waiting", JobProgress())], 1) is None
    assert seconds_left([job("a", 0, "done", JobProgress(10, 5.0))], 1) == 0


def test_the_progress_of_a_run_is_kept_while_its_file_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("opl.experiments.runner.jobs.FRESH", 0.0)
    folder = RunFolder.of(tmp_path, "a", 0)
    run = Job("a", 0, 3, folder, state="running")
    assert run.step() == Step(0, 3, "epoch 0/3")
    folder.start({"name": "a"}, {})
    folder.log({"epoch": 0, "seconds": 2.0, "images_per_second": 90.4})
    folder.log({"epoch": 1, "seconds": 4.0, "images_per_second": 80.4, "val/top1": 50.0})
    assert run.step() == Step(2, 3, "epoch 2/3", "80 images/s")
    assert run.reached() == JobProgress(2, 6.0, 80.4, 50.0)
    (folder.path / "metrics.jsonl").write_text("no record\n")
    assert run.reached() == JobProgress(2, 6.0, 80.4, 50.0)


def test_only_rows_are_measured_with_the_arguments_of_their_scale_and_warnings_are_printed(tmp_path, capsys):
    table_4, measured = item("table-4"), []

    def evaluate(given, log):
        assert given[0] == "evaluate"
        recipe = Path(given[1]).parent.name
        measured.append((recipe, given[2:]))
        log.write_text("numbers\n" + "opl: warning: gradients may be masked\n" * (recipe == "cifar100-robust-mart"))
        return 0

    jobs = jobs_of(table_4, "tiny", 1, tmp_path, lambda name: paper.recipe(name, "tiny"))
    assert "cifar100-robust-pretrained" in {job.recipe for job in jobs}
    with Instant(1, evaluate) as executor:
        assert measure_all(table_4, jobs, "tiny", tmp_path, executor) == []
    printed = capsys.readouterr().err
    assert printed.count("masked") == 1
    assert "numbers" not in printed
    assert {name for name, _ in measured} == {row.recipe for row in table_4.at("tiny")}
    assert {argv for _, argv in measured} == {measure.argv for measure in table_4.measures if "tiny" in measure.scales}
    assert list(tmp_path.rglob("*.txt")) == []


def test_the_output_of_a_failed_measure_is_printed_and_its_run_returned(tmp_path, capsys):
    jobs = jobs_of(item("figure-4"), "tiny", 2, tmp_path, lambda name: paper.recipe(name, "tiny"))

    def evaluate(given, log):
        log.write_text("opl: no weights\n" * given[1].endswith("opl/seed-1"))
        return int(given[1].endswith("opl/seed-1"))

    with Instant(2, evaluate) as executor:
        failed = measure_all(item("figure-4"), jobs, "tiny", tmp_path, executor)
    assert [(job.recipe, job.seed) for job in failed] == [("cifar100-resnet56-opl", 1)]
    assert capsys.readouterr().err.count("opl: no weights") == 1


def test_measures_are_not_written_behind_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0.txt").write_text("not ours")
    (tmp_path / ".measures").symlink_to(outside)
    with Instant(1, lambda argv, log: 0) as executor, pytest.raises(FolderError, match="is a link"):
        evaluate_all(lambda: [(RunFolder(tmp_path / "r"), ("geometry",))], tmp_path, executor, SHARE)
    assert [(file.name, file.read_text()) for file in outside.iterdir()] == [("0.txt", "not ours")]


def test_a_second_process_waits_and_measures_only_what_is_left(tmp_path):
    """The first process measures A and B; the second waits for it, and then finds nothing left."""
    wanted = [(RunFolder(tmp_path / name), ("geometry",)) for name in "ab"]
    measured, entered, end = [], threading.Event(), threading.Event()

    def evaluate(argv, log):
        entered.set()
        end.wait(10)
        measured.append(argv[1])
        return 0

    def measure():
        with Instant(1, evaluate) as executor:
            left = lambda: [(run, argv) for run, argv in wanted if str(run.path) not in measured]  # noqa: E731
            evaluate_all(left, tmp_path, executor, SHARE)

    first, second = threading.Thread(target=measure), threading.Thread(target=measure)
    first.start()
    entered.wait(10)
    second.start()
    second.join(0.3)
    assert second.is_alive()
    end.set()
    first.join(10)
    second.join(10)
    assert sorted(measured) == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_run_is_not_trained_behind_a_link(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "digits-ce").symlink_to(tmp_path / "outside")
    job = Job("digits-ce", 0, 1, RunFolder.of(tmp_path / "out", "digits-ce", 0))
    with Instant(1, lambda argv, log: 0) as executor, pytest.raises(FolderError, match="digits-ce is a link"):
        run_all([job], "tiny", tmp_path / "out", executor)
    assert list((tmp_path / "outside").iterdir()) == []
