"""Rows are measured with the words of their scale, and what a measure says is shown where it matters."""

from pathlib import Path

from _instant import Instant

from opl.experiments import paper
from opl.experiments.paper import item
from opl.experiments.runner.jobs import jobs_of
from opl.experiments.runner.measures import measure_all


def test_only_rows_are_measured_with_the_words_of_their_scale_and_warnings_are_shown(tmp_path, capsys):
    asked, words = item("table-4"), []

    def measure(given, log):
        assert given[0] == "evaluate"
        recipe = Path(given[1]).parent.name
        words.append((recipe, given[2:]))
        log.write_text("numbers\n" + "opl: warning: gradients may be masked\n" * (recipe == "cifar100-robust-mart"))
        return 0

    jobs = jobs_of(asked, "tiny", 1, tmp_path, lambda name: paper.recipe(name, "tiny"))
    assert "cifar100-robust-pretrained" in {job.recipe for job in jobs}
    with Instant(1, measure) as executor:
        assert measure_all(asked, jobs, "tiny", tmp_path, executor) == []
    said = capsys.readouterr().err
    assert said.count("masked") == 1
    assert "numbers" not in said
    assert {name for name, _ in words} == {row.recipe for row in asked.at("tiny")}
    assert {given for _, given in words} == {each.words for each in asked.measures if "tiny" in each.scales}
    assert list(tmp_path.iterdir()) == []


def test_a_measure_that_fails_says_why_and_names_its_run(tmp_path, capsys):
    jobs = jobs_of(item("figure-4"), "tiny", 2, tmp_path, lambda name: paper.recipe(name, "tiny"))

    def measure(given, log):
        log.write_text("opl: no weights\n" * given[1].endswith("opl/seed-1"))
        return int(given[1].endswith("opl/seed-1"))

    with Instant(2, measure) as executor:
        failed = measure_all(item("figure-4"), jobs, "tiny", tmp_path, executor)
    assert [(job.recipe, job.seed) for job in failed] == [("cifar100-resnet56-opl", 1)]
    assert capsys.readouterr().err.count("opl: no weights") == 1
