"""What `opl results add` takes, what it leaves, and what it says of each run."""

import json

import pytest

from _finished_runs import dump, load, write_finished, write_measure
from _vouched import vouch
from opl.experiments.paper import item
from opl.experiments.results.conformity import screen
from opl.experiments.results.records import add_runs, read_records
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table

DEMO = item("demo")
FILE = "small/digits-ce/seed-0.json"


@pytest.fixture
def records(tmp_path):
    return tmp_path / "results"


def add(runs, records, **more):
    return add_runs(read_runs(runs), records, [DEMO], **more)


def words(runs, records, **more):
    return [outcome.word for outcome in add(runs, records, **more)]


def files(records):
    return {path.relative_to(records).as_posix(): path.read_bytes() for path in records.rglob("*.json")}


def test_the_same_run_again_is_already_there(tmp_path, records):
    write_finished(tmp_path / "runs")
    assert words(tmp_path / "runs", records) == ["added"]
    before = files(records)
    assert words(tmp_path / "runs", records) == ["already there"]
    assert files(records) == before
    assert list(before) == [FILE]


def test_the_same_weights_and_numbers_of_another_day_are_already_there(tmp_path, records):
    write_finished(tmp_path / "runs")
    write_finished(tmp_path / "again", about={"started": "2027-01-01T00:00:00Z"}, result={"seconds": 5.0})
    assert words(tmp_path / "runs", records) + words(tmp_path / "again", records) == ["added", "already there"]
    assert load(records / FILE)["started"].startswith("2026")


def test_another_result_for_the_same_seed_is_refused_unless_it_replaces(tmp_path, records):
    write_finished(tmp_path / "runs", top1=97.0)
    write_finished(tmp_path / "better", top1=98.0)
    add(tmp_path / "runs", records)
    before = files(records)
    (outcome,) = add(tmp_path / "better", records)
    assert outcome.word == "not added"
    assert "another result for this recipe, scale and seed" in outcome.sentence
    assert "--replace" in outcome.sentence
    assert files(records) == before
    assert words(tmp_path / "better", records, substitute=True) == ["replaced"]
    assert load(records / FILE)["result"]["test/top1"] == 98.0


def test_other_bytes_of_weights_are_another_result(tmp_path, records):
    write_finished(tmp_path / "runs", weights=b"one")
    write_finished(tmp_path / "other", weights=b"two")
    assert words(tmp_path / "runs", records) + words(tmp_path / "other", records) == ["added", "not added"]


def test_a_later_measure_of_the_same_run_is_merged(tmp_path, records):
    path = write_finished(tmp_path / "runs")
    write_measure(path, "first", {"first/x": 1.0})
    add(tmp_path / "runs", records)
    (path / "measures" / "first.json").unlink()
    write_measure(path, "second", {"second/y": 2.0}, settings={"seed": 7})
    assert words(tmp_path / "runs", records) == ["measures added"]
    (run,) = screen(read_records(records), [DEMO])
    assert run.state == "done"
    assert (run.result["first/x"], run.result["second/y"]) == (1.0, 2.0)
    assert run.measure("second")["settings"] == {"seed": 7}
    assert words(tmp_path / "runs", records) == ["already there"]


def test_adding_again_does_not_launder_an_edited_record(tmp_path, records):
    path = write_finished(tmp_path / "runs")
    add(tmp_path / "runs", records)
    dump(records / FILE, load(records / FILE) | {"commit": "a better one"})
    write_measure(path, "second", {"second/y": 2.0})
    assert words(tmp_path / "runs", records) == ["not added"]


def test_a_damaged_record_is_named_and_left(tmp_path, records):
    write_finished(tmp_path / "runs")
    add(tmp_path / "runs", records)
    (records / FILE).write_text("{")
    (outcome,) = add(tmp_path / "runs", records, substitute=True)
    assert "is not a record of a run" in outcome.sentence
    assert (records / FILE).read_text() == "{"


def test_custom_runs_are_kept_apart_and_enter_no_table(tmp_path, records):
    for name, epochs in (("a", 1), ("b", 2)):
        changes = {"epochs": epochs, "changes": [f"epochs {epochs} (recipe: 50)"]}
        write_finished(tmp_path / name, top1=99.0, scale="custom", recipe=changes)
        assert words(tmp_path / name, records) == ["added"]
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


def _damage(path):
    (path / "recipe.json").write_text("{")


def _lose_sums(path):
    (path / "done").write_text("")


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
        (_damage, "damaged: recipe.json is not what the run wrote"),
        (_lose_sums, "damaged: done is not a valid list of checksums"),
        (_retrain, "refused: other settings: epochs 3 (recipe: 50)"),
        (_fail, "failed: the loss is not finite."),
    ],
)
def test_a_run_that_cannot_be_trusted_is_not_added_and_its_neighbor_is(tmp_path, records, break_it, said):
    write_finished(tmp_path / "runs", "digits-opl")
    break_it(write_finished(tmp_path / "runs", "digits-ce"))
    one, two = add(tmp_path / "runs", records)
    assert (one.word, two.word) == ("not added", "added")
    assert said in one.sentence
    assert list(files(records)) == ["small/digits-opl/seed-0.json"]


def test_an_edited_custom_run_is_not_added(tmp_path, records):
    _edit(write_finished(tmp_path / "runs", scale="custom", recipe={"changes": ["epochs 1 (recipe: 50)"]}))
    (outcome,) = add(tmp_path / "runs", records)
    assert outcome.sentence == "damaged: result.json is not what the run wrote"


@pytest.mark.parametrize(("more", "said"), [({"scale": "tiny"}, "mean nothing"), ({"name": "mine"}, "no recipe mine")])
def test_runs_of_no_table_are_not_added(tmp_path, records, more, said):
    write_finished(tmp_path / "runs", **more)
    (outcome,) = add(tmp_path / "runs", records)
    assert outcome.word == "not added"
    assert said in outcome.sentence
    assert not records.exists()


def test_records_of_older_settings_leave_the_table(tmp_path, records):
    for seed, epochs in enumerate((40, 40, 50)):
        recipe = {"epochs": epochs, **({"new_setting": True} if seed == 1 else {})}
        started = f"2026-11-1{seed}T00:00:00Z"
        write_finished(tmp_path / "runs" / str(seed), seed=seed, recipe=recipe, about={"started": started})
        add(tmp_path / "runs" / str(seed), records)
    screened = screen(read_records(records), [DEMO])
    sentence = "other settings than small/digits-ce/seed-2.json: epochs 40 (there: 50)"
    assert [(run.seed, run.sentence) for run in screened if run.state == "refused"] == [(0, sentence), (1, sentence)]


def test_a_record_is_json_that_any_reader_takes(tmp_path, records):
    write_finished(tmp_path / "runs", result={"val/loss": float("inf")})
    add(tmp_path / "runs", records)

    def refuse(word):
        raise AssertionError(word)

    json.loads((records / FILE).read_text(), parse_constant=refuse)
