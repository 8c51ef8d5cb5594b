"""The page: what is on disk, all of it, and nothing that was not meant to be on it."""

import json
import math
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from _page import Reader
from _runs import ITEM, ITEMS, METRICS, opl, write_everything, write_run, write_table
from opl.errors import FolderError
from opl.experiments.item import Item, Row
from opl.experiments.report import charts
from opl.experiments.report.charts import embed_json
from opl.experiments.report.groups import group_runs, new_rows
from opl.experiments.report.intervals import DifferenceAxis
from opl.experiments.report.markup import tag
from opl.experiments.report.page import write_report
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import lines, markdown, number
from opl.experiments.statistics import Interval

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&"


LIBRARY = charts.library


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    """Four megabytes of plotly in every page would only slow these tests down."""
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


def page_of(folder, items=ITEMS):
    return write_report(folder, items).read_text(encoding="utf-8")


def test_every_section_is_there_and_the_headings_are_in_order(tmp_path):
    read = Reader(page_of(write_everything(tmp_path)))
    sections = [given["id"] for name, given in read.tags if name == "section"]
    assert sections == ["overview", "tables", "curves", "geometry", "pictures", "settings", "run-again"]
    linked = [given["href"][1:] for name, given in read.tags if name == "a" and "href" in given]
    assert set(sections) <= set(linked) <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    levels = [level for level, _ in read.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for words in ("06f8644cf3", "2 cores, torch 2.13.0+cpu", "32 finished, 1 failed, 1 unfinished", "2026-11-15 21:00"):
        assert words in read.words
    assert "opl reproduce table-1 --scale small --seeds" in read.words


def test_numbers_are_those_of_the_tables_and_can_be_copied(tmp_path):
    write_table(tmp_path)
    page = page_of(tmp_path)
    read = Reader(page)
    found = lines(ITEM, read_runs(tmp_path), "small")
    for line in found:
        for name in METRICS:
            assert number(line.numbers[name]) in read.words
        for value in line.paper.values():
            assert f"{value:.2f}" in read.words
    difference = found[1].difference["test/top1"]
    assert f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]" in read.words
    copied = re.search(r'<pre id="copy-table-1-small" hidden>(.*?)</pre>', page, re.DOTALL).group(1)
    assert copied == markdown(ITEM, found)  # nothing in it needs an escape


def test_the_accent_is_for_whole_intervals_above_zero():
    axis = DifferenceAxis.over([Interval(2.0, 0.5, 3), Interval(0.5, 1.0, 3), Interval(math.nan, math.nan, 0)])
    assert (axis.low, axis.high) == (-0.5, 2.5)
    assert 'class="whisker gain"' in axis.draw(Interval(2.0, 0.5, 3))
    assert 'class="whisker"' in axis.draw(Interval(0.5, 1.0, 3))
    assert axis.draw(Interval(1.0, math.nan, 1)).count("<line") == 1  # zero alone: one seed has no interval
    assert DifferenceAxis.over([Interval(math.nan, math.nan, 0)]) is None


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
    records.write_text("".join(json.dumps(line) + "\n" for line in pruned))
    read = Reader(page_of(tmp_path))
    drawn = [values for values in read.values if isinstance(values, dict) and values["data"][0].get("meta")]
    assert len(drawn) == 4 + 2
    [line] = [
        trace
        for trace in drawn[5]["data"]
        if trace["meta"]["kind"] == "seed" and any(v is not None for v in trace["y"])
    ]
    assert line["y"] == pytest.approx([0.6 + 0.04 * epoch for epoch in range(10)])


def test_unfinished_failed_and_damaged_runs_are_shown_as_such(tmp_path):
    write_table(tmp_path, seeds=2)
    write_run(tmp_path, "cifar100-ce", 5, done=False)
    write_run(tmp_path, "cifar100-opl", 6, done=False, error="the loss is not finite: lower the learning rate.")
    broken = write_run(tmp_path, "cifar100-ole", 7)
    (broken / "result.json").write_text("{")
    states = {run.where: run.state for run in read_runs(tmp_path)}
    assert states["cifar100-ce/seed-5"] == "unfinished"
    assert states["cifar100-opl/seed-6"] == "failed"
    assert states["cifar100-ole/seed-7"] == "damaged"
    words = Reader(page_of(tmp_path)).words
    assert "cifar100-ce/seed-5 unfinished 5 of 10 epochs are done." in words
    assert "cifar100-opl/seed-6 failed the loss is not finite: lower the learning rate." in words
    assert "cifar100-ole/seed-7 damaged result.json cannot be read" in words


