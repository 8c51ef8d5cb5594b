"""Texts rendered from records: blocks, the text outside of them, and short tables."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from _finished_runs import write_finished
from _said import says
from opl.errors import OptionError
from opl.experiments.item import Revision
from opl.experiments.paper import ITEMS
from opl.experiments.results.document import read_comparable, render_blocks, render_document
from opl.experiments.results.records import add_runs
from opl.experiments.results.runs import read_runs

ROOT = Path(__file__).parents[3]
BEGIN, END = "<!-- opl results: demo small -->", "<!-- end -->"


@pytest.fixture
def records(tmp_path):
    for seed, (ce, opl) in enumerate(((97.0, 98.5), (96.5, 98.25))):
        write_finished(tmp_path / "runs", "digits-ce", seed, ce)
        write_finished(tmp_path / "runs", "digits-opl", seed, opl)
    add_runs(read_runs(tmp_path / "runs"), tmp_path / "results", list(ITEMS.values()))
    return tmp_path / "results"


def render(text: str, records: Path) -> str:
    return render_document(text, read_comparable(records, ITEMS), ITEMS)


def test_text_outside_of_markers_stays_as_it_was(records):
    before, between, after = "# Title\r\n\n  odd | *text* \t\n", "\n\nwords & words\n", "\nthe end, no newline"
    text = f"{before}{BEGIN}\nold\n{END}{between}{BEGIN}\n{END}{after}"
    made = render(text, records)
    block = made[len(before) : made.index(END) + len(END)]
    assert made == f"{before}{block}{between}{block}{after}"
    assert "old" not in block
    assert f"| CE | 2 | {np.mean([97.0, 96.5]):.2f} ±" in block
    assert render(made, records) == made
    assert render("words\n", records) == "words\n"


def test_blocks_get_the_arguments_and_the_line_of_their_marker():
    seen = []
    made = render_blocks(f"a\n{BEGIN}\n{END}\n", lambda arguments, line: seen.append((arguments, line)) or "made")
    assert seen == [(["demo", "small"], 2)]
    assert made == f"a\n{BEGIN}\nmade\n{END}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{BEGIN}\nold\n", ("line 1", "no <!-- end --> line")),
        (f"{BEGIN}\n{BEGIN}\n{END}\n", ("line 2", "inside the block that starts in line 1")),
        (f"words\n{END}\n", ("line 2", "not a valid marker")),
        (f"<!-- opl results demo small -->\n{END}\n", ("line 1", "not a valid marker")),
        (f"see {BEGIN}\n{END}\n", ("line 1", "not a valid marker")),
        (f"<!-- opl results: table-99 small -->\n{END}\n", ("line 1", "table-99", "did you mean")),
        (f"<!-- opl results: demo huge -->\n{END}\n", ("line 1", "huge", "did you mean")),
        (f"<!-- opl results: demo tiny -->\n{END}\n", ("line 1", "tiny")),
        (f"<!-- opl results: demo -->\n{END}\n", ("line 1", "an item and a scale")),
        (f"<!-- opl results: transcribed demo small -->\n{END}\n", ("line 1", "an item and a scale")),
        (f"<!-- opl results: short demo -->\n{END}\n", ("line 1", "table or figure", "short")),
        (f"<!-- opl results: short demo table-99 small -->\n{END}\n", ("line 1", "table-99", "did you mean")),
        (f"<!-- opl results: short demo huge -->\n{END}\n", ("line 1", "huge", "did you mean")),
    ],
)
def test_a_broken_marker_is_one_sentence(records, text, said):
    says(lambda: render(text, records), OptionError, said)


def test_a_block_without_records_names_the_command(records):
    for kind in ("", "short "):
        text = render(f"<!-- opl results: {kind}table-s1 paper -->\n{END}\n", records)
        assert "No runs are recorded yet: `opl reproduce table-s1 --scale paper`." in text
        assert "|" not in text
    both = render(f"<!-- opl results: short demo table-8 small -->\n{END}\n", records)
    assert "| CE+OPL vs CE | 2 |" in both
    assert "table-8: No runs are recorded yet: `opl reproduce table-8 --scale small`." in both


def test_a_short_table_has_both_numbers_over_shared_seeds_the_difference_and_the_verdict(records, tmp_path):
    pairs = np.array([98.5 - 97.0, 98.25 - 96.5])
    low, high = stats.t.interval(0.95, 1, pairs.mean(), stats.sem(pairs))
    cells = f"96.75 → 98.38 | - | {pairs.mean():+.2f} [{low:+.2f}, {high:+.2f}] | a gain |"
    counts = "- demo: 1 gain; 2 of 2 per-seed differences above zero; d lower in 0 of 2 pairs of runs."
    for more in ((), (("digits-ce", 2, 10.0), ("digits-opl", 3, 20.0), ("digits-opl", 4, 20.0))):  # without a partner
        for recipe, seed, accuracy in more:
            write_finished(tmp_path / "runs", recipe, seed, accuracy)
        add_runs(read_runs(tmp_path / "runs"), records, list(ITEMS.values()))
        text = render(f"<!-- opl results: short demo small -->\n{END}\n", records)
        assert f"| CE+OPL vs CE | 2 | {cells}" in text
        assert text.rstrip().endswith(f"{counts}\n{END}")


def test_a_short_table_of_many_comparisons_shows_the_decided_ones_and_counts_all():
    """Table 8 has 15 cells, of which 4 are losses; its headline, the paper's choice, is shown too."""
    text = render(f"<!-- opl results: short table-8 small -->\n{END}\n", ROOT / "results")
    rows = [line for line in text.splitlines() if " vs CE |" in line]
    assert [row.endswith("| a loss |") for row in rows] == [True, True, False, True, True]
    assert "CE+OPL, weight 1, gamma 0.5 vs CE" in rows[2]
    runs = [run for run in read_comparable(ROOT / "results", ITEMS) if run.scale == "small"]
    by_recipe = {}
    for run in runs:
        by_recipe.setdefault(run.name, {})[run.seed] = run.result
    rows = [row for row in ITEMS["table-8"].at("small") if row.baseline]
    pairs = [(result, by_recipe[row.baseline][seed]) for row in rows for seed, result in by_recipe[row.recipe].items()]
    above = sum(ours["val/top1"] > base["val/top1"] for ours, base in pairs)
    lower = sum(ours["test/d"] < base["test/d"] for ours, base in pairs)
    counts = f"{above} of 45 per-seed differences above zero; d lower in {lower} of 45 pairs of runs"
    assert f"- table-8: 4 losses, 11 undecided; {counts}." in " ".join(text.split())


