"""Printed figure, page and Markdown show the same numbers, which are those of the run folders."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from _page import Reader
from _runs import ITEM, ITEMS, PLANE, SEARCH, write_everything, write_novel, write_run, write_table
from _vouched import vouch
from opl.experiments import cli, tables
from opl.experiments.cluster.jobs import jobs_of
from opl.experiments.figures import lda
from opl.experiments.figures.paper import draw
from opl.experiments.report import charts
from opl.experiments.report.page import write_report
from opl.experiments.results.markdown import document
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.results.tables import build_table
from opl.experiments.run_folder import RunFolder, measure_name
from opl.experiments.statistics import wilson

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

CURVES, MATRICES, NOVEL = (
    replace(ITEM, name=name, rows=ITEM.rows[:2], figure=figure)
    for name, figure in (("figure-3", "training"), ("figure-4", "similarity"), ("figure-s1", "lda"))
)


@pytest.fixture(autouse=True)
def _small_library(monkeypatch):
    monkeypatch.setattr(charts, "library", lambda: "/* plotly */")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Every figure's runs: three seeds of each row of table 1, and a search."""
    folder = write_everything(tmp_path_factory.mktemp("runs"))
    for name in ("ce", "opl"):
        write_novel(folder / f"cifar100-{name}" / "seed-0")
    return folder


def printed(item, folder):
    """The lines of a figure's text file."""
    draw(item, read_runs(folder), folder, "small")
    return (folder / f"{item.name}.txt").read_text().splitlines()


def page_of(folder, items=ITEMS):
    return Reader(write_report(folder, items).read_text(encoding="utf-8"))


def specs(page):
    """The charts of a page, as plotly takes them."""
    return [values for values in page.values if isinstance(values, dict)]


def test_the_matrix_is_the_mean_over_the_seeds_everywhere(everything):
    words, page = printed(MATRICES, everything), page_of(everything)
    heats = [spec["data"][0] for spec in specs(page) if spec["data"][0].get("zmax") == 1]
    for place, row in enumerate(MATRICES.rows):
        matrices = []
        for seed in range(3):
            with np.load(everything / row.recipe / f"seed-{seed}" / "test.npz") as arrays:
                matrices.append(arrays["similarity"].astype(float))
        off = ~np.eye(20, dtype=bool)
        mean = np.abs(np.mean(matrices, axis=0))
        assert f"{np.abs(matrices[0])[off].mean():.3f}" != f"{mean[off].mean():.3f}"  # the first seed's is another
        assert words[place] == f"{row.label}: mean of |cos| off the diagonal {mean[off].mean():.3f}"
        assert f"{mean[off].mean():.3f} (mean of 3 seeds)" in page.words
        assert f"{row.label}, mean of 3 seeds" in page.words  # the caption
        np.testing.assert_allclose(heats[place]["z"], mean, atol=6e-4)


def test_all_novel_classes_are_in_print_and_on_the_page(everything):
    words, page = printed(NOVEL, everything), page_of(everything)
    runs = read_runs(everything)
    rows = [(row, select_runs(runs, row.recipe, "small")) for row in NOVEL.rows]
    figure = lda.render(rows, "class").figures[""]
    charts_of = [spec["data"] for spec in specs(page) if spec["data"][0].get("name") == "novel 0"]
    for place, (row, (run, *_)) in enumerate(rows):
        arrays = run.arrays("novel")
        features, labels = arrays["features"].astype(float), arrays["labels"]
        apart = lda.separation(features, labels)
        assert words[2 + place] == f"{row.label}, novel classes: between / within scatter {apart:.3f}"
        assert f"{row.label} separation {apart:.2f}" in page.words
        assert len(figure.axes[2 + place].collections) == len(charts_of[place]) == 26
        points = lda.project(features, labels)
        last = charts_of[place][25]
        np.testing.assert_allclose(np.stack([last["x"], last["y"]], axis=1), points[labels == 25], atol=1e-3)
    [legend] = [axes.get_legend() for axes in figure.axes[2:] if axes.get_legend()]
    named = [text.get_text() for text in legend.get_texts()]
    assert named == [*(f"novel {place}" for place in range(20)), "and 6 more"]


