"""The rows of a table, from runs to Markdown, JSON and terminal."""

import doctest
import json
import math
import re
from dataclasses import replace

import pytest
from scipy import stats

from _runs import ITEM, write_run, write_table
from opl.experiments.item import Item, Quoted, Revision, Row
from opl.experiments.results import comparisons, runs, tables, text
from opl.experiments.results import document as results_document
from opl.experiments.results.comparisons import Line, format_interval, lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import Table, as_json, build_table, cells
from opl.experiments.results.text import document, show
from opl.experiments.run_folder import RunFolder
from opl.experiments.statistics import Interval

SETTING = "ResNet-56, 100 classes, 200 epochs"


def test_the_table_shows_paper_and_ours():
    item = Item("t", "title", "data", {"test/top1": "top-1 %"}, (Row("CE", "ce", {"test/top1": 99.27}),))
    line = Line("CE", "ce", (0, 1), {"test/top1": Interval(98.5, 0.25, 2)}, {}, {"test/top1": 99.27}, {}, "")
    assert "| CE | 2 | 98.50 ± 0.25 | 99.27 |" in document(Table(item, "small", [line], [], []))


def test_runs_older_than_a_revision_of_their_recipe_are_stale(tmp_path):
    write_table(tmp_path, seeds=2)  # started on 2026-11-15
    found = read_runs(tmp_path)
    later, earlier = (Revision(f"2026-11-{day}T00:00:00Z", "other weights.", ("cifar100-opl",)) for day in (16, 15))
    said = document(build_table(replace(ITEM, revisions=(later,)), found, "small"))
    assert "**stale** (2 runs from before 2026-11-16; CE+OPL): other weights." in said
    assert "stale" not in document(build_table(replace(ITEM, revisions=(earlier,)), found, "small"))
    of_d = replace(later, metrics=("test/d",))
    assert "**stale** d (2 runs" in document(build_table(replace(ITEM, revisions=(of_d,)), found, "small"))


def test_a_damaged_run_is_said_in_its_row_and_loses_no_other(tmp_path):
    write_table(tmp_path, seeds=2)
    (tmp_path / "cifar100-opl" / "seed-1" / "result.json").write_text("{")
    found = lines(ITEM, read_runs(tmp_path), "small")
    assert [line.seeds for line in found] == [(0, 1), (0,), (0, 1), (0, 1)]
    assert found[1].missing == "seed 1 damaged (result.json is not what the run wrote)"


def test_the_papers_numbers_stand_below_the_papers_setting_with_their_margins_and_top_5(tmp_path):
    write_table(tmp_path, seeds=2)
    first = replace(ITEM.rows[0], paper_margins={"test/top1": 0.8})
    item = replace(ITEM, setting=SETTING, rows=(first, *ITEM.rows[1:]))
    heading, body = cells(build_table(item, read_runs(tmp_path), "small"))
    assert heading[6:8] == [f"paper: {SETTING}, top-1 %", f"paper: {SETTING}, top-5 %"]
    assert [row[6:8] for row in body[:2]] == [["72.40 ± 0.80", "92.68"], ["73.52", "93.07"]]
    same, _ = cells(Table(item, "paper", lines(item, read_runs(tmp_path), "small"), [], []))
    assert same[6:8] == ["paper, top-1 %", "paper, top-5 %"]


def test_it_says_what_ran_and_the_items_note_everywhere(tmp_path, capsys):
    write_table(tmp_path, seeds=2)
    table = build_table(ITEM, read_runs(tmp_path), "small")
    show(table)
    printed = " ".join(capsys.readouterr().out.split())
    for said in (document(table), printed):
        assert ITEM.note in said
        assert "CifarResNet-8; Cifar100, 20 classes" in said
        assert "9,011 to 9,012 training, 989 validation, 2,000 test images" in said
        assert "10 epochs, batch size 128" in said
        assert "the last epoch is tested" in said
    assert as_json(table)["protocols"] == table.protocols
    assert json.dumps(as_json(table), allow_nan=False)


def test_rows_that_ran_differently_are_told_apart(tmp_path):
    write_table(tmp_path, seeds=1)
    write_run(tmp_path, "cifar100-longer", epochs=40)
    item = replace(ITEM, rows=(*ITEM.rows, Row("longer", "cifar100-longer", {})))
    found = build_table(item, read_runs(tmp_path), "small").protocols
    assert [sentence.split(":")[0] for sentence in found] == ["CE, CE+OPL, Center, OLE", "longer"]
    assert re.search(r"\b40 epochs", found[1])


