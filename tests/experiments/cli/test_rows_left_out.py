"""Rows whose data set is missing are left out at the small scale, with a message."""

from dataclasses import replace

import pytest

from opl.errors import DataError
from opl.experiments import cli, paper
from opl.experiments.cli.reproduce import Reproduce
from opl.experiments.data import is_here
from opl.experiments.results.comparisons import lines
from opl.experiments.results.runs import read_runs
from opl.experiments.results.tables import build_table, cells


@pytest.fixture
def nowhere(shelf, tmp_path, monkeypatch):
    """No data at all: an empty OPL_DATA, no downloads of earlier days, no network."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return shelf


def write_cifar10(shelf):
    (shelf / "cifar10").mkdir(parents=True)
    for part in ("train", "test"):
        (shelf / "cifar10" / f"{part}-00000-of-00001.parquet").touch()


def test_a_data_set_is_here_if_its_files_are(nowhere):
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


def test_a_table_without_any_data_says_how_to_get_it(nowhere):
    table = paper.item("table-3")
    needy = replace(table, rows=tuple(row for row in table.rows if row.needs))
    with pytest.raises(DataError, match=r"there is no cifar10 here: give its folder with --data\.root"):
        Reproduce("table-3")._with_data(needy)


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_without_its_data_a_table_starts_no_run(nowhere, tmp_path, capsys, scale):
    assert cli.main(["reproduce", "table-1", "--scale", scale, "--out", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("opl: there is no cifar100 here: give its folder")
    assert said.count("\n") == 1
    assert not list((tmp_path / "runs").rglob("recipe.json"))


def test_the_table_says_why_a_row_has_no_runs(tmp_path):
    table = paper.item("table-6")
    for scale, said in (("small", "left out, needs mini-imagenet: see opl data"), ("tiny", "")):
        found = {line.recipe: line.missing for line in lines(table, read_runs(tmp_path), scale)}
        assert found["mini-imagenet-rfs"] == said
        assert found["cifar-fs-rfs"] == ""


def test_a_row_that_was_left_out_has_its_reason_in_place_of_a_difference(tmp_path):
    _, rows = cells(build_table(paper.item("table-6"), read_runs(tmp_path), "small"))
    shown = {row[0]: row[-1] for row in rows}
    assert shown["miniImageNet RFS+OPL"] == "left out, needs mini-imagenet: see opl data"
    assert shown["CIFAR-FS RFS+OPL"] == "-, too few seeds to tell"
