"""Every comparison on one axis, and the sentence above it."""

import re
from dataclasses import replace

import pytest
from _written_page import page_of

from _runs import ITEM, opl, write_run, write_table
from opl.experiments.report import forest, glossary, svg
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.text import count_verdicts, describe_effect

ONE = {"table-1": ITEM}
PAIR = replace(ITEM, rows=ITEM.rows[:2])


def strips(page):
    """The drawings of the comparisons, without the axis."""
    opening = page[page.index('class="forest"') if 'class="forest"' in page else page.index("cards forest") :]
    opening = opening[: opening.index("</table>")]
    return re.findall(r'<svg width="100%" height="26".*?</svg>', opening, re.DOTALL)


def test_few_seeds_are_dots_and_five_are_an_interval(tmp_path):
    write_table(tmp_path, seeds=3)
    drawn = strips(page_of(tmp_path, ONE))
    assert len(drawn) == 3
    assert all(each.count('class="seed"') == 3 and 'class="whisker"' not in each for each in drawn)
    for name in ("ce", "opl"):
        for seed in (3, 4):
            write_run(tmp_path, f"cifar100-{name}", seed, gain=2.1 if name == "opl" else 0.0)
    drawn = strips(page_of(tmp_path, ONE))
    assert [each.count('class="whisker"') for each in drawn] == [1, 0, 0]
    assert [each.count('class="seed"') for each in drawn] == [0, 3, 3]


def test_all_comparisons_share_an_axis_and_dots_stand_where_their_seeds_are(tmp_path):
    write_table(tmp_path, seeds=3)
    drawn = strips(page_of(tmp_path, ONE))
    table = lines(ITEM, read_runs(tmp_path), "small")
    places, values = [], []
    for each, line in zip(drawn, table[1:], strict=True):
        places += [float(place) for place in re.findall(r'cx="([\d.]+)%" cy="13.0" r="4"', each)]
        values += line.pairs["test/top1"]
    zeros = {re.search(r'x1="([\d.]+)%" x2="\1%" y1="0"', each).group(1) for each in drawn}
    [zero] = map(float, zeros)
    slopes = [(place - zero) / value for place, value in zip(places, values, strict=True) if abs(value) > 0.2]
    assert slopes == pytest.approx([slopes[0]] * len(slopes), rel=0.03)


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
    page = page_of(tmp_path, {"table-1": chosen})
    assert re.search(r"<option[^>]*>([^<]*)", page).group(1) == f"{other.label} against CE"


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


def test_the_docstrings_examples_are_true():
    import doctest

    for module, examples in ((svg, 4), (forest, 1), (glossary, 1)):
        assert doctest.testmod(module) == (0, examples), module