def test_hostile_names_and_sentences_stay_text(tmp_path):
    name = HOSTILE.replace("/", "⁄")  # a folder's name cannot have a slash
    write_run(tmp_path, name, error=HOSTILE, done=False)
    write_run(tmp_path, name, 1, class_names=(HOSTILE,) * 20, outputs=True)
    write_run(tmp_path, f"{name}2", 1, class_names=(HOSTILE,) * 20, outputs=True, method={"kind": HOSTILE})
    base, own = Row(HOSTILE, name, {}), Row("CE+OPL", f"{name}2", {}, name)
    items = {"t": Item("t", HOSTILE, "d", {"test/top1": HOSTILE}, (base, own), note=HOSTILE)}
    for known in (items, {}):
        read = Reader(page_of(tmp_path, known))
        assert [given for tag_name, given in read.tags if tag_name == "script" and "type" not in given] == [{}]
        assert all(given.get("src", "").startswith("data:") for tag_name, given in read.tags if tag_name == "img")
        assert not any(key.startswith("on") for _, given in read.tags for key in given)
        assert HOSTILE in read.words
    for path in tmp_path.rglob("recipe.json"):
        path.write_text(path.read_text().replace('"small"', json.dumps(HOSTILE)))
    assert not any(key.startswith("on") for _, given in Reader(page_of(tmp_path)).tags for key in given)


def test_half_a_letter_does_not_stop_the_page(tmp_path):
    path = write_run(tmp_path, "cifar100-ce")
    (path / "recipe.json").write_text((path / "recipe.json").read_text().replace("06f8644cf3", "\\ud800"))
    assert "git checkout '?'" in Reader(page_of(tmp_path)).words


def test_values_and_markup_are_escaped():
    assert "<" not in embed_json({HOSTILE: [HOSTILE, math.inf, 0.123456789]})
    assert json.loads(embed_json({"a": [HOSTILE, math.inf, 0.123456789]})) == {"a": [HOSTILE, None, 0.12346]}
    assert tag("p", HOSTILE, title=HOSTILE).count("<") == 2


def test_the_policy_of_the_page_lets_nothing_else_in(tmp_path):
    page = page_of(write_table(tmp_path, seeds=1))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src &#x27;none&#x27;" in policy
    assert policy.count("sha256-") == 2
    scripts = policy.split("script-src")[1]
    assert "unsafe" not in scripts
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


@pytest.mark.parametrize("cut", [1, 40, -1, -200])
def test_a_truncated_record_or_nan_is_a_gap(tmp_path, cut):
    write_table(tmp_path, seeds=1)
    path = tmp_path / "cifar100-ce" / "seed-0" / "metrics.jsonl"
    path.write_text(path.read_text()[:cut] + '\n{"epoch": 3, "s": NaN}\n5\n')
    result = tmp_path / "cifar100-opl" / "seed-0" / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), "test/top1": math.nan}))
    read = Reader(page_of(tmp_path))
    assert "curves" in read.ids
    assert "nan" in read.words  # a NaN is said, not hidden


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("recipe.json", b"{"),
        ("recipe.json", b"[]"),
        ("recipe.json", b'{"recipe": 5}'),
        ("recipe.json", b"\xff\xfe"),
        ("result.json", b"[]"),
        ("result.json", b"{}"),
        ("result.json", b'{"test/top1": "<b>", "seconds": null}'),
        ("metrics.jsonl", b"\xff\xfe\n"),
        ("metrics.jsonl", b'{"epoch": "a", "val/top1": {}}\n'),
        ("splits.json", b"{"),
        ("splits.json", b'{"class_names": 3, "groups": 3}'),
        ("test.npz", b"PK no archive"),
    ],
)
def test_a_damaged_file_leaves_a_page(tmp_path, name, content):
    write_table(tmp_path, seeds=2)
    (tmp_path / "cifar100-opl" / "seed-0" / name).write_bytes(content)
    read = Reader(page_of(tmp_path))
    assert {"overview", "tables", "run-again"} <= set(read.ids)
    assert "cifar100-opl/seed-0" in read.words


@pytest.mark.parametrize(
    "arrays",
    [
        {"similarity": np.ones((3, 4)), "labels": np.zeros(4, int)},
        {"features": np.full((400, 2), np.nan), "labels": np.zeros(400, int)},
        {"pixels": np.zeros((4, 8), np.uint8)},
        {"labels": np.full(400, 99), "features": np.ones((400, 2))},
        {"top5": np.zeros((2, 5), int)},
    ],
)
def test_outputs_of_the_wrong_shape_leave_a_page(tmp_path, arrays):
    write_table(tmp_path, seeds=1)
    path = tmp_path / "cifar100-opl" / "seed-0" / "test.npz"
    with np.load(path) as kept:
        np.savez(path, **{**dict(kept), **arrays})
    assert "geometry" in Reader(page_of(tmp_path)).ids


