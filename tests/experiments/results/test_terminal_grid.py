"""Rows on a terminal of any width: a grid where it fits, otherwise paragraphs; nothing is lost, no line too wide."""

import pytest

from _terminal import on_terminal
from opl.experiments.results.text import show_columns, show_lines, show_rows

HEADING = ["method", "seeds", "top-1 %", "paper: ResNet-56, 100 classes, 200 epochs"]
BODY = [[f"CIFAR-100, uniform [a], variant {n}", "3", f"{70 + n}.25 ± 0.{n:02}", "-"] for n in range(30)]


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
    assert ("┃" in shown.raw) == (columns >= 50)


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
