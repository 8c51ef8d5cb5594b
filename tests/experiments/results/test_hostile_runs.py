"""Runs with valid checksums and hostile content: refused in one sentence, and nothing is written elsewhere."""

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from _finished_runs import dump, load, write_finished, write_measure
from _vouched import vouch
from opl.errors import DamagedError, FolderError
from opl.experiments.cli import main
from opl.experiments.paper import item
from opl.experiments.results import records
from opl.experiments.results.portable import portable
from opl.experiments.results.records import add_runs, mark_uncommitted, record_file
from opl.experiments.results.runs import read_runs
from opl.experiments.run_folder import RunFolder

SECRET = "/home/jane doe/private data/weights.pth"
WINDOWS = "C:\\Users\\jane.doe\\weights.pth"


def add(runs: Path, folder: Path):
    return add_runs(read_runs(runs), folder, [item("demo")])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", "x/../../../escaped/me"),
        ("seed", [1]),
        ("seed", True),
        ("name", "../../escaped"),
        ("name", "a/b"),
        ("scale", "../escaped"),
        ("scale", "/tmp"),
        ("name", ["a"]),
    ],
)
def test_no_record_is_written_outside_of_its_folder(name, value, tmp_path):
    write_finished(tmp_path / "runs", recipe={name: value, "changes": ["epochs 1 (recipe: 40)"]})
    if name != "scale":
        path = tmp_path / "runs/digits-ce/seed-0/recipe.json"
        about = load(path)
        about["recipe"]["scale"] = "custom"
        dump(path, about)
        vouch(path.parent)
    before = sorted(tmp_path.rglob("*"))
    (outcome,) = add(tmp_path / "runs", tmp_path / "in" / "results")
    assert outcome.status == "not added"
    assert sorted(tmp_path.rglob("*")) == before


def test_the_file_of_a_record_lies_below_its_folder_even_behind_links(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results" / "small").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FolderError, match="is not below"):
        record_file(tmp_path / "results", {"recipe": {"scale": "small", "name": "digits-ce", "seed": 0}})


@pytest.mark.parametrize("count", [16, pytest.param(200, marks=pytest.mark.slow)])
def test_measures_that_are_added_at_once_are_all_kept(count, tmp_path):
    for number in range(count):
        path = write_finished(tmp_path / str(number))
        write_measure(path, f"m-{number}", {f"m/{number}": float(number)})
    children = []
    for number in range(count):
        pid = os.fork()
        if not pid:
            try:
                add(tmp_path / str(number), tmp_path / "results")
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    measures = load(tmp_path / "results/small/digits-ce/seed-0.json")["measures"]
    assert sorted(measures) == sorted(f"m-{number}" for number in range(count))


def test_a_second_process_that_adds_waits_and_then_says_so(tmp_path, monkeypatch):
    write_finished(tmp_path / "runs")
    monkeypatch.setattr(records, "PATIENCE", 0.05)
    with records._adding(tmp_path / "results"), pytest.raises(FolderError, match="in use by another"):
        add(tmp_path / "runs", tmp_path / "results")


@pytest.mark.parametrize("path", [SECRET, WINDOWS, "~jane.doe/weights.pth", "../../home/jane.doe/weights.pth"])
def test_no_record_page_or_message_has_a_path_of_the_machine(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"weights": path, "scale": "custom", "changes": [f"weights {path} (recipe: )", "epochs 1 (recipe: 40)"]}
    run = write_finished(tmp_path / "runs", recipe=settings, result={"start": f"{path}, SHA-256 abc"})
    write_measure(run, "m", {"m/x": 1.0}, settings={"file": path})
    failed = write_finished(tmp_path / "runs", seed=1)
    (failed / "done").unlink()
    dump(failed / "error.json", {"error": f"'{path}': the disk is full"})
    vouch(failed, done=False)
    (outcome, _) = add(tmp_path / "runs", tmp_path / "results")
    assert outcome.status == "added"
    texts = [file.read_text() for file in (tmp_path / "results").rglob("*.json")]
    assert main(["report", "runs"]) == 0
    texts.append((tmp_path / "runs/report.html").read_text())
    for text in texts:
        assert "weights.pth" in text
        assert "jane" not in text
        assert str(tmp_path) not in text


def test_names_that_are_no_paths_are_kept():
    kept = {
        "weights": "timm/resnet50.tv_in1k", "changes": ["lr 1/2", "and/or"], "a": ["https://example.org/a/b"],
        "start": "scratch", "number": 3, "system": "Linux-6.1-x86_64-with-glibc2.36", "text": "412 images/s",
    }  # fmt: skip
    assert portable(kept) == kept


def test_a_commit_that_is_an_option_or_no_text_is_not_given_to_git(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(records, "_git", lambda _, *argv: calls.append(argv) or (0, "false"))
    for number, commit in enumerate(("--output=x", "a\0b", "0123abcd", None)):
        write_finished(tmp_path / "runs", seed=number, about={"commit": commit})
    marked = mark_uncommitted(read_runs(tmp_path / "runs"), tmp_path)
    assert [argv[2] for argv in calls[1:]] == ["0123abcd"]
    assert ["uncommitted" in run.about["commit"] for run in marked] == [True, True, False, True]


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("recipe.json", lambda c: c["recipe"].update(seed="x")),
        ("recipe.json", lambda c: c.update(recipe=[])),
        ("recipe.json", lambda c: c.update(commit=[1])),
        ("recipe.json", lambda c: c.update(padding="x" * (1 << 23))),
        ("result.json", lambda c: c.update({"test/top1": None})),
        ("result.json", lambda c: c.update({"test/top1": [float("nan")]})),
        ("result.json", lambda c: c.update(seconds="long")),
        ("measures/m.json", lambda c: c.update(numbers=[1])),
        ("measures/m.json", lambda c: c.update(numbers={"m/x": "1"})),
    ],
)
def test_odd_values_make_a_run_damaged_and_name_the_file(file, change, tmp_path):
    run = write_finished(tmp_path / "runs")
    write_measure(run, "m", {"m/x": 1.0})
    content = load(run / file)
    change(content)
    dump(run / file, content)
    vouch(run)
    (read,) = read_runs(tmp_path / "runs")
    assert (read.state, read.result) == ("damaged", {})
    assert Path(file).name in read.sentence
    (outcome,) = add(tmp_path / "runs", tmp_path / "results")
    assert outcome.status == "not added"


