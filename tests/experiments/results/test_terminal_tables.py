"""Every table on terminals of 80, 100 and 120 columns and in a pipe, from made-up results."""

import io
import re
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import pytest

from _terminal import on_terminal
from opl.experiments.item import Quoted
from opl.experiments.paper import ITEMS
from opl.experiments.results.comparisons import format_interval, lines
from opl.experiments.results.tables import PAPER, QUOTED, Table, headings_of, short_label
from opl.experiments.results.text import show
from opl.experiments.scales import SCALES

PROTOCOL = "Ours: SomeNetwork-8 (width 16); SomeData, 20 classes, 9,011 training images; 12 epochs, batch size 64."
RULE = re.compile(r"-[- ]*")


def made_up_run(recipe, seed, scale, result):
    fields = {"name": recipe, "seed": seed, "scale": scale, "state": "done", "result": result, "sentence": ""}
    return SimpleNamespace(**fields, measure=lambda name: {})


@cache
def made_up_table(name, scale):
    """Three seeds of every row, of which the second row with a baseline lacks two; accuracies near 100 %."""
    item = ITEMS[name].for_scale(scale)
    runs = []
    for index, row in enumerate(item.at(scale)):
        for seed in range(1 if index == 3 else 3):
            value = 98.7 + index / 40 + (seed - 1) * (1 + index % 3) / 3
            result = {metric: value if "%" in title else value / 100 for metric, title in item.metrics.items()}
            runs.append(made_up_run(row.recipe, seed, scale, result))
    return Table(item, scale, lines(item, runs, scale), [PROTOCOL], [])


def every_table():
    for name, item in ITEMS.items():
        for scale in SCALES:
            if item.metrics and item.at(scale):
                yield made_up_table(name, scale)


def show_all():
    for table in every_table():
        show(table)
        print("=====")
    return 0


def pieces(text):
    return [part.strip("\n") for part in text.split("=====\n")[:-1]]


@pytest.fixture(scope="module")
def piped():
    with redirect_stdout(io.StringIO()) as stream:
        show_all()
    return pieces(stream.getvalue())


def test_a_pipe_gets_every_row_on_one_line_with_every_column(piped):
    for table, text in zip(every_table(), piped, strict=True):
        title, _, heading, *rest = text.splitlines()
        assert title.startswith(f"{table.item.name}: {table.item.title}, scale {table.scale}")
        for metric in table.item.metrics.values():
            assert metric in heading, table.item.name
        body = [line for line in rest if not RULE.fullmatch(line)]
        for line in table.lines:
            wanted = [format_interval(line.numbers[name]) for name in line.numbers]
            wanted += [f"{line.paper[name]:.2f}" for name in table.with_paper if name in line.paper]
            wanted += [decision.verdict for name, decision in line.decisions.items() if line.difference[name].size]
            row = next(row for row in body if all(part in row for part in wanted) and row.split()[0] in line.label)
            assert row.split("  ")[0] in line.label
            body.remove(row)
        assert PROTOCOL in rest


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_a_terminal_breaks_no_word_and_crops_nothing(columns, piped):
    shown = on_terminal(show_all, columns, 50)
    assert shown.code == 0, shown.raw[-1000:]
    assert shown.widest <= columns
    assert "…" not in shown.raw
    printed = pieces("\n".join(shown.lines) + "\n")
    for table, text, whole in zip(every_table(), printed, piped, strict=True):
        sentence = f"Left out at {columns} columns: table.md and the page have every column."
        known = {*whole.split(), *(word.rstrip(";") for word in sentence.split())}
        words = [word for word in text.split() if not RULE.fullmatch(word)]
        broken = {word for word in words if word not in known and word.rstrip(",;") not in known}
        assert not broken, f"{table.item.name}, scale {table.scale}: {broken}"
        assert " ".join(words).startswith(f"{table.item.name}: {table.item.title}, scale {table.scale}")
        assert PROTOCOL in " ".join(words)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_compared_numbers_and_verdicts_are_at_every_width(columns):
    shown = on_terminal(show_all, columns, 50)
    for table, text in zip(every_table(), pieces("\n".join(shown.lines) + "\n"), strict=True):
        left_out = re.sub(r"\s+", " ", text).partition("Left out at")[2].partition("; table.md")[0]
        for name in table.item.main:
            assert f", {table.item.metrics[name]}" not in left_out.replace(f"{PAPER}'s", "")
            for line in table.lines:
                if name in line.numbers:
                    assert format_interval(line.numbers[name]) in text
                if name in line.decisions and line.difference[name].size:
                    assert all(word in text.split() for word in line.decisions[name].verdict.split())


def test_columns_are_left_out_in_the_stated_order():
    table = made_up_table("table-1", "paper")
    gone = []
    for columns in range(200, 75, -5):
        text = " ".join(on_terminal(lambda: show(table) or 0, columns, 50).text.split())
        listed = re.search(r"Left out at \d+ columns: (.*?); table.md", text)
        gone.append(set(listed[1].split(", ")) if listed else set())
    assert gone[0] == set()
    assert all(wide <= narrow for wide, narrow in pairwise(gone))
    order = ["paper's top-5 %", "d", "s", "top-5 %", "seeds", "paper's top-1 %"]
    for names in gone:
        assert names == set(order[: len(names)])
    assert len(gone[-1]) >= 4


def test_two_networks_are_two_groups_with_their_headings_once():
    table = made_up_table("table-1", "paper")
    assert [*dict.fromkeys(headings_of(table))] == ["ResNet-56", "ResNet-110"]
    shown = on_terminal(lambda: show(table) or 0, 100, 50)
    assert [line for line in shown.lines if line in ("ResNet-56", "ResNet-110")] == ["ResNet-56", "ResNet-110"]
    here = replace(table, networks={line.recipe: "net-8" if "56" in line.recipe else "net-14" for line in table.lines})
    assert [*dict.fromkeys(headings_of(here))] == ["ResNet-56 (here net-8)", "ResNet-110 (here net-14)"]


def test_data_sets_are_groups_and_quoted_lines_are_apart():
    table = made_up_table("table-6", "small")
    assert [*dict.fromkeys(headings_of(table))] == ["CIFAR-FS", "miniImageNet", "tieredImageNet", QUOTED]
    assert {short_label(line.label, "CIFAR-FS") for line in table.lines[:4]} == {
        "RFS", "RFS+OPL", "SKD Gen-0", "SKD Gen-0+OPL",
    }  # fmt: skip
    narrow = on_terminal(lambda: show(table) or 0, 80, 50)
    assert "1-shot %" in narrow.text
    assert "5-shot %" in narrow.text


def test_quoted_lines_are_printed_with_the_papers_numbers_alone():
    item = ITEMS["table-1"]
    few = replace(item, rows=item.rows[:2], quoted=(Quoted("Somebody's loss", {"test/top1": 71.5}),))
    made = Table(few, "paper", lines(few, [], "paper"), [], [])
    wide, narrow = (on_terminal(lambda: show(made) or 0, columns, 50).text for columns in (120, 36))
    assert "Somebody's loss quoted - - - - 71.50" in wide
    assert "Somebody" not in narrow


def test_a_label_below_its_heading_does_not_repeat_it_and_is_never_empty():
    assert short_label("half CE, SGD", "half (here net-8)") == "CE, SGD"
    assert short_label("half", "half") == "half"
    for table in every_table():
        assert all(
            short_label(line.label, heading) for line, heading in zip(table.lines, headings_of(table), strict=True)
        )