def test_decisions_are_adjusted_for_all_comparisons_of_the_table(tmp_path):
    """Alone, the p-values are those of SciPy's paired test; the smallest of three is multiplied by three."""
    write_table(tmp_path, seeds=7)
    ce, *others = build_table(ITEM, read_runs(tmp_path), "small").lines
    values = [stats.ttest_rel(line.values["test/top1"], ce.values["test/top1"]).pvalue for line in others]
    decisions = [line.decisions["test/top1"] for line in others]
    assert [decision.alone for decision in decisions] == pytest.approx(values)
    smallest = min(decision.p for decision in decisions)
    assert min(decision.adjusted for decision in decisions) == pytest.approx(min(1.0, 3 * smallest))
    assert {decision.comparisons for decision in decisions} == {3}
    assert all(0 < decision.flips <= 1 for decision in decisions)
    assert ce.decisions == {}
    text = document(build_table(ITEM, read_runs(tmp_path), "small"))
    assert text.count("sign flips") == 3
    assert "of 3, sign flips" in text
    fewer = build_table(ITEM, [run for run in read_runs(tmp_path) if run.seed < 5], "small")
    assert "sign flips" not in document(fewer)
    assert all(math.isnan(line.decisions["test/top1"].flips) for line in fewer.lines[1:])


def test_rows_that_are_alike_are_said_to_be_within_half_a_point(tmp_path):
    """By two one-sided tests on the same numbers, of SciPy; and everywhere in the same words."""
    item = replace(ITEM, rows=ITEM.rows[:2])
    for seed in range(6):
        write_run(tmp_path, "cifar100-ce", seed)
        write_run(tmp_path, "cifar100-opl", seed)
    table = build_table(item, read_runs(tmp_path), "small")
    ce, opl = (line.values["test/top1"] for line in table.lines)
    shifted = [[value + margin for value in ce] for margin in (-0.5, 0.5)]
    sides = zip(shifted, ("greater", "less"), strict=True)
    p = max(stats.ttest_rel(opl, other, alternative=side).pvalue for other, side in sides)
    assert p < 0.05
    decision = table.lines[1].decisions["test/top1"]
    assert (decision.equivalence, decision.verdict) == (pytest.approx(p), "equivalent within ±0.5")
    assert f"equivalent within ±0.5 (p {decision.p:.2g}, two one-sided tests {p:.2g}" in document(table)
    assert as_json(table)["rows"][1]["decisions"]["test/top1"]["equivalence"] == pytest.approx(p)


def test_an_accuracy_is_never_said_to_be_above_100(tmp_path):
    for seed in range(2):
        write_run(tmp_path, "cifar100-ce", seed, gain=45.2)
    [line, *_] = build_table(replace(ITEM, rows=ITEM.rows[:1]), read_runs(tmp_path), "small").lines
    one = line.numbers["test/top1"]
    assert one.mean + one.half > 100
    assert format_interval(one) == f"{one.mean:.2f} [{one.mean - one.half:.2f}, 100.00]"
    assert format_interval(line.numbers["test/top1"]) in document(Table(ITEM, "small", [line], [], []))


def test_quoted_lines_have_only_the_papers_numbers(tmp_path):
    write_table(tmp_path, seeds=2)
    item = replace(ITEM, quoted=(Quoted("JiGen", {"test/top1": 80.51}),))
    table = build_table(item, read_runs(tmp_path), "small")
    assert "| JiGen | quoted | - | - | - | - | 80.51 | - | - |" in document(table)
    assert table.lines[1].decisions == build_table(ITEM, read_runs(tmp_path), "small").lines[1].decisions
    assert not any(line.quoted for line in lines(item, [], "tiny"))


def test_docstring_examples_are_true():
    for module in (comparisons, results_document, runs, tables, text):
        failed, attempted = doctest.testmod(module)
        assert (failed, attempted > 0) == (0, True), module.__name__


def test_a_measure_that_no_run_has_is_a_dash_and_hides_nothing_else(tmp_path):
    metrics = {"test/top1": "top-1 %", "test/map_at_r": "MAP@R %", "open-set/cifar10/knn/auroc": "open-set AUROC %"}
    item = Item("x", "x", "x", metrics, (Row("A", "a", {}), Row("B", "b", {}, "a"), Row("C", "c", {}, "a")))
    for recipe, seed, numbers in (
        ("a", 0, {"test/top1": 60.0, "test/map_at_r": 20.0}),
        ("a", 1, {"test/top1": 62.0, "test/map_at_r": 30.0}),
        ("b", 0, {"test/top1": 65.0, "test/map_at_r": 40.0}),
        ("b", 1, {"test/top1": 67.0}),
    ):
        folder = RunFolder.of(tmp_path, recipe, seed)
        folder.start({"name": recipe, "seed": seed, "scale": "small"}, {})
        folder.finish({}, numbers)
    heading, body = cells(build_table(item, read_runs(tmp_path), "small"))
    columns = {row[0]: dict(zip(heading, row, strict=True)) for row in body}
    assert {label: row["seeds"] for label, row in columns.items()} == {"A": "2", "B": "2", "C": "0"}
    assert {row["open-set AUROC %"] for row in columns.values()} == {"-"}
    assert columns["A"]["MAP@R %"].startswith("25.00 [")
    assert columns["B"]["MAP@R %"] == "40.00"
    assert columns["B"]["difference in top-1 %"].startswith("+5.00 [")
    assert columns["B"]["difference in top-1 %"].endswith("(MAP@R % of 1 of 2 seeds)")
    assert columns["C"]["difference in top-1 %"] == "-"
