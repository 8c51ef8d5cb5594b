"""Runs of an item: they wait for those that they come after, and one failure stops only what comes after it."""

from types import SimpleNamespace

import torch
from _instant import Instant

from opl.experiments.item import Item, Row
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.jobs import jobs_of, run_all


def test_runs_wait_for_those_that_they_come_after_and_fail_with_them(tmp_path):
    after = {"teacher": "", "student": "teacher", "pupil": "student", "other": ""}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name], members=())  # noqa: E731
    table = Item("x", "x", "x", {}, (Row("P", "pupil", {}), Row("O", "other", {})))
    jobs = jobs_of(table, "tiny", 2, tmp_path, look)
    assert [job.recipe for job in jobs] == ["teacher", "student", "pupil", "other"] * 2
    order = []

    def train(words, log):
        assert words == ("train", words[1], "--seed", words[3], "--scale", "tiny", "--out", str(tmp_path), *words[-2:])
        assert words[-2:] == ("--wait", "30.0")
        folder = RunFolder.of(tmp_path, words[1], int(words[3]))
        assert log == folder.log_file
        folder.start({"name": words[1]}, {})
        order.append(f"{words[1]} {words[3]}")
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
    assert "comes after student" in failed[1].state


def test_members_of_a_family_are_run_with_its_row_and_wait_for_their_base_alone(tmp_path):
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
    with Instant(1, lambda words, log: 1) as executor:
        assert run_all(jobs, "tiny", tmp_path, executor) == []
    assert jobs[0].state == "done"
