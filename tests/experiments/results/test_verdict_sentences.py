"""The sentence that says what OPL did to the geometry and to the accuracy."""

from dataclasses import replace

import pytest

from _runs import ITEM, opl, write_run, write_table
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.text import count_verdicts, describe_effect

PAIR = replace(ITEM, rows=ITEM.rows[:2])


def write_pair(folder, gain, seeds, pull=0.15):
    for seed in range(seeds):
        write_run(folder, "cifar100-ce", seed, pull=0.5)
        write_run(folder, "cifar100-opl", seed, pull=pull, gain=gain, method=opl(1.0))
    return read_runs(folder)


@pytest.mark.parametrize(
    ("gain", "seeds", "said"),
    [
        (3.0, 6, "OPL set the classes apart (d 0.80 → 0.45) and raised the accuracy: "),
        (-3.0, 6, "OPL set the classes apart (d 0.80 → 0.45) and lowered the accuracy: "),
        (0.0, 9, "OPL set the classes apart (d 0.80 → 0.45) and left the accuracy as it was, equivalent within ±0.5: "),
        (0.3, 2, "OPL set the classes apart (d 0.80 → 0.45); whether it changes the accuracy is undecided: "),
        (3.0, 1, "OPL moved the classes (d 0.80 → 0.45); whether it changes the accuracy cannot be told from so few "),
    ],
)
def test_the_verdict_is_a_sentence_made_from_the_runs(tmp_path, gain, seeds, said):
    runs = write_pair(tmp_path, gain, seeds)
    sentence = describe_effect(PAIR, runs, "small")
    assert sentence.startswith(said)
    ce, own = (line.numbers["test/top1"].mean for line in lines(PAIR, runs, "small"))
    digits = 1 if abs(own - ce) >= 0.05 else 2
    assert f"{own:.{digits}f} against {ce:.{digits}f} %, {seeds} seed" in sentence


def test_an_item_can_name_the_comparison_that_is_told_first(tmp_path):
    runs = read_runs(write_table(tmp_path, seeds=3))
    other = ITEM.rows[-1]
    assert describe_effect(ITEM, runs, "small").startswith("OPL ")
    chosen = replace(ITEM, headline=other.recipe)
    assert describe_effect(chosen, runs, "small").startswith(f"{other.label} ")


def test_d_that_rises_is_not_called_a_gain(tmp_path):
    sentence = describe_effect(PAIR, write_pair(tmp_path, 0.3, 3, pull=0.6), "small")
    assert sentence.startswith("OPL moved the classes closer together (d 0.80 → 0.90); ")


def test_without_a_pair_the_sentence_says_so(tmp_path):
    assert "No run of this table has finished yet: none has started." in describe_effect(PAIR, [], "small")
    write_run(tmp_path, "cifar100-ce")
    runs = read_runs(tmp_path)
    assert "CE reached top-1 5" in describe_effect(PAIR, runs, "small")
    write_run(tmp_path, "cifar100-opl", 3)
    assert "no finished run of the same seed" in describe_effect(PAIR, read_runs(tmp_path), "small")


def test_verdicts_are_counted(tmp_path):
    found = lines(ITEM, read_runs(write_table(tmp_path, seeds=7)), "small")
    said = count_verdicts(found)
    assert said.startswith("All 3 comparisons, after Holm's adjustment: 1 gain, 1 loss")
    assert count_verdicts(found[:2]) == ""


def test_rows_without_runs_are_no_comparisons(tmp_path):
    write_pair(tmp_path, 0.3, 3)
    assert count_verdicts(lines(ITEM, read_runs(tmp_path), "small")) == ""
