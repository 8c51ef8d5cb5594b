"""`opl reproduce`: finished runs are kept, rows without data are left out, and a dry run trains nothing."""

import json
from dataclasses import replace

import pytest

from _finished_runs import write_finished
from opl.errors import DataError
from opl.experiments import cli, paper
from opl.experiments.cli.reproduce import Reproduce, announce
from opl.experiments.data import is_here
from opl.experiments.paper import recipe
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table, cells
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.jobs import Job
from opl.experiments.runner.placement import Placement


@pytest.mark.slow
def test_finished_runs_are_kept_and_a_failure_stops_no_other_run(tmp_path, capfd):
    broken = RunFolder.of(tmp_path / "tiny" / "demo", "digits-ce", 1)
    broken.start({"name": "digits-ce", "seed": 1, "scale": "tiny", "epochs": 99}, {})
    assert (
        cli.main(["reproduce", "demo", "--scale", "tiny", "--seeds", "2", "--jobs", "2", "--out", str(tmp_path)]) == 1
    )
    out = capfd.readouterr()
    assert "digits-ce seed 1: failed" in out.err
    assert "numbers mean nothing" in " ".join(out.out.split())
    table = json.loads((tmp_path / "tiny" / "demo" / "table.json").read_text())
    assert [row["seeds"] for row in table["rows"]] == [[0], [0, 1]]
    assert table["rows"][0]["numbers"]["test/top1"]["half"] is None
    page = (tmp_path / "tiny" / "demo" / "report.html").read_text()
    assert "unfinished" in page
    (broken.path / "recipe.json").unlink()
    assert cli.main(["reproduce", "demo", "--scale", "tiny", "--seeds", "2", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["rows"][0]["seeds"] == [0, 1]


@pytest.mark.slow
def test_reproduce_draws_features_in_the_plane(tmp_path, capfd):
    argv = ["reproduce", "figure-2", "--scale", "tiny", "--out", str(tmp_path), "--jobs", "2"]
    assert cli.main(argv) == 0
    out = capfd.readouterr().out
    assert "mean angle between class directions" in out
    assert (tmp_path / "tiny" / "figure-2" / "figure-2.pdf").stat().st_size > 0


def test_a_scale_without_runs_is_refused(tmp_path, capfd, monkeypatch):
    rows = tuple(replace(row, scales=("paper",)) for row in paper.ITEMS["demo"].rows)
    monkeypatch.setattr("opl.experiments.paper.demo.ITEMS", (replace(paper.ITEMS["demo"], rows=rows),))
    assert cli.main(["reproduce", "demo", "--scale", "tiny", "--out", str(tmp_path)]) == 2
    assert "no runs at scale tiny" in capfd.readouterr().err


def test_a_link_in_place_of_a_table_is_replaced_and_its_target_untouched(tmp_path):
    folder = tmp_path / "small" / "demo"
    for name in ("digits-ce", "digits-opl"):
        write_finished(folder, name, 0)
    (tmp_path / "target").write_text("not ours")
    for name in ("table.md", "table.json", "report.html"):
        (folder / name).symlink_to(tmp_path / "target")
    Reproduce("demo", out=tmp_path)._report(paper.item("demo"), read_runs(folder), folder)
    assert (tmp_path / "target").read_text() == "not ours"
    assert "CE+OPL" in (folder / "table.md").read_text()


# Rows without data


@pytest.fixture
def nowhere(shelf, tmp_path, monkeypatch):
    """No data at all: an empty OPL_DATA, no earlier downloads, no network."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return shelf


def write_cifar10(shelf):
    (shelf / "cifar10").mkdir(parents=True)
    for part in ("train", "test"):
        (shelf / "cifar10" / f"{part}-00000-of-00001.parquet").touch()


def test_a_data_set_is_present_if_its_files_are(nowhere):
    assert not is_here("cifar10")
    write_cifar10(nowhere)
    assert is_here("cifar10")
    (nowhere / "cifar10" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(DataError, match="no single set of Parquet files"):
        is_here("cifar10")


def test_rows_without_their_data_are_left_out_in_one_line(nowhere, capsys):
    table = paper.item("table-3")
    present = Reproduce("table-3")._with_data(table)
    assert capsys.readouterr().err == "left out: 12 rows that need cifar10, which is missing (see opl data)\n"
    assert {row.recipe for row in table.at("small")} - {row.recipe for row in present.at("small")} == {
        row.recipe for row in table.at("small") if row.recipe.startswith("cifar10-")
    }
    write_cifar10(nowhere)
    assert Reproduce("table-3")._with_data(table) == table
    assert capsys.readouterr().err == ""


def test_other_scales_leave_nothing_out(nowhere, capsys):
    table = paper.item("table-6")
    assert len(Reproduce("table-6")._with_data(table).at("small")) == 4
    for scale in ("paper", "tiny"):
        assert Reproduce("table-6", scale)._with_data(table) is table
    assert capsys.readouterr().err.count("left out: 4 rows") == 2


def test_a_table_without_any_data_explains_how_to_get_it(nowhere):
    table = paper.item("table-3")
    needy = replace(table, rows=tuple(row for row in table.rows if row.needs))
    with pytest.raises(DataError, match=r"there is no cifar10 .*: set OPL_DATA to the folder"):
        Reproduce("table-3")._with_data(needy)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_without_its_data_a_table_starts_no_run(nowhere, tmp_path, capsys, scale):
    assert cli.main(["reproduce", "table-1", "--scale", scale, "--out", str(tmp_path / "runs")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("opl: there is no cifar100 ")
    assert ": set OPL_DATA to the folder" in printed
    assert printed.count("\n") == 1
    assert not list((tmp_path / "runs").rglob("recipe.json"))


def test_the_table_states_why_a_row_has_no_runs(tmp_path):
    table = paper.item("table-6")
    for scale, reason in (("small", "no runs; needs mini-imagenet (opl data)"), ("tiny", "")):
        missing = {line.recipe: line.missing for line in lines(table, read_runs(tmp_path), scale)}
        assert missing["mini-imagenet-rfs"] == reason
        assert missing["cifar-fs-rfs"] == ""


def test_a_row_that_was_left_out_has_its_reason_in_place_of_a_difference(tmp_path):
    _, rows = cells(build_table(paper.item("table-6"), read_runs(tmp_path), "small"))
    last_cells = {row[0]: row[-1] for row in rows}
    assert last_cells["miniImageNet RFS+OPL"] == "no runs; needs mini-imagenet (opl data)"
    assert last_cells["CIFAR-FS RFS+OPL"] == "-"


# Dry runs and the expected time


def test_dry_run_of_an_item_lists_the_runs_and_which_are_done(tmp_path, capfd):
    home = tmp_path / "small" / "demo"
    path = write_finished(home, "digits-ce", 0)
    half = RunFolder.of(home, "digits-opl", 1)
    half.start({"name": "digits-opl", "seed": 1}, {})
    for epoch in range(4):
        half.log({"epoch": epoch, "seconds": 30.0, "images_per_second": 9.0})
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["reproduce", "demo", "--out", str(tmp_path), "--seeds", "2", "--jobs", "2", "--dry-run"]) == 0
    assert sorted(tmp_path.rglob("*")) == before
    printed = capfd.readouterr()
    printed_lines = printed.out.splitlines()
    assert printed_lines[0].startswith("demo: ")
    epochs = recipe("digits-opl", "small").epochs
    assert printed_lines[2].split("  ")[-1].strip() == "seed 0 done, seed 1 to train"
    assert printed_lines[3].split("  ")[-1] == f"seed 0 to train, seed 1 epoch 4/{epochs}"
    left = 30 * (epochs + epochs + epochs - 4) / 2  # two in parallel, by the run whose epochs are known
    minutes = round(max(left, 30 * epochs) / 60)
    assert printed_lines[5] == f"1/4 runs done, 3 to train: about {minutes} min (2 in parallel)"
    assert printed_lines[6] == "data: built in"
    assert path.exists()


def test_dry_run_prints_missing_data_sets_and_omitted_rows(apart, tmp_path, capfd):
    argv = ["reproduce", "table-3", "--scale", "small", "--out", str(tmp_path / "runs"), "--dry-run"]
    assert cli.main(argv) == 0
    printed = capfd.readouterr()
    table = paper.ITEMS["table-3"]
    without, kept = ([row for row in table.at("small") if bool(row.needs) == needs] for needs in (True, False))
    assert printed.err == f"left out: {len(without)} rows that need cifar10, which is missing (see opl data)\n"
    missing = "missing (opl data NAME explains how to get it)"
    assert f"data: cifar10 {missing}, cifar100 {missing}, mnist {missing}" in printed.out
    runs = sum(row.seeds or 3 for row in kept)
    hours, minutes = divmod(runs * table.costs["small"].seconds // 60, 60)
    assert f"0/{runs} runs done, {runs} to train: about {hours:.0f} h {minutes:.0f} min (1 in parallel)" in printed.out
    assert "opl evaluate measures each run" in printed.out
    assert not (tmp_path / "runs").exists()


def test_advice_about_missing_data_names_the_command_that_has_the_flag(apart, tmp_path, capfd):
    assert cli.main(["reproduce", "table-s1", "--out", str(tmp_path / "runs")]) != 0
    error = capfd.readouterr().err
    assert "set OPL_DATA to the folder that holds 'mnist/'" in error
    assert "opl train also takes its folder as --data.root FOLDER" in error


def test_a_dry_run_without_any_data_asks_no_network(apart, tmp_path, capfd):
    assert cli.main(["reproduce", "table-2", "--out", str(tmp_path / "runs"), "--dry-run"]) == 0
    assert "pacs missing" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("cost", "placement", "expected"),
    [
        (30.0, Placement(jobs=2), ["2 runs, about 30 s (2 in parallel)"]),
        (0.0, Placement(), ["2 runs, time unknown"]),
        (7200.0, Placement(on="slurm"), ["2 runs, about 4 h 0 min (less if slurm runs several)"]),
    ],
)
def test_the_expected_time_is_printed_before_runs_start(tmp_path, cost, placement, expected):
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=cost) for seed in (0, 1)]
    assert announce(jobs, placement) == expected


def test_finished_runs_take_no_time(tmp_path):
    write_finished(tmp_path, "digits-ce", 0)
    jobs = [Job("digits-ce", seed, 10, RunFolder.of(tmp_path, "digits-ce", seed), cost=30.0) for seed in (0, 1)]
    assert announce(jobs, Placement())[0].startswith("1 run left (1 of 2 done), about ")
    assert announce(jobs[:1], Placement()) == []
