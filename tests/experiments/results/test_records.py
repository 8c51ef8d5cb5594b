"""A record has what its run folder has, and gives the same table without it."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from _finished_runs import dump, load, write_finished, write_measure
from _said import says
from _vouched import vouch
from opl.errors import FolderError
from opl.experiments.item import Measure
from opl.experiments.paper import ITEMS, item, recipe
from opl.experiments.results.conformity import screen
from opl.experiments.results.document import render_table
from opl.experiments.results.records import (
    add_runs,
    make_record,
    mark_uncommitted,
    read_record,
    read_records,
    record_file,
    write_record,
)
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document
from opl.experiments.settings import FREE, describe_changes, to_json
from opl.experiments.training.build import complete_settings

DEMO = item("demo")


def add(runs: Path, records: Path, **more):
    return {outcome.where: outcome for outcome in add_runs(read_runs(runs), records, [DEMO], **more)}


@pytest.fixture
def runs(tmp_path):
    """Three seeds of CE and CE+OPL."""
    out = tmp_path / "runs"
    for seed, (ce, opl) in enumerate(((97.0, 98.5), (96.5, 98.25), (97.5, 98.0))):
        write_finished(out, "digits-ce", seed, ce)
        write_finished(out, "digits-opl", seed, opl)
    return out


def test_a_record_has_the_numbers_of_the_folder_read_by_plain_json(runs, tmp_path):
    path = runs / "digits-opl" / "seed-1"
    write_measure(path, "episodes-5", {"episodes/5": 61.25}, settings={"ways": 5})
    add(runs, tmp_path / "results")
    record = load(tmp_path / "results" / "small" / "digits-opl" / "seed-1.json")
    about = load(path / "recipe.json")
    assert {name: record[name] for name in about} == about
    assert record["result"] == load(path / "result.json")
    assert record["measures"] == {"episodes-5": load(path / "measures" / "episodes-5.json")}
    assert record["weights"] == load(path / "done")["files"]["model.safetensors"][0]
    sizes = {name: record["splits"][name] for name in ("train", "val", "test", "class_names")}
    assert sizes == {"train": 899, "val": 3, "test": 898, "class_names": 10}


def test_records_are_sorted_and_end_with_a_newline(runs, tmp_path):
    add(runs, tmp_path / "results")
    text = (tmp_path / "results" / "small" / "digits-ce" / "seed-0.json").read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True) + "\n"
    assert len(text) < 4000


def test_a_table_from_records_is_the_table_from_the_run_folders(runs, tmp_path):
    wanted = replace(DEMO, metrics={**DEMO.metrics, "episodes/5": "5-shot %"}, note="A note.")
    measured = replace(wanted, measures=(Measure(("episodes",), ("episodes-5",), settings=({"ways": 5},)),))
    for path in sorted(runs.glob("*/seed-*")):
        ways = 20 if path.parts[-2:] == ("digits-ce", "seed-2") else 5  # one run was measured in another way
        write_measure(path, "episodes-5", {"episodes/5": 60 + int(path.name[-1])}, settings={"ways": ways})
    add(runs, tmp_path / "results")
    folders = build_table(measured, screen(read_runs(runs), [DEMO]), "small")
    records = build_table(measured, screen(read_records(tmp_path / "results"), [DEMO]), "small")
    assert document(records) == document(folders)
    assert "episodes-5 was measured with ways 20 (table: 5)" in document(records)
    assert "899 training, 3 validation, 898 test images" in document(records)


def test_records_of_several_folders_add_up_to_more_seeds(runs, tmp_path):
    more, records = tmp_path / "another machine", tmp_path / "results"
    machine = {"system": "Linux-5.4", "cores": 64, "threads": 8, "accelerator": "A100"}
    write_finished(more, "digits-ce", 3, 95.0, about={"machine": machine, "started": "2026-12-24T00:00:00Z"})
    write_finished(more, "digits-opl", 3, 99.0, about={"machine": machine, "started": "2026-12-24T00:00:00Z"})
    add(runs, records)
    add(more, records)
    found = screen(read_records(records), [DEMO])
    line = build_table(DEMO, found, "small").lines[1]
    ours, theirs = np.array([98.5, 98.25, 98.0, 99.0]), np.array([97.0, 96.5, 97.5, 95.0])
    low, high = stats.t.interval(0.95, 3, (ours - theirs).mean(), stats.sem(ours - theirs))
    assert line.numbers["test/top1"].mean == pytest.approx(ours.mean())
    assert (line.difference["test/top1"].low, line.difference["test/top1"].high) == pytest.approx((low, high))
    origin = render_table(DEMO, found, "small")
    assert "From 8 records, seeds 0 to 3; commit 06f8644cf3;" in origin
    assert "Linux-6.1, 2 cores, 1 thread per run, no accelerator (6 runs)" in origin
    assert (
        "64 cores, 8 threads per run, A100 (2 runs); 2026-11-15 to 2026-12-24; 8 min 24 s of training in total"
        in origin
    )


def test_a_record_names_no_folder_of_the_machine_and_has_no_nan(tmp_path):
    data = {**to_json(recipe("digits-ce", "small"))["data"], "root": "/elsewhere/data"}
    teacher = {"recipe": {"data": data}, "sha256": "1"}
    result = {"val/loss": float("nan"), "after": teacher}
    write_finished(tmp_path / "runs", recipe={"data": data}, result=result, splits={"source": "/elsewhere/data/digits"})
    record = make_record(read_runs(tmp_path / "runs")[0])
    assert "elsewhere" not in json.dumps(record, allow_nan=False)
    assert "val/loss" not in record["result"]
    assert record["splits"]["source"] == "digits"


def test_the_folder_of_the_data_makes_no_other_images(tmp_path):
    runs, records = tmp_path / "runs", tmp_path / "results"
    write_finished(runs, "digits-ce", splits={"source": "/here/digits"})
    write_finished(runs, "digits-opl", splits={"source": "hub/digits"})
    assert {outcome.status for outcome in add(runs, records).values()} == {"added"}
    assert {run.state for run in screen(read_records(records), [DEMO])} == {"done"}
    write_finished(runs, "digits-opl", 1, splits={"val": [0, 1, 3]})
    write_finished(runs, "digits-ce", 1, splits={"val": [0, 1, 2]})
    refused = add(runs, records)["digits-opl/seed-1"]
    assert (refused.status, "other images" in refused.sentence) == ("not added", True)


def test_an_edited_record_and_a_copy_of_another_seed_are_refused(runs, tmp_path):
    add(runs, tmp_path / "results")
    folder = tmp_path / "results" / "small" / "digits-opl"
    (folder / "seed-9.json").write_bytes((folder / "seed-1.json").read_bytes())
    record = load(folder / "seed-0.json")
    record["result"]["test/top1"] = 99.99
    dump(folder / "seed-0.json", record)
    found = screen(read_records(tmp_path / "results"), [DEMO])
    assert {run.where: run.state for run in found if run.state != "done"} == {
        "small/digits-opl/seed-0.json": "damaged",
        "small/digits-opl/seed-9.json": "refused",
    }
    line = build_table(DEMO, found, "small").lines[1]
    assert line.seeds == (1, 2)
    assert "seed 0 damaged (seed-0.json changed after it was recorded)" in line.missing


@pytest.mark.parametrize("content", ["", '{"recipe": {"na', "[]", '{"recipe": {}}', '{"recipe": {"name": "x"}}'])
def test_a_half_written_record_is_named(tmp_path, content):
    file = tmp_path / "seed-0.json"
    file.write_text(content)
    says(lambda: read_record(file), FolderError, (str(file), "not a record"))


def test_a_failing_write_leaves_what_was_there(runs, tmp_path, monkeypatch):
    add(runs, tmp_path / "results")
    record = make_record(read_runs(runs)[0])
    file = record_file(tmp_path / "results", record)
    before = file.read_bytes()

    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    says(lambda: write_record(file, record | {"commit": "other"}), FolderError, ("No space left", "--to"))
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_the_records_of_this_repository_are_runs_of_its_recipes():
    """A recipe that changed makes its records stale: delete them, or run again."""
    records = [run for run in read_records(Path(__file__).parents[3] / "results") if run.scale != "custom"]
    assert len(records) >= 300
    assert {run.where: run.sentence for run in screen(records, ITEMS.values()) if run.state != "done"} == {}
    for run in records:
        stored = complete_settings(run.recipe)
        assert describe_changes(stored, to_json(recipe(run.name, run.scale)), FREE) == [], run.where


# Adding runs


FILE = "small/digits-ce/seed-0.json"


@pytest.fixture
def records(tmp_path):
    return tmp_path / "results"


def outcomes(runs, records, **more):
    return add_runs(read_runs(runs), records, [DEMO], **more)


def statuses(runs, records, **more):
    return [outcome.status for outcome in outcomes(runs, records, **more)]


def files(records):
    return {path.relative_to(records).as_posix(): path.read_bytes() for path in records.rglob("*.json")}


@pytest.mark.parametrize(
    ("again", "status"),
    [
        ({}, "already there"),
        ({"about": {"started": "2027-01-01T00:00:00Z"}, "result": {"seconds": 5.0}}, "already there"),  # of another day
        ({"weights": b"two"}, "not added"),
        ({"top1": 98.0}, "not added"),
    ],
)
def test_a_run_of_the_same_seed_is_already_there_or_refused_unless_it_replaces(tmp_path, records, again, status):
    write_finished(tmp_path / "runs", top1=97.0)
    write_finished(tmp_path / "again", **{"top1": 97.0, **again})
    assert statuses(tmp_path / "runs", records) == ["added"]
    before = files(records)
    assert list(before) == [FILE]
    (outcome,) = outcomes(tmp_path / "again", records)
    assert outcome.status == status
    assert files(records) == before
    if status == "not added":
        assert "another result for this recipe, scale and seed" in outcome.sentence
        assert "--replace" in outcome.sentence
        assert statuses(tmp_path / "again", records, substitute=True) == ["replaced"]
        assert load(records / FILE)["result"]["test/top1"] == again.get("top1", 97.0)


def test_a_later_measure_of_the_same_run_is_merged(tmp_path, records):
    path = write_finished(tmp_path / "runs")
    write_measure(path, "first", {"first/x": 1.0})
    outcomes(tmp_path / "runs", records)
    (path / "measures" / "first.json").unlink()
    write_measure(path, "second", {"second/y": 2.0}, settings={"seed": 7})
    assert statuses(tmp_path / "runs", records) == ["measures added"]
    (run,) = screen(read_records(records), [DEMO])
    assert run.state == "done"
    assert (run.result["first/x"], run.result["second/y"]) == (1.0, 2.0)
    assert run.measure("second")["settings"] == {"seed": 7}
    assert statuses(tmp_path / "runs", records) == ["already there"]


def test_adding_again_does_not_launder_an_edited_record(tmp_path, records):
    path = write_finished(tmp_path / "runs")
    outcomes(tmp_path / "runs", records)
    dump(records / FILE, load(records / FILE) | {"commit": "a better one"})
    write_measure(path, "second", {"second/y": 2.0})
    assert statuses(tmp_path / "runs", records) == ["not added"]


def test_a_damaged_record_is_named_and_left(tmp_path, records):
    write_finished(tmp_path / "runs")
    outcomes(tmp_path / "runs", records)
    (records / FILE).write_text("{")
    (outcome,) = outcomes(tmp_path / "runs", records, substitute=True)
    assert "is not a record of a run" in outcome.sentence
    assert (records / FILE).read_text() == "{"


def test_custom_runs_are_kept_apart_and_enter_no_table(tmp_path, records):
    for name, epochs in (("a", 1), ("b", 2)):
        changes = {"epochs": epochs, "changes": [f"epochs {epochs} (recipe: 50)"]}
        write_finished(tmp_path / name, top1=99.0, scale="custom", recipe=changes)
        assert statuses(tmp_path / name, records) == ["added"]
    assert sorted(load(file)["recipe"]["changes"][0] for file in records.rglob("*.json")) == [
        "epochs 1 (recipe: 50)",
        "epochs 2 (recipe: 50)",
    ]
    assert {path.split("/")[0] for path in files(records)} == {"custom"}
    found = screen(read_records(records), [DEMO])
    for scale in ("small", "paper"):
        assert [line.seeds for line in build_table(DEMO, found, scale).lines] == [(), ()]


def _edit(path):
    dump(path / "result.json", load(path / "result.json") | {"test/top1": 99.9})


def _unfinish(path):
    (path / "done").unlink()
    vouch(path, done=False)


def _retrain(path):
    content = load(path / "recipe.json")
    content["recipe"].update(epochs=3, changes=["epochs 3 (recipe: 50)"])
    dump(path / "recipe.json", content)
    vouch(path)


def _fail(path):
    _unfinish(path)
    dump(path / "error.json", {"error": "the loss is not finite."})


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (_edit, "damaged: result.json is not what the run wrote"),
        (_unfinish, "unfinished: 0 of 50 epochs"),
        (lambda path: (path / "recipe.json").write_text("{"), "damaged: recipe.json is not what the run wrote"),
        (lambda path: (path / "done").write_text(""), "damaged: done is not a valid list of checksums"),
        (_retrain, "refused: other settings: epochs 3 (recipe: 50)"),
        (_fail, "failed: the loss is not finite."),
    ],
)
def test_a_run_that_cannot_be_trusted_is_not_added_and_its_neighbor_is(tmp_path, records, break_it, said):
    write_finished(tmp_path / "runs", "digits-opl")
    break_it(write_finished(tmp_path / "runs", "digits-ce"))
    one, two = outcomes(tmp_path / "runs", records)
    assert (one.status, two.status) == ("not added", "added")
    assert said in one.sentence
    assert list(files(records)) == ["small/digits-opl/seed-0.json"]


def test_an_edited_custom_run_is_not_added(tmp_path, records):
    _edit(write_finished(tmp_path / "runs", scale="custom", recipe={"changes": ["epochs 1 (recipe: 50)"]}))
    (outcome,) = outcomes(tmp_path / "runs", records)
    assert outcome.sentence == "damaged: result.json is not what the run wrote"


@pytest.mark.parametrize(("more", "said"), [({"scale": "tiny"}, "mean nothing"), ({"name": "mine"}, "no recipe mine")])
def test_runs_of_no_table_are_not_added(tmp_path, records, more, said):
    write_finished(tmp_path / "runs", **more)
    (outcome,) = outcomes(tmp_path / "runs", records)
    assert outcome.status == "not added"
    assert said in outcome.sentence
    assert not records.exists()


def test_records_of_older_settings_leave_the_table(tmp_path, records):
    for seed, epochs in enumerate((40, 40, 50)):
        recipe = {"epochs": epochs, **({"new_setting": True} if seed == 1 else {})}
        started = f"2026-11-1{seed}T00:00:00Z"
        write_finished(tmp_path / "runs" / str(seed), seed=seed, recipe=recipe, about={"started": started})
        outcomes(tmp_path / "runs" / str(seed), records)
    screened = screen(read_records(records), [DEMO])
    sentence = "other settings than small/digits-ce/seed-2.json: epochs 40 (there: 50)"
    assert [(run.seed, run.sentence) for run in screened if run.state == "refused"] == [(0, sentence), (1, sentence)]


def test_a_record_is_json_that_any_reader_takes(tmp_path, records):
    write_finished(tmp_path / "runs", result={"val/loss": float("inf")})
    outcomes(tmp_path / "runs", records)

    def refuse(word):
        raise AssertionError(word)

    json.loads((records / FILE).read_text(), parse_constant=refuse)


def git(folder, *arguments):
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_code_that_is_not_in_the_history_is_marked_as_uncommitted(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    git(repository, "commit", "-q", "--allow-empty", "-m", "first")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    rewritten = git(repository, "rev-parse", "--short=10", "HEAD")
    git(repository, "commit", "-q", "--allow-empty", "--amend", "-m", "rewritten")
    kept = git(repository, "rev-parse", "--short=10", "HEAD")
    for seed, commit in enumerate((kept, rewritten, "0123456789", f"{kept}+", "")):
        write_finished(tmp_path / "runs", seed=seed, about={"commit": commit})
    runs = read_runs(tmp_path / "runs")
    commits = [run.about["commit"] for run in mark_uncommitted(runs, repository)]
    marked = [f"{commit} (uncommitted code)" for commit in (rewritten, "0123456789", f"{kept}+")]
    assert commits == [kept, *marked, "(uncommitted code)"]
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    assert mark_uncommitted(runs, outside) == runs


def test_the_code_of_every_record_is_in_the_history_or_marked():
    root = Path(__file__).parents[3]
    records = read_records(root / "results")
    unmarked = [run for run in records if "uncommitted" not in run.about["commit"]]
    assert [run.where for run in mark_uncommitted(unmarked, root) if run.about["commit"].endswith(")")] == []
