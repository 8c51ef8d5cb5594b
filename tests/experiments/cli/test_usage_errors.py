"""Wrong command lines end with a sentence and exit code 1 or 2; wrong settings end before any data is read."""

import os

import pytest

from opl.experiments import cli
from opl.experiments.data import Digits, Synthetic


def exit_code(argv):
    try:
        return cli.main(argv)
    except SystemExit as end:
        return end.code


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--optimizer.lr", "-1", "optimizer.lr is -1.0 but must be a number above 0."),
        ("--optimizer.lr", "nan", "optimizer.lr is nan but must be a finite number."),
        ("--optimizer.momentum", "-inf", "optimizer.momentum is -inf but must be a finite number."),
        ("--optimizer.momentum", "1", "optimizer.momentum is 1.0 but must be a number of at least 0 and below 1."),
        ("--model.width", "0", "model.width is 0 but must be a whole number between 1 and 4,096."),
        ("--data.rows", "0", "data.rows is 0 but must be a whole number between 1 and 1,000,000."),
        ("--data.noise", "nan", "data.noise is nan but must be a finite number."),
        ("--schedule.warmup", "inf", "schedule.warmup is inf but must be a finite number."),
        ("--schedule.warmup", "1000", "schedule.warmup is 1000 epochs"),
        ("--batch-size", "-1", "batch_size is -1 but must be a whole number between 1"),
        ("--devices", "1000", "devices is 1000, but this machine has"),
        ("--nodes", "9", "nodes is 9, but no launcher started this process"),
        ("--name", "../../x", "name is '../../x' but must be a word"),
        ("--after", "../x", "after is '../x' but must be a word"),
    ],
)
def test_a_wrong_setting_ends_training_before_data_is_read_or_a_folder_made(
    flag, value, expected, tmp_path, monkeypatch, capfd
):
    def load(data, seed):
        pytest.fail("the data was read")

    monkeypatch.setattr(Synthetic, "load", load)
    for launcher in ("MASTER_ADDR", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "LOCAL_RANK"):
        monkeypatch.delenv(launcher, raising=False)
    argv = ["train", "digits-opl", "--scale", "tiny", "--out", str(tmp_path / "runs"), flag, value]
    assert exit_code(argv) == 2
    captured = capfd.readouterr()
    assert f"opl: {expected}" in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_holdout_larger_than_the_data_is_refused_before_it_is_read(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda: pytest.fail("the data was read"))
    there = 1797 - round(0.5 * 1797)
    assert exit_code(["train", "digits-ce", "--data.val", str(there), "--out", str(tmp_path)]) == 2
    assert f"data.val is {there}, but digits has {there} training images" in capfd.readouterr().err
    Digits(val=there - 1).check()


def test_run_folder_stays_inside_out(tmp_path, capfd):
    out = tmp_path / "a" / "b" / "runs"
    for name in ("../../x", "..", "/tmp/x", "a/../../x", os.fsdecode(b"\xff")):
        assert exit_code(["train", "digits-ce", "--scale", "tiny", "--out", str(out), "--name", name]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["train", "digits-ce", "--epochs", "1", "--epochs", "2"], "--epochs is set twice"),
        (["train", "digits-ce", "--batch-size", "1", "--batch_size=2"], "--batch_size is set twice"),
        (["train", "digits-ce", "--out", ""], "--out is empty"),
        (["train", "digits-ce", "--out="], "--out is empty"),
        (["report", ""], "the argument after 'report' is empty"),
        (["train", "a\0b"], "null character"),
    ],
)
def test_arguments_that_no_command_accepts_are_named(argv, expected, capfd):
    assert exit_code(argv) == 2
    assert expected in capfd.readouterr().err


def test_empty_value_resets_a_setting(capfd):
    assert exit_code(["train", "digits-ce", "--data.root", "", "--dry-run"]) == 0
