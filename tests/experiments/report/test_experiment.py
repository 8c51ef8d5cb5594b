"""The parts of an experiment: tables that can be copied, comparisons to choose from, charts, pictures and settings."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from _written_page import chart_of, page_of, table_of

from _page import Reader
from _runs import ITEM, METRICS, PLANE, opl, write_everything, write_run, write_table
from _vouched import vouch
from opl.experiments.results.comparisons import describe_tests, format_interval
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document

ONE = {"table-1": ITEM}


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    folder = write_table(tmp_path_factory.mktemp("runs"), seeds=2)
    return folder, page_of(folder, ONE)


def part_of(page, name):
    start = page.index(f'id="table-1-small-{name}"')
    end = page.find('class="part"', start + 100)
    return page[start : end if end > 0 else page.index("</section>", start)]


def test_numbers_are_those_of_the_table_and_can_be_copied_with_rows_that_have_no_runs(tmp_path):
    write_table(tmp_path)
    item = replace(ITEM, rows=(*ITEM.rows, replace(ITEM.rows[0], label="HNC", recipe="cifar100-hnc")))
    page = page_of(tmp_path, {"table-1": item})
    text = Reader(page).words
    table = build_table(item, read_runs(tmp_path), "small")
    for line in table.lines[:-1]:
        for name in METRICS:
            assert format_interval(line.numbers[name]) in text
        for value in line.paper.values():
            assert f"{value:.2f}" in text
    difference = table.lines[1].difference["test/top1"]
    assert f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]" in text
    copied = re.search(r'<pre id="copy-table-1-small" hidden>(.*?)</pre>', page, re.DOTALL).group(1)
    assert html.unescape(copied) == document(table)
    assert "| HNC | 0 |" in copied


def test_p_values_are_in_the_details_alone_and_every_difference_names_its_baseline(tmp_path):
    write_table(tmp_path)
    page = page_of(tmp_path, ONE)
    line = build_table(ITEM, read_runs(tmp_path), "small").lines[1]
    tests = describe_tests(line.decisions["test/top1"])
    assert "Holm" in tests
    before_copy = page[: page.index('<pre id="copy-table-1-small"')]
    details = page[page.index("<summary>Details: p-values</summary>") :]
    details = details[: details.index("</details>")]
    assert before_copy.count(html.escape(tests)) == details.count(html.escape(tests)) == 1
    assert part_of(page, "table").count('<span class="quiet versus"> vs CE</span>') == 3


def test_networks_are_groups_whose_words_the_labels_do_not_repeat(tmp_path):
    write_table(tmp_path, seeds=2)
    wide = {
        row.recipe: replace(
            row,
            label=f"wide {row.label}",
            group="wide",
            recipe=f"{row.recipe}-wide",
            baseline="cifar100-ce-wide" if row.baseline else "",
        )
        for row in ITEM.rows[:2]
    }
    for recipe in wide:
        for seed in range(2):
            write_run(tmp_path, f"{recipe}-wide", seed, method=opl(1.0) if recipe.endswith("opl") else None)
    page = page_of(tmp_path, {"table-1": replace(ITEM, rows=(*ITEM.rows, *wide.values()))})
    for start in ("opening", "table-1-small-table"):
        table = page[page.index(start, page.index("<main")) :]
        table = table[table.index('class="cards') if start != "opening" else table.index("cards forest") :]
        table = table[: table.index("</table>")]
        assert re.findall(r'class="group"><th[^>]*>([^<]*)', table) == ["wide"]
        assert "wide CE" not in table
        last = table[table.index('class="group"') :]
        assert re.findall(r'role="rowheader">([^<]+)', last)[-1] == "CE+OPL"
        assert "vs CE" in last


def test_a_menu_lists_the_comparisons_and_the_headline_is_first(tmp_path):
    write_table(tmp_path, seeds=1)
    last = ITEM.rows[-1]
    page = page_of(tmp_path, {"table-1": replace(ITEM, headline=last.recipe)})
    options = re.findall(r"<option[^>]*>([^<]*)", page[: page.index("</select>")])
    assert options == [f"{last.label} vs CE", "CE+OPL vs CE", "Center vs CE"]


def test_measures_are_shown_per_comparison_and_all_losses_in_a_heat_map(tmp_path):
    write_table(tmp_path, seeds=2)
    for path in tmp_path.rglob("result.json"):
        result = json.loads(path.read_text())
        more = 6.0 if "opl" in str(path) else 0.0
        noise = float(path.parent.name[-1]) / 10
        path.write_text(json.dumps({**result, "test/map_at_r": 70 + more + noise, "test/ece": 0.02 + noise / 100}))
        vouch(path.parent)
    page = html.unescape(page_of(tmp_path))
    assert "What else changed" in page
    assert "70.05 → 76.05" in page
    assert "All measures" in page
    assert re.search(r"<li>CE\+OPL: best [^<]*MAP@R", page)
    assert "Moved most: MAP@R 70.05 → 76.05 (better, 2 of 2 seeds)" in page
    assert "Cosines of pairs, CE+OPL" in page


def test_runs_without_measures_have_no_panel_of_them(two_seeds):
    _, page = two_seeds
    assert "What else changed" not in page
    assert "Moved most" not in page


def test_the_four_main_curves_are_shown_and_the_rest_is_folded_away(two_seeds):
    shown, folded = part_of(two_seeds[1], "curves").split("More curves")
    titles = [re.sub("<.*?>", "", title) for title in re.findall(r"<figcaption>(.*?)</figcaption>", shown)]
    assert [re.split("[:,]", title)[0] for title in titles] == ["validation accuracy", "s", "d"]
    assert "training loss with all terms" in folded
    assert "training loss" not in shown
    rows = table_of(two_seeds[1], "curves-table-1-small-val-top1")
    assert rows[0] == ["epoch", "CE", "CE+OPL", "Center", "OLE"]


def test_two_dimensional_features_are_not_rounded_to_a_grid(tmp_path):
    for name, kind in (("ce", None), ("opl", opl(1.0))):
        digits = tuple(map(str, range(10)))
        write_run(tmp_path, f"mnist-2d-{name}", method=kind, class_names=digits, outputs=True, feature_dim=2)
    page = page_of(tmp_path, {"figure-2": PLANE})
    [values] = [block for block in Reader(page).values if "predictions" in block]
    with np.load(tmp_path / "mnist-2d-ce/seed-0/test.npz") as arrays:
        expected = arrays["features"].astype(float)[values["rows"]]
    positions = np.array([values["x"][0], values["y"][0]]).T
    slope = np.polyfit(expected[:, 0], positions[:, 0], 1)
    np.testing.assert_allclose(np.polyval(slope, expected[:, 0]), positions[:, 0], atol=0.02)
    assert len(np.unique(positions[:, 0])) > 0.9 * len(positions)
    assert "mean angle between classes" in Reader(page).words


def test_the_change_of_the_matrices_has_the_sign_of_their_cells(two_seeds):
    captions = re.findall(r"<figcaption>([^<]*)<span", part_of(two_seeds[1], "classes"))
    assert captions[:3] == ["CE", "CE+OPL", "change of |cos|"]
    cells = next(block["cells"] for block in Reader(two_seeds[1]).values if "cells" in block)
    changes = [
        abs(after) - abs(before)
        for first, second in zip(*cells, strict=True)
        for before, after in zip(first[:-1], second[:-1], strict=True)
    ]
    stated = re.search(r"change of \|cos\|<span class=\"quiet\"> mean ([+-][\d.]+)", two_seeds[1]).group(1)
    assert float(stated) == pytest.approx(np.mean(changes) / 1000, abs=2e-3)
    assert stated.startswith("-")  # OPL moves the classes of these runs apart


def test_fixed_and_broken_images_are_counted_one_by_one(two_seeds):
    folder, page = two_seeds
    before, after = (
        run.arrays() for run in read_runs(folder) if run.name in ("cifar100-ce", "cifar100-opl") and run.seed == 0
    )
    fixed = broken = 0
    for truth, old, new in zip(before["labels"], before["top5"][:, 0], after["top5"][:, 0], strict=True):
        fixed += old != truth == new
        broken += old == truth != new
    text = Reader(page).words
    assert f"{fixed} fixed, {broken} broken of 400 test images, CE+OPL vs CE (seed 0; exact sign test, p" in text
    assert "Fixed: right with CE+OPL, wrong with CE" in text
    assert "Broken: right with CE, wrong with CE+OPL" in text
    assert "sorted by the correct model's confidence" in text


def test_pictures_have_their_class_as_text(two_seeds):
    _, page = two_seeds
    part = part_of(page, "pictures")
    images = [given for name, given in Reader(part).tags if name == "img"]
    assert 0 < len(images) <= 3 * 12  # three comparisons, six pictures in each direction
    assert all(given["alt"].startswith("Test picture of the class ") for given in images)
    others = [given for name, given in Reader(page.replace(part, "")).tags if name == "img"]
    assert all(given["alt"] == "" for given in others)  # text next to them says what they show


def test_runs_without_outputs_have_no_pictures(tmp_path):
    write_run(tmp_path, "cifar100-ce")
    write_run(tmp_path, "cifar100-opl", method=opl(1.0))
    read = Reader(page_of(tmp_path))
    assert "table-1-small-table" in read.ids
    for part in ("features", "classes", "pictures", "sweeps"):
        assert f"table-1-small-{part}" not in read.ids


def test_a_search_is_drawn_as_a_grid_and_as_curves(tmp_path):
    page = page_of(write_everything(tmp_path))
    part = page[page.index('id="figure-6-small-sweeps"') :]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in part[: part.index("</table>")].split("<tr")[1:]]
    assert rows[0][1:] == ["0.5", "1"]
    assert [row[0] for row in rows[1:]] == ["0.1", "0.5", "1", "2"]
    assert rows[3][2] == "-"  # weight 1 with gamma 1 was never run
    chart = chart_of(part, "top-1 % over weight λ: ")
    assert re.search(r"CE\+OPL, γ 0.5 0.1: [\d.]+, 0.5: [\d.]+, 1: [\d.]+, 2: [\d.]+; CE\+OPL, γ 1 0.1: ", chart)


def test_the_settings_mark_every_difference(tmp_path):
    write_table(tmp_path, seeds=1)
    part = part_of(page_of(tmp_path, {"table-1": replace(ITEM, rows=ITEM.rows[:2])}), "settings")
    chips = re.findall(r'<span class="chip">(.*?) <mark>(.*?)</mark></span>', part)
    expected = [("form", "mean_abs"), ("gamma", "0.5"), ("kind", "CrossEntropy → CrossEntropyOPL"), ("weight", "1.0")]
    assert chips == [(f"method.{name}", value) for name, value in expected]
    shared = part[: part.index("</details>")]
    assert "batch_size" in shared
    assert "method.gamma" not in shared.split("settings that all rows share")[1]