def test_the_sweeps_are_the_same_in_print_and_on_the_page(everything):
    words, page = printed(SEARCH, everything), page_of(everything)
    [over] = [spec for spec in specs(page) if spec["layout"]["xaxis"].get("type") == "log"]
    drawn = {trace["name"]: trace for trace in over["data"] if trace["mode"] == "lines+markers"}
    assert set(drawn) == {"CE+OPL, γ 0.5", "CE+OPL, γ 1"}
    for name, trace in drawn.items():
        means = ", ".join(f"{x:g}: {y:.2f}" for x, y in zip(trace["x"], trace["y"], strict=True))
        assert f"{name} over weight: {means}" in words
    [baseline] = [trace for trace in over["data"] if trace.get("line", {}).get("dash")]
    results = [run.result["test/top1"] for run in select_runs(read_runs(everything), "cifar100-ce", "small")]
    assert baseline["y"][0] == pytest.approx(np.mean(results), abs=1e-2)


def test_curves_and_angles_end_alike_in_print_and_on_the_page(everything):
    words, page = printed(CURVES, everything), page_of(everything)
    finished = [run for run in read_runs(everything) if run.name == "cifar100-opl"]
    end = np.mean([run.records[-1]["s"] for run in finished])
    assert any(line.startswith(f"s, same class (higher is better), CE+OPL: {end:.3f} [") for line in words)
    ends = [
        trace["y"][-1]
        for spec in specs(page)
        for trace in spec["data"]
        if trace.get("meta") == {"kind": "mean"} and trace["name"] == "CE+OPL" and trace["mode"] == "lines+markers"
    ]
    assert any(value == pytest.approx(end, abs=1e-4) for value in ends)
    for line in printed(PLANE, everything)[:2]:
        label, angle = re.fullmatch(r"(.*): mean angle between class directions (.*) degrees", line).groups()
        assert f"{label} mean angle between classes {angle}°" in page.words


def write_attacked(folder, item, scale):
    """Every run of table 4, attacked with a few images each."""
    chance = np.random.default_rng(0)
    [measure] = [measure for measure in item.measures if scale in measure.scales]
    for job in jobs_of(item, scale, 3, folder, lambda name: tables.recipe(name, scale)):
        path = write_run(folder, job.recipe, job.seed, scale=scale, epochs=job.epochs)
        about = json.loads((path / "recipe.json").read_text())
        about["recipe"] = {**tables.settings_of(job.recipe, scale), "seed": job.seed}
        (path / "recipe.json").write_text(json.dumps(about))
        vouch(path)
        for name, settings in zip(measure.names, measure.settings, strict=True):
            metric = name.replace("-", "/", 1)
            each = 100 * chance.integers(0, 2, 40)
            low, high = (100 * end for end in wilson(int(each.sum()) // 100, 40))
            numbers = {metric: each.mean(), f"{metric}/low": low, f"{metric}/high": high, f"{metric}/images": 40}
            content = {"numbers": json.loads(json.dumps(numbers)), "settings": settings}
            RunFolder.of(folder, job.recipe, job.seed).write_measure(measure_name(metric), content, {"each": each})


def test_the_page_copies_what_the_file_and_the_terminal_have(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)  # all is there: nothing is trained or measured
    folder = tmp_path / "small" / "table-4"
    item = tables.item("table-4")
    write_attacked(folder, item, "small")
    assert cli.main(["reproduce", "table-4", "--scale", "small", "--seeds", "3", "--out", str(tmp_path)]) == 0
    file = (folder / "table.md").read_text()
    page = (folder / "report.html").read_text(encoding="utf-8")
    copied = re.search(r'<pre id="copy-table-4-small" hidden>(.*?)</pre>', page, re.DOTALL).group(1)
    assert html.unescape(copied) + "\n" == file
    assert file.count("of 40 images (95 % by Wilson)") == len(item.at("small"))
    compared = [row for row in item.at("small") if row.baseline]
    assert file.count("over the same 40 images (mean of 3 seeds)") == len(compared)
    terminal = capfd.readouterr().out.splitlines()
    paragraphs = file.strip().split("\n\n")[1:]
    assert [line for line in terminal if line in paragraphs] == paragraphs
    assert item.note in paragraphs


def test_a_table_that_lacks_rows_is_copied_whole(tmp_path):
    write_table(tmp_path, seeds=1)
    more = replace(ITEM, rows=(*ITEM.rows, replace(ITEM.rows[0], label="HNC", recipe="cifar100-hnc")))
    page = write_report(tmp_path, {"table-1": more}).read_text(encoding="utf-8")
    copied = re.search(r'<pre id="copy-table-1-small" hidden>(.*?)</pre>', page, re.DOTALL).group(1)
    runs = read_runs(tmp_path)
    assert html.unescape(copied) == document(build_table(more, runs, "small"))
    assert "| HNC | 0 |" in copied
