"""The tables on the page, and their text to copy."""

import html
import re

from _written_page import page_of

from _page import Reader
from _runs import ITEM, METRICS, write_table
from opl.experiments.results.comparisons import format_interval
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document


def test_numbers_are_those_of_the_tables_and_can_be_copied(tmp_path):
    write_table(tmp_path)
    page = page_of(tmp_path)
    read = Reader(page)
    table = build_table(ITEM, read_runs(tmp_path), "small")
    found = table.lines
    for line in found:
        for name in METRICS:
            assert format_interval(line.numbers[name]) in read.words
        for value in line.paper.values():
            assert f"{value:.2f}" in read.words
    difference = found[1].difference["test/top1"]
    assert f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]" in read.words
    copied = re.search(r'<pre id="copy-table-1-small" hidden>(.*?)</pre>', page, re.DOTALL).group(1)
    assert html.unescape(copied) == document(table)