def test_a_short_table_shows_means_and_skips_comparisons_of_earlier_items():
    text = render(f"<!-- opl results: short table-7 study-few-shot small -->\n{END}\n", ROOT / "results")
    labels = [line.split(" | ")[0].removeprefix("| ") for line in text.splitlines()[3:-2] if line.startswith("| ")]
    assert [label.rpartition(", ")[2] for label in labels] == ["average", "average", "1-shot", "5-shot"]
    assert not any(label.startswith("CIFAR-FS SKD Gen-0+OPL vs") for label in labels)  # in table 6


def test_a_short_table_marks_comparisons_of_stale_runs(records):
    changed = Revision("2026-11-16T00:00:00Z", "other weights", ("digits-ce",))
    for since, seeds in (("2026-11-16T00:00:00Z", "2, stale"), ("2026-11-15T00:00:00Z", "2")):
        items = {"demo": replace(ITEMS["demo"], revisions=(replace(changed, since=since),))}
        text = render_document(
            f"<!-- opl results: short demo small -->\n{END}\n", read_comparable(records, items), items
        )
        assert f"| CE+OPL vs CE | {seeds} |" in text  # the baseline started on 2026-11-15


def test_results_md_is_short_and_narrow():
    """One page that is read in five minutes: less than 300 lines, no wide table, no long line outside of tables."""
    text = (ROOT / "RESULTS.md").read_text().splitlines()
    assert len(text) < 300
    assert max(len(line) for line in text if not line.startswith("|")) <= 160
    assert max(line.count("|") - 1 for line in text if line.startswith("|")) <= 7


MEASURED = re.compile(r"(?<!\w)[+-]\d+\.\d|\d+ of (the )?\d+|(?<![\d.])\d\d\.\d")


@pytest.mark.parametrize("name", ["RESULTS.md", "README.md"])
def test_prose_has_no_number_of_a_run(name):
    """Numbers that come from records stand in rendered blocks, so they cannot become outdated.

    So do the numbers of the claims about OPL, which `tests/docs/test_claims.py` compares with tables.
    """
    prose = re.sub(r"<!-- opl results.*?<!-- end -->", "", (ROOT / name).read_text(), flags=re.DOTALL)
    prose = re.sub(r"^## What OPL buys.*?(?=^## )", "", prose, flags=re.DOTALL | re.MULTILINE)
    assert [line for line in prose.splitlines() if MEASURED.search(line)] == []


def test_costs_have_the_command_the_rows_and_the_measured_time(records):
    text = render(f"<!-- opl results: costs table-1 table-2 paper -->\n{END}\n", records)
    rows = len(ITEMS["table-1"].at("paper"))
    assert f"| `opl reproduce table-1 --scale paper` | cifar100 | {rows} x 3 | up to 45 h on 2 cores |" in text
    assert "| `opl reproduce table-2 --scale paper` | imagenet | 9 x 3 | not measured |" in text


def test_links_of_results_md_and_its_pages_lead_to_files():
    for file in (ROOT / "RESULTS.md", *(ROOT / "docs" / "results").glob("*.md")):
        targets = re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text())
        missing = [target for target in targets if "://" not in target and not (file.parent / target).exists()]
        assert not missing, (file, missing)
        if file.name == "RESULTS.md":
            pages = {Path(target).name for target in targets if target.startswith("docs/results/")}
            assert pages == {page.name for page in (ROOT / "docs" / "results").iterdir()}
