"""The page: what is on disk, all of it, and nothing that was not meant to be on it."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from _written_page import page_of

from _page import Reader
from _runs import ITEMS, opl, write_everything, write_run, write_table
from opl.errors import FolderError
from opl.experiments.report import charts
from opl.experiments.report.page import write_report

LIBRARY = charts.library


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    """Four megabytes of plotly in every page would only slow these tests down."""
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


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


def test_the_policy_of_the_page_lets_nothing_else_in(tmp_path):
    page = page_of(write_table(tmp_path, seeds=1))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src &#x27;none&#x27;" in policy
    assert policy.count("sha256-") == 2
    scripts = policy.split("script-src")[1]
    assert "unsafe" not in scripts
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


def test_an_empty_folder_gives_a_page_that_says_so(tmp_path):
    assert "There are no runs in this folder yet" in Reader(page_of(tmp_path)).words
    with pytest.raises(FolderError, match="cannot write"):
        write_report(tmp_path / "nowhere", ITEMS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]  # nothing half-written is left


def test_tiny_numbers_are_marked(tmp_path):
    write_run(tmp_path, "cifar100-ce", scale="tiny")
    assert Reader(page_of(tmp_path)).words.count("numbers mean nothing") >= 2


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
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "runs" / "report.html").stat().st_size <= 6_000_000
