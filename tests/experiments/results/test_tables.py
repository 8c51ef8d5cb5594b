"""The rows of a table, from runs to Markdown."""

from _runs import ITEM, write_table
from opl.experiments.item import Item, Row
from opl.experiments.results import tables
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import lines
from opl.experiments.statistics import Interval


def test_the_table_shows_paper_and_ours():
    item = Item("t", "title", "data", {"test/top1": "top-1 %"}, (Row("CE", "ce", {"test/top1": 99.27}),))
    line = tables.Line("CE", "ce", (0, 1), {"test/top1": Interval(98.5, 0.25, 2)}, {}, {"test/top1": 99.27}, {}, "")
    text = tables.markdown(item, [line])
    assert "| CE | 2 | 98.50 ± 0.25 | 99.27 |" in text


def test_a_damaged_run_is_said_in_its_row_and_loses_no_other(tmp_path):
    write_table(tmp_path, seeds=2)
    (tmp_path / "cifar100-opl" / "seed-1" / "result.json").write_text("{")
    found = lines(ITEM, read_runs(tmp_path), "small")
    assert [line.seeds for line in found] == [(0, 1), (0,), (0, 1), (0, 1)]
    assert found[1].missing == "seed 1 damaged"
