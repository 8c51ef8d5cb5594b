"""Tables in words: the sentence about the effect of OPL, and rows on a terminal of any width."""

from dataclasses import replace

import pytest

from _runs import ITEM, opl, write_run, write_table
from _terminal import on_terminal
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.text import count_verdicts, describe_effect, show_columns, show_lines, show_rows

PAIR = replace(ITEM, rows=ITEM.rows[:2])
HEADING = ["method", "seeds", "top-1 %", "paper: ResNet-56, 100 classes, 200 epochs"]
BODY = [[f"CIFAR-100, uniform [a], variant {n}", "3", f"{70 + n}.25 ± 0.{n:02}", "-"] for n in range(30)]


def write_pair(folder, gain, seeds, pull=0.15):
    for seed in range(seeds):
        write_run(folder, "cifar100-ce", seed, pull=0.5)
        write_run(folder, "cifar100-opl", seed, pull=pull, gain=gain, method=opl(1.0))
    return read_runs(folder)


@pytest.mark.parametrize(
    ("gain", "seeds", "said"),
    [
        (3.0, 6, "OPL moved images of different classes apart (d 0.80 → 0.45) and raised accuracy: "),
        (-3.0, 6, "OPL moved images of different classes apart (d 0.80 → 0.45) and lowered accuracy: "),
        (
            0.0,
            9,
            "OPL moved images of different classes apart (d 0.80 → 0.45) and left accuracy unchanged, "
            "equivalent within ±0.5: ",
        ),
        (0.3, 2, "OPL moved images of different classes apart (d 0.80 → 0.45); no clear effect on accuracy yet: "),
        (3.0, 1, "OPL changed d (0.80 → 0.45); too few seeds to judge accuracy: "),
    ],
)
def test_the_verdict_is_a_sentence_made_from_the_runs(tmp_path, gain, seeds, said):
    runs = write_pair(tmp_path, gain, seeds)
    sentence = describe_effect(PAIR, runs, "small")
    assert sentence.startswith(said)
    ce, own = (line.numbers["test/top1"].mean for line in lines(PAIR, runs, "small"))
    digits = 1 if abs(own - ce) >= 0.05 else 2
    assert f"{own:.{digits}f} vs {ce:.{digits}f} %, {seeds} seed" in sentence


def test_d_that_rises_is_not_called_a_gain(tmp_path):
    sentence = describe_effect(PAIR, write_pair(tmp_path, 0.3, 3, pull=0.6), "small")
    assert sentence.startswith("OPL moved images of different classes closer together (d 0.80 → 0.90); ")


def test_without_a_pair_the_sentence_says_so(tmp_path):
    assert "No run of this table has finished yet: no run has started." in describe_effect(PAIR, [], "small")
    write_run(tmp_path, "cifar100-ce")
    runs = read_runs(tmp_path)
    assert "CE reached top-1 5" in describe_effect(PAIR, runs, "small")
    write_run(tmp_path, "cifar100-opl", 3)
    assert "have no finished run with the same seed yet" in describe_effect(PAIR, read_runs(tmp_path), "small")


def test_verdicts_of_rows_with_runs_are_counted_and_an_item_names_the_comparison_that_is_told_first(tmp_path):
    runs = read_runs(write_table(tmp_path, seeds=7))
    found = lines(ITEM, runs, "small")
    assert count_verdicts(found).startswith("All 3 comparisons, Holm-adjusted: 1 gain, 1 loss")
    assert count_verdicts(found[:2]) == ""
    pair = [run for run in runs if run.name in ("cifar100-ce", "cifar100-opl")]
    assert count_verdicts(lines(ITEM, pair, "small")) == ""  # the other rows have no runs
    assert describe_effect(ITEM, runs, "small").startswith("OPL ")
    other = ITEM.rows[-1]
    assert describe_effect(replace(ITEM, headline=other.recipe), runs, "small").startswith(f"{other.label} ")


@pytest.mark.parametrize("columns", [200, 80, 50, 30])
def test_every_cell_of_a_table_is_shown(columns):
    shown = on_terminal(lambda: show_rows("a title", HEADING, BODY) or 0, columns, 10)
    assert shown.code == 0, shown.raw[-1000:]
    assert shown.widest <= columns
    assert "…" not in shown.raw
    for label, _, number, _ in BODY:
        assert number in shown.text
        assert all(word in shown.text for word in label.split())
    assert shown.text.count("[a],") == len(BODY)
    assert shown.text.startswith("a title")
    assert ("-----" in shown.raw) == (columns >= 50)


def test_columns_and_lines_are_broken_on_a_terminal_alone(capsys):
    rows = [("name", "word " * 30, "end"), ("longer name", "x", "end")]

    def call():
        show_columns(rows)
        show_lines(["line " * 40])
        return 0

    shown = on_terminal(call, 40, 10)
    assert shown.widest <= 40
    assert shown.text.split().count("word") == 30
    assert shown.text.split().count("line") == 40
    call()
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["name", *["word"] * 30, "end"]
    assert second.index("x") == first.index("word")
    assert last == "line " * 40
