"""`opl results add` and `opl results write`: exit codes, what is printed, and that nothing is half-written."""

import subprocess
import sys
from pathlib import Path

import pytest

from _finished_runs import write_finished
from _vouched import vouch
from opl.experiments import cli, paper
from opl.experiments.charts import figure
from opl.experiments.results.records import read_records
from opl.experiments.settings import to_json

ROOT = Path(__file__).parents[3]
BEGIN, END = "<!-- opl results: demo small -->", "<!-- end -->"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with runs of both rows, as the working directory."""
    for name, top1 in (("digits-ce", 97.0), ("digits-opl", 98.5)):
        write_finished(tmp_path / "runs", name, 0, top1)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_adding_says_what_became_of_each_run(home, capsys):
    run = home / "runs" / "digits-ce" / "seed-0"
    (run / "done").unlink()
    vouch(run, done=False)
    assert cli.main(["results", "add", "runs"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("digits-ce/seed-0: not added, unfinished: 0 of 50 epochs")
    assert printed[1] == "digits-opl/seed-0: added"
    assert [path.as_posix() for path in Path("results").rglob("*.json")] == ["results/small/digits-opl/seed-0.json"]
    assert cli.main(["results", "add", "runs", "--to", "results"]) == 0
    assert "digits-opl/seed-0: already there" in capsys.readouterr().out


def test_adding_another_result_needs_the_flag(home, capsys):
    write_finished(home / "more", "digits-ce", 0, 99.0)
    assert cli.main(["results", "add", "runs"]) == 0
    assert cli.main(["results", "add", "more"]) == 2
    assert "another result" in capsys.readouterr().out
    assert cli.main(["results", "add", "more", "--replace"]) == 0
    assert capsys.readouterr().out == "digits-ce/seed-0: replaced\n"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("add", "nowhere"), "there is no folder nowhere"),
        (("add", "empty"), "there are no runs in empty"),
        (("write",), "there is no file RESULTS.md"),
        (("write", "--file", "text.md"), "there is no folder results"),
        (("draw", "figure-6"), "there is no folder results"),
        (("draw", "figure-6", "--records", "empty"), "cannot be drawn without cifar100-search-ce, "),
        (
            ("draw", "figure-6", "--records", "empty", "--to", "text.md/inside"),
            "cannot create the folder text.md/inside",
        ),
        (("draw", "figure-3"), "(only table-8, table-s2, figure-6, board, study can)"),
        (("draw", "figure-66"), "did you mean 'figure-6'"),
    ],
)
def test_usage_errors_are_one_sentence(home, capsys, argv, expected):
    (home / "empty").mkdir()
    (home / "text.md").write_text(f"{BEGIN}\n{END}\n")
    assert cli.main(["results", *argv]) == 2
    printed = capsys.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1


def test_writing_changes_the_blocks_and_checking_changes_nothing(home, capsys):
    assert cli.main(["results", "add", "runs"]) == 0
    file = home / "RESULTS.md"
    file.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    assert cli.main(["results", "write", "--check"]) == 1
    assert "run `opl results write`" in capsys.readouterr().out
    assert file.read_text() == f"before\n{BEGIN}\n{END}\nafter\n"
    assert cli.main(["results", "write"]) == 0
    text = file.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "| CE+OPL | 1 | 98.50 |" in text
    assert cli.main(["results", "write", "--check"]) == 0
    edited = text.replace("98.50", "99.50")
    file.write_text(edited)
    assert cli.main(["results", "write", "--check"]) == 1
    assert file.read_text() == edited


def test_pages_and_the_forest_plot_are_written_and_checked_too(home, capsys):
    opl = {"kind": "OPL", "weight": 1.0, "gamma": 0.5, "form": "mean_abs"}
    for seed, (ce, both) in enumerate(((97.0, 98.5), (96.5, 98.25))):
        write_finished(home / "new", "digits-ce", seed, ce)
        write_finished(home / "new", "digits-opl", seed, both, about={"opl": opl})
    assert cli.main(["results", "add", "new"]) == 0
    pages = home / "docs" / "results"
    pages.mkdir(parents=True)
    for file in (home / "RESULTS.md", pages / "demo.md"):
        file.write_text(f"{BEGIN}\n{END}\n")
    capsys.readouterr()
    assert cli.main(["results", "write", "--check"]) == 1
    assert capsys.readouterr().out == "out of date: RESULTS.md and 2 more; run `opl results write`.\n"
    assert not (pages / "forest.svg").exists()
    assert cli.main(["results", "write"]) == 0
    assert "| CE+OPL | 2 |" in (pages / "demo.md").read_text()
    assert "demo: CE+OPL</text>" in (pages / "forest.svg").read_text()
    assert cli.main(["results", "write", "--check"]) == 0
    for name in ("demo.md", "forest.svg"):
        before = (pages / name).read_text()
        (pages / name).write_text(before.replace("CE+OPL", "CE-OPL"))
        assert cli.main(["results", "write", "--check"]) == 1
        (pages / name).write_text(before)


def test_a_broken_marker_of_a_page_names_the_page_and_changes_nothing(home, capsys):
    assert cli.main(["results", "add", "runs"]) == 0
    pages = home / "docs" / "results"
    pages.mkdir(parents=True)
    (home / "RESULTS.md").write_text(f"{BEGIN}\n{END}\n")
    (pages / "demo.md").write_text(f"{BEGIN}\n")
    capsys.readouterr()
    assert cli.main(["results", "write"]) == 2
    assert "docs/results/demo.md: the block that starts in line 1" in capsys.readouterr().err
    assert (home / "RESULTS.md").read_text() == f"{BEGIN}\n{END}\n"


@pytest.mark.parametrize(
    "text", [f"{BEGIN}\n", f"<!-- opl results: demo huge -->\n{END}\n", f"{BEGIN}\n{END}\n{END}\n"]
)
def test_a_broken_marker_leaves_the_file(home, capsys, text):
    assert cli.main(["results", "add", "runs"]) == 0
    capsys.readouterr()
    (home / "RESULTS.md").write_text(text)
    assert cli.main(["results", "write"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (home / "RESULTS.md").read_text() == text


def test_a_damaged_record_leaves_the_file(home, capsys):
    assert cli.main(["results", "add", "runs"]) == 0
    (home / "results" / "small" / "digits-ce" / "seed-0.json").write_text('{"recipe": ')
    (home / "RESULTS.md").write_text(f"{BEGIN}\n{END}\n")
    assert cli.main(["results", "write"]) == 2
    assert "seed-0.json is not a record" in capsys.readouterr().err
    assert (home / "RESULTS.md").read_text() == f"{BEGIN}\n{END}\n"


def test_a_disk_that_fails_leaves_the_file(home, capsys, monkeypatch):
    assert cli.main(["results", "add", "runs"]) == 0
    (home / "RESULTS.md").write_text(f"{BEGIN}\n{END}\n")

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert cli.main(["results", "write"]) == 2
    assert "No space left" in capsys.readouterr().err
    assert (home / "RESULTS.md").read_text() == f"{BEGIN}\n{END}\n"
    assert not list(home.glob(".*"))


def test_results_md_agrees_with_the_records_of_this_repository_without_torch():
    script = (
        "import sys; from opl.experiments import cli; code = cli.main(['results', 'write', '--check']); "
        "sys.exit(3 if 'torch' in sys.modules else code)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_figures_are_drawn_from_records_of_several_folders(home, capsys):
    rows = [row.recipe for row in paper.item("table-8").rows]
    for seed in range(2):  # each in a folder of its own, as on two days
        for number, name in enumerate(rows):
            method = to_json(paper.recipe(name, "small"))["method"]
            about = {"opl": {"kind": "OPL", "weight": method["weight"], "gamma": method["gamma"]}} if number else {}
            result = {"val/top1": 60.0 + number + number * seed / 10}
            write_finished(home / str(seed), name, seed, about=about, result=result)
        assert cli.main(["results", "add", str(seed)]) == 0
    capsys.readouterr()
    assert cli.main(["results", "draw", "table-8", "--to", "new/folder"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("drawn: new/folder/table-8.pdf, ")
    assert cli.main(["results", "draw", "table-8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "drawn: table-8.pdf, table-8.png, table-8.txt"
    for number, line in enumerate(lines[: len(rows) - 1], 1):
        assert f": {(number + number * 1.1) / 2:+.2f} [" in line
    assert Path("table-8.png").stat().st_size > 10_000
    below = figure.describe_runs(read_records(Path("results")))
    assert below == "Cifar100, 10 classes · CifarResNet-8 (width 16) · small scale · seeds 0 to 1 · commit 06f8644cf3"
