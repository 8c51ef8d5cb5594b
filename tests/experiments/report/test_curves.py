"""The curves on the page: accuracy, cross-entropy, s and d apart, and every seed where seeds are few."""

import json
import re

import pytest
from _written_page import chart_of, page_of, table_of

from _page import Reader
from _runs import write_run, write_table
from _vouched import metric_lines, vouch
from opl.experiments.results.runs import read_runs


def add_to_records(run, **columns):
    """Add numbers to the epochs of a run that have been validated."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        del record["check"]
        record |= {name: value(record["epoch"]) for name, value in columns.items()}
    (run / "metrics.jsonl").write_text(metric_lines(records))
    vouch(run)


def test_accuracy_cross_entropy_s_and_d_have_a_chart_each(tmp_path):
    write_table(tmp_path, seeds=2)
    for run in tmp_path.glob("*/seed-*"):
        add_to_records(run, **{"val/loss": lambda epoch: 2.0 - 0.1 * epoch})
    page = page_of(tmp_path)
    part = page[page.index('id="table-1-small-curves"') :]
    shown, folded = part.split("More curves")[:2]
    titles = re.findall(r"<figcaption>(.*?)</figcaption>", shown)
    plain = [re.sub("<.*?>", "", title) for title in titles]
    assert [title.split(",")[0].split(":")[0] for title in plain] == [
        "validation accuracy",
        "validation cross-entropy",
        "s",
        "d",
    ]
    assert "training loss with all of a method" in folded  # not comparable, so it is folded away
    assert "training loss" not in shown


def test_few_seeds_are_lines_and_five_have_a_band(tmp_path):
    for seed in range(4):
        write_run(tmp_path, "cifar100-ce", seed)
    few = chart_of(page_of(tmp_path), "d: |cosine| between classes")
    assert (few.count('class="thin"'), few.count('class="thick"'), few.count('class="band"')) == (4, 1, 0)
    write_run(tmp_path, "cifar100-ce", 4)
    many = chart_of(page_of(tmp_path), "d: |cosine| between classes")
    assert (many.count('class="thin"'), many.count('class="thick"'), many.count('class="band"')) == (0, 1, 1)


def test_one_seed_is_one_line(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    chart = chart_of(page_of(tmp_path), "d: |cosine| between classes")
    assert (chart.count('class="thin"'), chart.count('class="thick"'), chart.count('class="band"')) == (0, 1, 0)


def test_the_table_behind_a_chart_has_every_seed(tmp_path):
    write_table(tmp_path, seeds=3)
    rows = table_of(page_of(tmp_path), "curves-table-1-small-val-top1")
    assert rows[0] == ["epoch", "CE", "CE+OPL", "Center", "OLE"]
    assert [row[0] for row in rows[1:]] == ["2", "4", "6", "8", "10"]  # validated every other epoch
    runs = [run for run in read_runs(tmp_path) if run.name == "cifar100-ce"]
    values = [run.records[9]["val/top1"] for run in runs]
    seeds = ", ".join(f"{value:.4g}" for value in values)
    assert rows[-1][1] == f"{sum(values) / 3:.4g} ({seeds})"


def test_what_pruning_keeps_is_drawn_for_the_runs_that_prune(tmp_path):
    write_table(tmp_path, seeds=1)
    run = tmp_path / "cifar100-opl/seed-0"
    add_to_records(run, kept=lambda epoch: 1 - 0.05 * epoch, **{"kept/clean": lambda epoch: 0.6 + 0.04 * epoch})
    rows = table_of(page_of(tmp_path), "curves-table-1-small-kept-clean")
    assert [float(row[2]) for row in rows[1:]] == pytest.approx([0.6 + 0.04 * epoch for epoch in range(10)])
    assert {row[1] for row in rows[1:]} == {"-"}


def test_an_unfinished_run_is_a_shorter_line(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", done=False)
    rows = table_of(page_of(tmp_path), "curves-table-1-small-d")
    assert [row[1:] != ["-", "-"] for row in rows[1:]] == [True] * 5
    assert [row[2] == "-" for row in rows[1:]] == [False, False, True, True, True]
    assert "Curves end where a run stopped" in Reader(page_of(tmp_path)).words
