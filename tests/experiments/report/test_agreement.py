"""Figure, page, terminal and Markdown show the same numbers, which are those of the run folders."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from _written_page import chart_of, page_of, table_of

from _page import Reader
from _runs import ITEM, PLANE, SEARCH, write_everything, write_novel, write_run
from _vouched import vouch
from opl.experiments import cli, paper
from opl.experiments.charts import curves, lda
from opl.experiments.charts.figure import draw_item
from opl.experiments.results.comparisons import describe_difference
from opl.experiments.results.runs import read_runs, select_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document, show
from opl.experiments.run_folder import RunFolder, measure_name
from opl.experiments.runner.jobs import jobs_of
from opl.experiments.settings import to_json
from opl.experiments.statistics import wilson

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

CURVES, MATRICES, NOVEL = (
    replace(ITEM, name=name, rows=ITEM.rows[:2], figure=figure)
    for name, figure in (("figure-3", "curves"), ("figure-4", "similarity"), ("figure-s1", "lda"))
)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Every figure's runs: three seeds of each row of table 1, and a search."""
    folder = write_everything(tmp_path_factory.mktemp("runs"))
    for name in ("ce", "opl"):
        write_novel(folder / f"cifar100-{name}" / "seed-0")
    return folder


@pytest.fixture(scope="module")
def page(everything):
    return page_of(everything)


def printed(item, folder):
    """The lines of a figure's text file."""
    draw_item(item, read_runs(folder), folder, "small")
    return (folder / f"{item.name}.txt").read_text().splitlines()


def test_the_matrix_is_the_mean_over_the_seeds_everywhere(everything, page):
    text, read = printed(MATRICES, everything), Reader(page)
    cells = next(block["cells"] for block in read.values if "cells" in block)
    for index, row in enumerate(MATRICES.rows):
        matrices = []
        for seed in range(3):
            with np.load(everything / row.recipe / f"seed-{seed}" / "test.npz") as arrays:
                matrices.append(arrays["similarity"].astype(float))
        off = ~np.eye(20, dtype=bool)
        mean = np.abs(np.mean(matrices, axis=0))
        assert f"{np.abs(matrices[0])[off].mean():.3f}" != f"{mean[off].mean():.3f}"  # the first seed's is another
        assert text[index] == f"{row.label}: mean of |cos| off the diagonal {mean[off].mean():.3f}"
        assert f"{row.label} mean of 3 seeds, mean |cos| between class means {mean[off].mean():.3f}" in read.words
        for line, values in enumerate(cells[index]):
            np.testing.assert_allclose(np.abs(values), 1000 * mean[line, : line + 1], atol=0.6)


@pytest.mark.slow
def test_all_novel_classes_are_in_the_figure_and_on_the_page(everything, page):
    text = printed(NOVEL, everything)
    runs = read_runs(everything)
    rows = [(row, select_runs(runs, row.recipe, "small")) for row in NOVEL.rows]
    figure = lda.render(rows, "class").figures[""]
    part = page[page.index("Classes that were never trained on, by LDA") :]
    for index, (row, (run, *_)) in enumerate(rows):
        arrays = run.arrays("novel")
        features, labels = arrays["features"].astype(float), arrays["labels"]
        separation = lda.separation(features, labels)
        assert text[2 + index] == f"{row.label}, novel classes: between / within scatter {separation:.3f}"
        label = f"Classes that were never trained on, {row.label}: separation {separation:.2f}."
        table = part[part.index(f"Data: {label}") :]
        assert len(figure.axes[2 + index].collections) == 26
        assert len(set(re.findall(r">(novel \d+)</th>", table[: table.index("</table>")]))) == 26
        centers = [f"{value:.3g}" for value in lda.project(features, labels)[labels == 25].mean(axis=0)]
        assert re.search(rf">novel 25</th>.*?>{re.escape(centers[0])}</td>.*?>{re.escape(centers[1])}</td>", table)


def test_the_sweeps_of_the_figure_and_the_page_are_equal(everything, page):
    words = printed(SEARCH, everything)
    for name in ("CE+OPL, γ 0.5", "CE+OPL, γ 1"):
        [line] = [line for line in words if line.startswith(f"{name} over weight")]
        means = line.split(": ", 1)[1]
        assert f"{name} {means}" in html.unescape(chart_of(page, "top-1 % over weight λ: "))


@pytest.mark.slow
def test_final_values_and_angles_of_the_figure_and_the_page_are_equal(everything, page):
    words = printed(CURVES, everything)
    finished = [run for run in read_runs(everything) if run.name == "cifar100-opl"]
    end = np.mean([run.records[-1]["s"] for run in finished])
    assert any(line.startswith(f"{curves.MEASURES['s']}, CE+OPL: {end:.3f} [") for line in words)
    assert table_of(page, "curves-table-1-small-s")[-1][2].startswith(f"{end:.4g} (")
    for line in printed(PLANE, everything)[:2]:
        label, angle = re.fullmatch(r"(.*): mean angle between class directions (.*) degrees", line).groups()
        assert f"{label} mean angle between classes {angle}°" in Reader(page).words


def test_page_terminal_and_markdown_have_the_same_verdicts(everything, page, capsys):
    table = build_table(ITEM, read_runs(everything), "small")
    show(table)
    terminal, markdown, words = capsys.readouterr().out, document(table), Reader(page).words
    for line in table.lines[1:]:
        difference, decision = line.difference["test/top1"], line.decisions["test/top1"]
        assert f"{describe_difference(difference)}, {decision.verdict}" in markdown
        columns = f"{describe_difference(difference)} {decision.verdict}"
        [row] = [row for row in terminal.splitlines() if row.startswith(f"{line.label}  ")]
        assert " ".join(row.split()).endswith(columns)
        assert columns in words


def write_attacked(folder, item, scale):
    """Every run of table 4, attacked with a few images each."""
    chance = np.random.default_rng(0)
    [measure] = [measure for measure in item.measures if scale in measure.scales]
    for job in jobs_of(item, scale, 3, folder, lambda name: paper.recipe(name, scale)):
        path = write_run(folder, job.recipe, job.seed, scale=scale, epochs=job.epochs)
        about = json.loads((path / "recipe.json").read_text())
        about["recipe"] = {**to_json(paper.recipe(job.recipe, scale)), "seed": job.seed}
        (path / "recipe.json").write_text(json.dumps(about))
        vouch(path)
        for name, settings in zip(measure.names, measure.settings, strict=True):
            metric = name.replace("-", "/", 1)
            each = 100 * chance.integers(0, 2, 40)
            low, high = (100 * end for end in wilson(int(each.sum()) // 100, 40))
            numbers = {metric: each.mean(), f"{metric}/low": low, f"{metric}/high": high, f"{metric}/images": 40}
            content = {"numbers": json.loads(json.dumps(numbers)), "settings": settings}
            RunFolder.of(folder, job.recipe, job.seed).write_measure(measure_name(metric), content, {"each": each})


@pytest.mark.slow
def test_the_copied_table_equals_the_file_and_the_terminal(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", None)  # all is there: nothing is trained or measured
    folder = tmp_path / "small" / "table-4"
    item = paper.item("table-4")
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
