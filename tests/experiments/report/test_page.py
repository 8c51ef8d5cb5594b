"""The page as a whole: by experiment, within its size, without network, and without torch."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from _written_page import page_of

import opl as opl_package
from _page import Reader
from _runs import ITEM, ITEMS, opl, write_everything, write_run, write_table
from opl.errors import FolderError
from opl.experiments.report.page import write_report
from opl.experiments.results.conformity import screen
from opl.experiments.results.runs import read_runs

ONE = {"table-1": ITEM}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return page_of(write_everything(tmp_path_factory.mktemp("runs")))


def test_experiments_come_first_then_glossary_runs_and_commands(everything):
    read = Reader(everything)
    sections = [given["id"] for name, given in read.tags if name == "section"]
    assert sections == ["table-1-small", "figure-6-small", "figure-2-small", "glossary", "runs", "again"]
    linked = [given["href"][1:] for name, given in read.tags if name == "a" and "href" in given]
    assert set(sections) <= set(linked) <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    levels = [level for level, _ in read.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for words in ("06f8644cf3", "torch 2.13.0+cpu", "32 finished, 1 failed, 1 unfinished", "2026-11-15 21:00"):
        assert words in read.words
    # the verdict before the commit
    assert read.words.index("moved images of different classes apart") < read.words.index("06f8644cf3")
    assert "opl reproduce table-1 --scale small --seeds" in read.words


def test_the_parts_of_an_experiment_are_in_order(tmp_path):
    read = Reader(page_of(write_table(tmp_path, seeds=2), ONE))
    parts = ["table", "seeds", "features", "classes", "curves", "pictures", "sweeps", "settings"]
    present = [key.removeprefix("table-1-small-") for key in read.ids if key.startswith("table-1-small-")]
    assert [key for key in present if key in parts] == [part for part in parts if part != "sweeps"]
    links = [given["href"] for name, given in read.tags if name == "a" and given.get("href", "").startswith("#table-1")]
    assert {f"#table-1-small-{part}" for part in parts if part != "sweeps"} <= set(links)


def test_terms_are_explained_where_they_first_appear(tmp_path):
    page = page_of(write_table(tmp_path, seeds=2), ONE)
    verdict = re.search(r'<p class="verdict">(.*?)</p>', page).group(1)
    assert re.findall(r'href="#(.*?)"', verdict) == ["term-opl", "term-d"]
    meanings = dict(re.findall(r'<dd id="(term-\w+)">(.*?)</dd>', page))
    assert meanings["term-ce"].startswith("cross-entropy")
    assert "right angles" in meanings["term-d"]
    described = [given["aria-describedby"] for _, given in Reader(page).tags if given.get("class") == "term"]
    assert set(described) <= set(Reader(page).ids)


def test_the_tab_key_reaches_every_chart_and_its_label_describes_it(everything):
    charts = [given for name, given in Reader(everything).tags if given.get("class") in ("chart", "matrix")]
    assert len(charts) > 20
    assert all(given["tabindex"] == "0" and given["role"] == "img" and given["aria-label"] for given in charts)


def test_every_figure_has_its_numbers_as_a_table(everything):
    """Matrices and the charts of seeds share one table below them; a heat map is a table itself."""
    figures = re.findall(r"<figure.*?</figure>", everything, re.DOTALL)
    own = [each for each in figures if 'class="data"' in each or "<table" in each]
    shared = [each for each in figures if 'class="matrix"' in each or 'class="dots"' in each]
    assert len(own) + len(shared) == len(figures)
    assert shared
    for part in ("seeds", "classes"):
        content = everything[everything.index(f'id="table-1-small-{part}"') :]
        assert '<details class="data">' in content[: content.index('class="part"', 100)]


def test_the_security_policy_allows_only_the_script_of_the_page(tmp_path):
    page = page_of(write_table(tmp_path, seeds=1))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src &#39;none&#39;" in policy
    assert policy.count("sha256-") == 1
    assert "unsafe" not in policy.split("script-src")[1]
    assert not re.search(r"https?://(?!www\.w3\.org)", page)


def test_the_page_of_an_empty_folder_says_what_to_do(tmp_path):
    assert "There are no runs in this folder yet" in Reader(page_of(tmp_path)).words
    with pytest.raises(FolderError, match="cannot write"):
        write_report(tmp_path / "nowhere", ITEMS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]  # nothing half-written is left


def test_tiny_numbers_are_marked(tmp_path):
    write_run(tmp_path, "cifar100-ce", scale="tiny")
    assert Reader(page_of(tmp_path)).words.count("numbers mean nothing") >= 2


def test_one_seed_has_no_interval(tmp_path):
    read = Reader(page_of(write_table(tmp_path, seeds=1), ONE))
    assert "too few seeds to judge accuracy" in read.words
    assert "too few seeds to tell" in read.words
    assert "±0." not in read.words.split("Glossary")[0].replace("±0.5", "")
    forest = read.words.split("verdict", 1)[1].split("Paper and ours")[0]
    assert not re.search(r"[+-]\d+\.\d+ \[", forest)


def test_failed_and_incomparable_runs_are_counted_before_the_table(tmp_path):
    write_table(tmp_path, seeds=2)
    write_run(tmp_path, "cifar100-opl", 6, done=False, error="the loss is not finite: lower the learning rate.")
    write_run(tmp_path, "cifar100-opl", 7, method=opl(1.0), epochs=4)
    write_run(tmp_path, "cifar100-ce", 7, method={"kind": "CrossEntropy"})
    runs = screen(read_runs(tmp_path), [ITEM])
    page = write_report(tmp_path, ONE, runs=runs).read_text(encoding="utf-8")
    words = Reader(page).words
    assert "2 of 11 runs are not in these numbers: 1 failed, 1 not comparable." in words
    assert words.index("2 of 11 runs") < words.index("Paper and ours")
    assert "the loss is not finite: lower the learning rate." in words
    marked = re.findall(r"<mark>(.*?)</mark>", page)
    assert "differs from its baseline in epochs" in marked


def test_the_page_of_one_table_has_at_most_three_megabytes(tmp_path):
    for name in ("ce", "opl", "center", "ole"):
        for seed in range(20):
            kept = seed == 0
            method = opl(1.0) if name == "opl" else None
            write_run(tmp_path, f"cifar100-{name}", seed, epochs=100, outputs=kept, method=method)
    path = write_report(tmp_path, ONE)
    assert path.stat().st_size <= 3_000_000
    words = Reader(path.read_text(encoding="utf-8")).words
    assert "80 finished" in words
    assert "is left out" not in words


def test_charts_are_left_out_of_a_page_that_is_too_large(tmp_path, monkeypatch):
    write_table(tmp_path, seeds=1)
    whole = len(Reader(page_of(tmp_path)).values)
    monkeypatch.setattr("opl.experiments.report.page.BUDGETS", (800_000, 20_000))
    monkeypatch.setattr("opl.experiments.report.page.LARGEST", 100_000)
    read = Reader(page_of(tmp_path))
    assert len(read.values) < whole
    assert "is left out: with it the page would be larger" in read.words


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
    paths = (Path(__file__).parents[2], Path(opl_package.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "runs" / "report.html").stat().st_size <= 3_000_000
