"""The rows of tables and figures, each shown once."""

import doctest

from _runs import ITEMS, opl, write_run, write_table
from opl.experiments.report import experiment, glossary, groups, templates
from opl.experiments.report.groups import group_runs, new_rows
from opl.experiments.results.runs import read_runs


def test_rows_shared_by_a_table_and_a_figure_are_shown_once(tmp_path):
    write_table(tmp_path, seeds=1)
    page_groups = group_runs(read_runs(tmp_path), ITEMS)
    assert [group.item.name for group in page_groups] == ["table-1"]
    write_run(tmp_path, "cifar100-opl-0.1-0.5", method=opl(0.1))
    write_run(tmp_path, "my-own", scale="paper")
    page_groups = group_runs(read_runs(tmp_path), ITEMS)
    assert [group.item.name for group in page_groups] == ["table-1", "figure-6", "other runs"]
    assert [len(rows) for _, rows in new_rows(page_groups)] == [4, 1, 1]


def test_examples_in_docstrings_are_true():
    for module in (experiment, glossary, groups, templates):
        failed, tried = doctest.testmod(module)
        assert tried, module
        assert not failed, module
