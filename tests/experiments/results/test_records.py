"""A record has what its run folder has, and gives the same table without it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from _finished_runs import dump, load, write_finished, write_measure
from _said import says
from opl.errors import FolderError
from opl.experiments.item import Measure
from opl.experiments.paper import ITEMS, item, recipe
from opl.experiments.results.conformity import screen
from opl.experiments.results.document import render_table
from opl.experiments.results.records import add_runs, make_record, read_record, read_records, record_file, write_record
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table
from opl.experiments.results.text import document
from opl.experiments.settings import to_json

DEMO = item("demo")


def add(runs: Path, records: Path, **more):
    return {each.where: each for each in add_runs(read_runs(runs), records, [DEMO], **more)}


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
    origin = render_table(DEMO, found, "small", records)
    assert "From 8 records, seeds 0 to 3; commit 06f8644cf3;" in origin
    assert "Linux-6.1, 2 cores, 1 threads a run, no accelerator (6 runs)" in origin
    assert "64 cores, 8 threads a run, A100 (2 runs); 2026-11-15 to 2026-12-24; 8 min 24 s of training in all" in origin


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
    assert {each.word for each in add(runs, records).values()} == {"added"}
    assert {run.state for run in screen(read_records(records), [DEMO])} == {"done"}
    write_finished(runs, "digits-opl", 1, splits={"val": [0, 1, 3]})
    write_finished(runs, "digits-ce", 1, splits={"val": [0, 1, 2]})
    refused = add(runs, records)["digits-opl/seed-1"]
    assert (refused.word, "other images" in refused.sentence) == ("not added", True)


def test_an_edited_record_is_refused_and_says_so(runs, tmp_path):
    add(runs, tmp_path / "results")
    file = tmp_path / "results" / "small" / "digits-opl" / "seed-0.json"
    record = load(file)
    record["result"]["test/top1"] = 99.99
    dump(file, record)
    found = screen(read_records(tmp_path / "results"), [DEMO])
    assert [run.where for run in found if run.state == "damaged"] == ["small/digits-opl/seed-0.json"]
    line = build_table(DEMO, found, "small").lines[1]
    assert line.seeds == (1, 2)
    assert line.missing == "seed 0 damaged (seed-0.json is not what was recorded)"


def test_a_record_copied_to_another_seed_is_refused(runs, tmp_path):
    add(runs, tmp_path / "results")
    folder = tmp_path / "results" / "small" / "digits-opl"
    (folder / "seed-9.json").write_bytes((folder / "seed-0.json").read_bytes())
    refused = [run for run in screen(read_records(tmp_path / "results"), [DEMO]) if run.state == "refused"]
    assert [run.where for run in refused] == ["small/digits-opl/seed-9.json"]


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
    found = screen(read_records(Path(__file__).parents[3] / "results"), ITEMS.values())
    assert found
    assert {run.where: run.sentence for run in found if run.state != "done" and run.scale != "custom"} == {}
