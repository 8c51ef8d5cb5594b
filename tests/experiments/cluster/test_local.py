"""Local processes: runs wait for those that they come after, and rows are measured with the words of their scale."""

from types import SimpleNamespace

import torch

from opl.experiments import tables
from opl.experiments.cluster.local import jobs_of, measure_all, run_all
from opl.experiments.item import Item, Row
from opl.experiments.tables import item


def test_runs_wait_for_those_that_they_come_after_and_fail_with_them(tmp_path, monkeypatch):
    after = {"teacher": "", "student": "teacher", "pupil": "student", "other": ""}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name])  # noqa: E731
    table = Item("x", "x", "x", {}, (Row("P", "pupil", {}), Row("O", "other", {})))
    jobs = jobs_of(table, "tiny", 2, tmp_path, look)
    assert [job.recipe for job in jobs] == ["teacher", "student", "pupil", "other"] * 2
    order = []

    def start(job, scale, out, at_once):
        job.folder.start({"name": job.recipe}, {})
        order.append(f"{job.recipe} {job.seed}")
        good = not (job.recipe == "student" and job.seed == 1)
        if good:
            job.folder.finish({"x": torch.zeros(1)}, {})
        job.process = SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr("opl.experiments.cluster.local._start", start)
    failed = run_all(jobs, "tiny", tmp_path, 2)
    for seed in (0, 1):
        assert order.index(f"teacher {seed}") < order.index(f"student {seed}")
    assert order.index("student 0") < order.index("pupil 0")
    assert "pupil 1" not in order
    assert "other 1" in order
    assert [(job.recipe, job.seed) for job in failed] == [("student", 1), ("pupil", 1)]
    assert "comes after student" in failed[1].state


def test_only_rows_are_measured_with_the_words_of_their_scale_and_warnings_are_shown(tmp_path, monkeypatch, capsys):
    asked, words = item("table-4"), []

    def measure(job, given, at_once):
        words.append((job.recipe, given))
        return SimpleNamespace(
            returncode=0, stderr="opl: warning: gradients may be masked" * (job.recipe[-4:] == "mart")
        )

    monkeypatch.setattr("opl.experiments.cluster.local._measure", measure)
    jobs = jobs_of(asked, "tiny", 1, tmp_path, lambda name: tables.recipe(name, "tiny"))
    assert "cifar100-robust-pretrained" in {job.recipe for job in jobs}
    assert measure_all(asked, jobs, 1, "tiny") == []
    assert capsys.readouterr().err.count("masked") == 1
    assert {name for name, _ in words} == {row.recipe for row in asked.at("tiny")}
    assert {given for _, given in words} == {("attack", "--eps", "8/255", "--images", "2")}
