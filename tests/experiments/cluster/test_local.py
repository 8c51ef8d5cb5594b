"""Runs of an item: they wait for those that they come after, and rows are measured with the words of their scale."""

from pathlib import Path
from types import SimpleNamespace

import torch

from opl.experiments import tables
from opl.experiments.cluster.commands import Commands
from opl.experiments.cluster.local import jobs_of, measure_all, run_all
from opl.experiments.item import Item, Row
from opl.experiments.run_folder import RunFolder
from opl.experiments.tables import item


class Instant(Commands):
    """Ends every command when it starts, with the exit code that a function returns."""

    def __init__(self, at_once, execute):
        super().__init__(at_once)
        self.execute = execute

    def _start(self, place, words, log):
        code = self.execute(words, log)
        return SimpleNamespace(poll=lambda: code)


def test_runs_wait_for_those_that_they_come_after_and_fail_with_them(tmp_path):
    after = {"teacher": "", "student": "teacher", "pupil": "student", "other": ""}
    look = lambda name: SimpleNamespace(epochs=1, after=after[name])  # noqa: E731
    table = Item("x", "x", "x", {}, (Row("P", "pupil", {}), Row("O", "other", {})))
    jobs = jobs_of(table, "tiny", 2, tmp_path, look)
    assert [job.recipe for job in jobs] == ["teacher", "student", "pupil", "other"] * 2
    order = []

    def train(words, log):
        assert words == ("train", words[1], "--seed", words[3], "--scale", "tiny", "--out", str(tmp_path))
        folder = RunFolder.of(tmp_path, words[1], int(words[3]))
        assert log == folder.log_file
        folder.start({"name": words[1]}, {})
        order.append(f"{words[1]} {words[3]}")
        if order[-1] == "student 1":
            return 1
        folder.finish({"x": torch.zeros(1)}, {})
        return 0

    failed = run_all(jobs, "tiny", tmp_path, Instant(2, train))
    for seed in (0, 1):
        assert order.index(f"teacher {seed}") < order.index(f"student {seed}")
    assert order.index("student 0") < order.index("pupil 0")
    assert "pupil 1" not in order
    assert "other 1" in order
    assert [(job.recipe, job.seed) for job in failed] == [("student", 1), ("pupil", 1)]
    assert "comes after student" in failed[1].state


def test_only_rows_are_measured_with_the_words_of_their_scale_and_warnings_are_shown(tmp_path, capsys):
    asked, words = item("table-4"), []

    def measure(given, log):
        assert given[0] == "evaluate"
        recipe = Path(given[1]).parent.name
        words.append((recipe, given[2:]))
        log.write_text("numbers\n" + "opl: warning: gradients may be masked\n" * (recipe == "cifar100-robust-mart"))
        return 0

    jobs = jobs_of(asked, "tiny", 1, tmp_path, lambda name: tables.recipe(name, "tiny"))
    assert "cifar100-robust-pretrained" in {job.recipe for job in jobs}
    assert measure_all(asked, jobs, "tiny", Instant(1, measure)) == []
    said = capsys.readouterr().err
    assert said.count("masked") == 1
    assert "numbers" not in said
    assert {name for name, _ in words} == {row.recipe for row in asked.at("tiny")}
    assert {given for _, given in words} == {each.words for each in asked.measures if "tiny" in each.scales}


def test_a_measure_that_fails_says_why_and_names_its_run(tmp_path, capsys):
    jobs = jobs_of(item("figure-4"), "tiny", 2, tmp_path, lambda name: tables.recipe(name, "tiny"))

    def measure(given, log):
        log.write_text("opl: no weights\n" * given[1].endswith("opl/seed-1"))
        return int(given[1].endswith("opl/seed-1"))

    failed = measure_all(item("figure-4"), jobs, "tiny", Instant(2, measure))
    assert [(job.recipe, job.seed) for job in failed] == [("cifar100-resnet56-opl", 1)]
    assert capsys.readouterr().err.count("opl: no weights") == 1