def test_lists_of_numbers_that_json_does_not_have_are_recorded_without_them(tmp_path):
    write_finished(tmp_path / "runs", recipe={"note": [float("nan"), 1.0, [float("inf")]]})
    (outcome,) = add(tmp_path / "runs", tmp_path / "results")
    (file,) = (tmp_path / "results").rglob("seed-*.json")
    assert outcome.status == "added"
    assert load(file)["recipe"]["note"] == [None, 1.0, [None]]


def test_an_integer_of_400_digits_is_infinite(tmp_path):
    run = write_finished(tmp_path / "runs")
    (run / "result.json").write_text(json.dumps({**load(run / "result.json"), "test/top1": 10**400}))
    vouch(run)
    (read,) = read_runs(tmp_path / "runs")
    assert read.result["test/top1"] == float("inf")


ARRAYS = {
    "labels": np.arange(60) % 10,
    "features": np.ones((60, 8), np.float16),
    "similarity": np.eye(10),
    "top5": np.zeros((60, 5), np.int16),
}


@pytest.mark.parametrize(
    "changed",
    [
        {"labels": np.full(60, 2_000_000_000)},  # counted by class, this took gigabytes and minutes
        {"labels": np.arange(60) * 10**15},
        {"labels": np.full(60, np.inf)},
        {"labels": np.full(60, np.nan)},
        {"top5": np.full((60, 5), 2**62)},
        {"features": np.zeros((3, 2_000_000), np.float16)},  # as was its product with itself
        {"similarity": np.zeros((1, 100_000))},
        {"zeros": np.zeros(1 << 27, np.uint8)},  # packed to a thousandth
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_arrays_that_would_take_memory_out_of_proportion_are_refused(changed, tmp_path):
    run = write_finished(tmp_path / "runs")
    np.savez_compressed(run / "test.npz", **{**ARRAYS, **changed})
    vouch(run)
    with pytest.raises(DamagedError, match=r"test\.npz (has|would take)"):
        RunFolder(run).outputs()
    (read,) = read_runs(tmp_path / "runs")
    assert read.arrays() == {}
    assert main(["report", str(tmp_path / "runs")]) == 0


def test_ordinary_arrays_and_ones_that_compress_well_are_read(tmp_path):
    run = write_finished(tmp_path / "runs")
    np.savez_compressed(run / "test.npz", **ARRAYS, zeros=np.zeros(1 << 25, np.uint8))
    vouch(run)
    assert RunFolder(run).outputs().keys() == {*ARRAYS, "zeros"}


@pytest.mark.parametrize("seconds", [1e308, -1.0, 10**400])
def test_times_that_no_training_takes_do_not_stop_the_page(seconds, tmp_path):
    """A sum of them is infinite, which is no number of hours."""
    for seed in range(3):
        write_finished(tmp_path / "runs", seed=seed, result={"seconds": seconds})
    assert [run.seconds for run in read_runs(tmp_path / "runs")] == [0.0] * 3
    assert main(["report", str(tmp_path / "runs")]) == 0


def test_large_settings_are_refused_before_they_are_parsed(tmp_path):
    run = write_finished(tmp_path / "runs", about={"padding": "x" * (120 << 20)})
    (run / "metrics.jsonl").write_text("")
    vouch(run)
    tracemalloc.start()
    (read,) = read_runs(tmp_path / "runs")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read.state == "damaged"
    assert "recipe.json" in read.sentence
    assert peak < 16 << 20


@pytest.mark.parametrize("version", [True, 2.6, [None], {"x": 1}, None])
def test_a_version_that_is_no_text_does_not_stop_the_page(tmp_path, version):
    path = write_finished(tmp_path, seed=0) / "recipe.json"
    about = load(path)
    about["versions"] = {"python": "3.11", "torch": version}
    dump(path, about)
    vouch(path.parent)
    assert main(["report", str(tmp_path)]) == 0


def test_a_run_without_a_name_does_not_stop_the_page(tmp_path, capsys):
    write_finished(tmp_path, seed=0)
    path = write_finished(tmp_path, seed=1) / "recipe.json"
    about = load(path)
    del about["recipe"]["name"]
    dump(path, about)
    vouch(path.parent)
    assert main(["report", str(tmp_path)]) == 0
    assert "97.00" in (tmp_path / "report.html").read_text(encoding="utf-8")