def test_runs_without_outputs_have_no_pictures(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", method=opl(1.0))
    read = Reader(page_of(tmp_path))
    assert "geometry" in read.ids
    assert "pictures" not in read.ids
    assert "settings" not in read.ids


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    assert "There are no runs in this folder yet" in Reader(page_of(tmp_path)).words
    with pytest.raises(FolderError, match="cannot write"):
        write_report(tmp_path / "nowhere", ITEMS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]  # nothing half-written is left


def test_tiny_numbers_are_marked(tmp_path):
    write_run(tmp_path, "cifar100-ce", scale="tiny")
    assert Reader(page_of(tmp_path)).words.count("numbers mean nothing") >= 2


def test_rows_shared_by_a_table_and_a_figure_are_shown_once(tmp_path):
    write_table(tmp_path, seeds=1)
    found = group_runs(read_runs(tmp_path), ITEMS)
    assert [group.item.name for group in found] == ["table-1"]
    write_run(tmp_path, "cifar100-opl-0.1-0.5", method=opl(0.1))
    write_run(tmp_path, "my-own", scale="paper")
    found = group_runs(read_runs(tmp_path), ITEMS)
    assert [group.item.name for group in found] == ["table-1", "figure-6", "other runs"]
    assert [len(rows) for _, rows in new_rows(found)] == [4, 1, 1]


def test_a_search_is_drawn_where_settings_differ(tmp_path):
    read = Reader(page_of(write_everything(tmp_path)))
    heat = next(values for values in read.values if isinstance(values, dict) and "texttemplate" in values["data"][0])
    assert heat["data"][0]["y"] == ["0.1", "0.5", "1", "2"]
    assert heat["data"][0]["x"] == ["0.5", "1"]
    assert heat["data"][0]["z"][2][1] is None  # weight 1 with gamma 1 was never run
    over = next(
        values for values in read.values if isinstance(values, dict) and values["layout"]["xaxis"].get("type") == "log"
    )
    assert [trace["name"] for trace in over["data"]] == ["baseline", "baseline", "CE+OPL, γ 0.5", "CE+OPL, γ 1"]


def test_pictures_carry_their_class_in_words(tmp_path):
    read = Reader(page_of(write_table(tmp_path, seeds=1)))
    images = [given for name, given in read.tags if name == "img"]
    assert 0 < len(images) <= 12
    assert all(given["alt"].startswith("Test picture of the class ") for given in images)


def test_without_plotly_the_page_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "library", lambda: "")
    read = Reader(page_of(write_everything(tmp_path)))
    assert "pip install plotly" in read.words
    assert "nearest" in read.words  # the matrices in words need no chart
    assert read.values == []
    assert not any(given.get("class") == "chart" for _, given in read.tags)


def test_two_hundred_runs_make_a_page_of_at_most_six_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(charts, "library", LIBRARY)
    for name in ("ce", "opl", "center", "ole"):
        for seed in range(50):
            kept = seed == 0
            write_run(tmp_path, f"cifar100-{name}", seed, epochs=100, outputs=kept, method=opl(1.0) if kept else None)
    path = write_report(tmp_path, ITEMS)
    assert 4_000_000 < path.stat().st_size <= 6_000_000
    assert "200 finished" in Reader(path.read_text(encoding="utf-8")).words


def test_charts_are_left_out_of_a_page_that_grows_too_large(tmp_path, monkeypatch):
    write_table(tmp_path)
    whole = len(Reader(page_of(tmp_path)).values)
    monkeypatch.setattr("opl.experiments.report.page.ROOMS", (800_000, 20_000))
    monkeypatch.setattr("opl.experiments.report.page.LARGEST", 100_000)
    read = Reader(page_of(tmp_path))
    assert 0 < len(read.values) < whole
    assert "This chart is left out" in read.words


def test_torch_is_not_needed(tmp_path):
    write_everything(tmp_path / "runs")
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.split('.')[0] == 'torch': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from _runs import ITEMS; from opl.experiments.report.page import write_report\n"
        "from opl.experiments import cli\n"
        f"write_report({str(tmp_path / 'runs')!r}, ITEMS)\n"
        f"assert cli.main(['report', {str(tmp_path / 'runs')!r}]) == 0\n"
        "assert not {'torch', 'matplotlib', 'datasets'} & set(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "runs" / "report.html").stat().st_size <= 6_000_000
