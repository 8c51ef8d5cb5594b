"""The curves on the page."""

import json

import pytest
from _written_page import page_of

from _page import Reader
from _runs import write_table
from _vouched import metric_lines, vouch
from opl.experiments.report import charts


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    """Four megabytes of plotly in every page would only slow these tests down."""
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


def test_curves_have_a_mean_a_band_and_a_line_for_each_seed(tmp_path):
    write_table(tmp_path)
    read = Reader(page_of(tmp_path))
    drawn = [values for values in read.values if isinstance(values, dict) and values["data"][0].get("meta")]
    assert len(drawn) == 4
    for values in drawn:
        kinds = [trace["meta"]["kind"] for trace in values["data"]]
        assert (kinds.count("mean"), kinds.count("seed")) == (2 * 4, 3 * 4)
    assert drawn[0]["data"][0]["x"] == [2, 4, 6, 8, 10]  # validated every other epoch
    assert drawn[1]["data"][0]["x"] == list(range(1, 11))


def test_what_pruning_keeps_is_drawn_for_the_runs_that_prune(tmp_path):
    write_table(tmp_path, seeds=1)
    records = tmp_path / "cifar100-opl/seed-0/metrics.jsonl"
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    pruned = [line | {"kept": 1 - 0.05 * line["epoch"], "kept/clean": 0.6 + 0.04 * line["epoch"]} for line in lines]
    for line in pruned:
        del line["check"]
    records.write_text(metric_lines(pruned))
    vouch(records.parent)
    read = Reader(page_of(tmp_path))
    drawn = [values for values in read.values if isinstance(values, dict) and values["data"][0].get("meta")]
    assert len(drawn) == 4 + 2
    [line] = [
        trace
        for trace in drawn[5]["data"]
        if trace["meta"]["kind"] == "seed" and any(v is not None for v in trace["y"])
    ]
    assert line["y"] == pytest.approx([0.6 + 0.04 * epoch for epoch in range(10)])
