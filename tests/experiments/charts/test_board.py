"""The board: differences from the baseline by loss and measure, colored in the good direction, and sentences."""

import numpy as np
import pytest
from _chart_values import rows_with

from opl.errors import OptionError
from opl.experiments.charts import board
from opl.experiments.item import Item, Row

ROWS = (Row("CE", "ce", {}), Row("CE+OPL", "opl", {}, "ce"), Row("LMC", "lmc", {}, "ce"))
VALUES = {
    "test/top1": {"ce": (71.0, 71.2, 71.1), "opl": (71.1, 71.1, 71.2), "lmc": (69.0, 69.3, 69.1)},
    "test/map_at_r": {"ce": (21.0, 21.1, 21.2), "opl": (23.0, 23.2, 23.1), "lmc": (30.1, 30.0, 30.3)},
    "test/ece": {"ce": (0.02, 0.021, 0.022), "opl": (0.019, 0.0215, 0.0218), "lmc": (0.2, 0.202, 0.203)},
    "test/nc1": {"ce": (5.0, 5.1, 5.2), "opl": (4.0, 4.1, 4.3), "lmc": (3.0, 3.1, 3.3)},
}


@pytest.fixture
def rows(tmp_path):
    return rows_with(tmp_path, ROWS, VALUES)


def test_cells_are_mean_paired_differences_and_better_is_positive_in_every_column(rows):
    made = board.board(rows)
    assert made.labels == ("CE+OPL", "LMC")
    assert [info.title for info in made.infos] == ["top-1 %", "MAP@R %", "ECE", "NC1"]
    for column, values in enumerate(VALUES.values()):
        for row, name in enumerate(("opl", "lmc")):
            expected = np.mean(np.subtract(values[name], values["ce"]))
            assert made.cells[row][column].difference.mean == pytest.approx(expected)
    shades = made.shades()
    assert np.abs(shades).max(axis=0) == pytest.approx([1, 1, 1, 1])
    assert shades[1, :3] == pytest.approx([-1, 1, -1])  # lower accuracy, better retrieval, worse calibration


def test_the_sentence_of_a_loss_names_where_it_is_best_and_worst_and_what_is_significant(rows):
    opl, lmc = board.board(rows).sentences()
    assert lmc.startswith("LMC: best MAP@R, worst top-1 and ECE; significantly ")
    assert "worse top-1 and ECE" in lmc
    assert "better MAP@R" in lmc
    assert "lower NC1" in lmc
    assert opl.startswith("CE+OPL: best top-1")
    assert "better MAP@R" in opl


def test_losses_are_ranked_by_the_seeds_that_they_share_with_the_baseline(rows):
    """The mean of the third seed alone is above that of three seeds of CE, and below CE with the same seed."""
    (_, ce), (_, opl), _ = rows
    for run, accuracy in zip(ce, (60.0, 61.0, 72.0), strict=True):
        run.result["test/top1"] = accuracy
    opl[2].result["test/top1"] = 71.0
    del opl[:2]
    sentence = board.board(rows).sentences()[0]
    assert "worst top-1" in sentence
    assert "best top-1" not in sentence


def test_the_headline_is_the_sentence_of_its_row(item_and_runs, rows):
    assert board.render_headline(*item_and_runs, "small") == board.board(rows).sentences()[0]


def test_measures_that_runs_lack_are_dashes_and_the_only_loss_that_has_one_is_neither_best_nor_worst(rows):
    for run in rows[1][1]:
        del run.result["test/map_at_r"]
    made = board.board(rows)
    assert made.cells[0][1] is None
    assert made.cells[1][1] is not None
    assert "best MAP@R" not in made.sentences()[1]
    assert "–" in board.to_svg(made)
    assert board.data_table(made).rows[0][2] == "–"
    assert "–" in {text.get_text() for text in board.draw(made).axes[0].texts}


def test_significant_cells_are_framed_on_the_page_and_in_the_figure(rows):
    made = board.board(rows)
    significant = sum(cell.significant for cells in made.cells for cell in cells)
    assert 0 < significant < 8
    assert board.to_svg(made).count("stroke-width") == significant
    assert len(board.draw(made).axes[0].patches) == significant


def test_a_board_without_losses_is_an_error():
    with pytest.raises(OptionError, match="pass at least one loss"):
        board.draw(board.Board((), (), (), np.zeros((0, 0))))


@pytest.fixture
def item_and_runs(rows):
    item = Item("board", "a board", "digits", {"test/top1": "top-1 %"}, ROWS, headline="opl")
    return item, [run for _, runs in rows for run in runs]


def test_differences_in_markdown_have_means_of_the_baseline_and_bold_significant_cells(item_and_runs):
    text = board.render_differences(*item_and_runs, "small")
    heading, _, baseline, opl, lmc = (line.strip("| ").split(" | ") for line in text.split("\n\n")[0].splitlines())
    assert heading == ["loss", "top-1 % ↑", "MAP@R % ↑", "ECE ↓", "NC1"]
    assert baseline == ["CE", "71.10", "21.10", "0.0210", "5.100"]
    assert opl == ["CE+OPL", "+0.03", "**+2.00**", "-0.0002", "**-0.967**"]
    assert lmc[:3] == ["LMC", "**-1.97**", "**+9.03**"]
    assert text.count("\n- ") == 2
    assert "\n\n- CE+OPL: best top-1" in text


def test_expectations_sort_the_measures_of_the_headline_by_verdict_and_leave_out_those_without_direction(item_and_runs):
    _, _, buys, costs, unclear = board.render_expectations(*item_and_runs, "small").splitlines()
    assert buys.startswith("| **buys** | MAP@R: 21.10, +2.00 [")
    assert costs == "| **costs** | nothing significant |"
    assert "top-1: 71.10, +0.03 [" in unclear
    assert "<br>ECE: 0.0210, -0.0002 [" in unclear
    assert "NC1" not in buys + costs + unclear
