"""`opl reproduce` and `opl train` on a pseudo-terminal: nothing is cropped, and no line is wider than the terminal."""

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

import opl.experiments.report.page
from _finished_runs import write_finished
from _instant import Instant
from _terminal import on_terminal
from _vouched import vouch
from opl.experiments import cli
from opl.experiments.paper import item, recipes
from opl.experiments.run_folder import RunFolder
from opl.experiments.runner import display, jobs, local
from opl.experiments.training.engine import import_fabric

SIZES = [(80, 24), (200, 50), (40, 12)]
AT_ONCE = 14  # more than fit the smallest terminal
EPOCHS = 3
PATIENCE = 3  # seconds
COLOR = re.compile(r"\x1b\[[\d;]*?\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])[\d;]*m")
RECORD = {"train/loss": 1.0, "images_per_second": 412.0, "seconds": 60.0, "val/top1": 50.0}


def replay(shelf, drawn):
    """A replacement for the processes that train: it copies a finished run, and waits after each epoch to be drawn."""

    def execute(argv, log):
        _, recipe, _, seed, *_ = argv
        folder = RunFolder(log.parent)
        source = write_finished(shelf, recipe, int(seed), scale="tiny", result={"test/top5": 99.0})
        shutil.copy(source / "recipe.json", folder.path)
        for epoch in range(EPOCHS):
            folder.log({"epoch": epoch, **RECORD})
            after = len(drawn) + 2  # the drawing that is being made may have begun before
            end = time.monotonic() + PATIENCE * sys.stderr.isatty()
            while len(drawn) < after and time.monotonic() < end:
                time.sleep(0.05)
        for file in source.iterdir():
            if file.name not in ("recipe.json", "done"):
                shutil.copy(file, folder.path)
        vouch(folder.path)
        return 0

    return execute


def reproduce(folder, monkeypatch):
    """The command, in whose runs nothing is trained and of which no page is made."""
    recipes()  # here, so that no forked process has to make them
    monkeypatch.chdir(folder)
    drawn = []
    draw = display.render
    monkeypatch.setattr(display, "render", lambda *arguments: drawn.append(1) or draw(*arguments))
    monkeypatch.setattr(display, "INTERVAL", 0.05)
    monkeypatch.setattr(jobs, "FRESH", 0.0)
    execute = replay(folder / "shelf", drawn)
    monkeypatch.setattr(local, "Local", lambda parallel, warm: Instant(parallel, execute))
    page = lambda folder, *_, **__: Path(folder) / "report.html"  # noqa: E731
    monkeypatch.setattr(opl.experiments.report.page, "write_report", page)
    return lambda: cli.main(["reproduce", "table-1", "--scale", "tiny", "--jobs", str(AT_ONCE)])


def test_without_a_terminal_there_are_no_escape_codes(tmp_path, monkeypatch, capfd):
    call = reproduce(tmp_path, monkeypatch)
    assert call() == 0
    captured = capfd.readouterr()
    assert "\x1b" not in captured.out + captured.err
    lines = captured.err.splitlines()
    assert any(line.startswith("cifar100-resnet56-ce seed 0: running") for line in lines)
    assert f"cifar100-resnet56-ce seed 0: done, epoch {EPOCHS}/{EPOCHS}, val 50.00%, 412 images/s" in lines


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_reproduce_shows_running_jobs_and_the_whole_table_at_any_size(columns, lines, tmp_path, monkeypatch):
    plain = {"NO_COLOR": "1"} if columns > 100 else {}
    terminal = on_terminal(reproduce(tmp_path, monkeypatch), columns, lines, **plain)
    assert terminal.code == 0, terminal.raw[-2000:]
    assert "Traceback" not in terminal.raw
    assert bool(COLOR.search(terminal.raw)) == (not plain)
    assert terminal.widest <= columns, max(terminal.lines, key=len)
    rows = item("table-1").at("tiny")
    total = 2 * len(rows)
    moments = [" ".join(" ".join(screen).split()) for screen in terminal.screens]
    assert any(re.search(rf"\b(\d+)/{total} done, about \d+ \w+ left", moment) for moment in moments)
    assert any(f"epoch 1/{EPOCHS}" in moment or f"epoch 2/{EPOCHS}" in moment for moment in moments)
    assert any("412 images/s" in moment for moment in moments) == (columns >= 70)
    assert any(re.search(r"and \d+ more run", moment) for moment in moments) == (lines < AT_ONCE)
    for row in rows:
        for seed in (0, 1):
            assert f"{row.recipe} seed {seed}: done" in terminal.text
        assert all(word in terminal.text for word in row.label.split())
    assert terminal.text.count("97.00 ± 0.00") == len(rows)
    assert [line for line in terminal.lines if re.search(r"epoch \d+/|images/s|about .* left|more run", line)] == []
    assert "…" not in "".join(terminal.lines).replace("time…", "")


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_train_says_what_it_loads_and_the_numbers_of_each_epoch(columns, lines, tmp_path, monkeypatch):
    import_fabric()  # here, so that no forked process has to
    monkeypatch.chdir(tmp_path)
    call = lambda: cli.main(["train", "digits-opl", "--scale", "tiny", "--out", "r"])  # noqa: E731
    terminal = on_terminal(call, columns, lines, NO_COLOR="1")
    assert terminal.code == 0, terminal.raw[-2000:]
    assert "Traceback" not in terminal.raw
    assert terminal.widest <= max(columns, len("         opl evaluate r/digits-opl/seed-0 geometry"))
    assert not COLOR.search(terminal.raw)
    assert "loading data synthetic-digits and network DigitsNet" in terminal.text
    assert "160 training, 40 validation and 40 test images" in terminal.text
    number = r"\d+\.\d+"
    epoch = rf"epoch {{}}/4 cross-entropy {number} s {number} d {number} accuracy \d+\.\d\d %"
    for count in range(1, 5):
        assert re.search(epoch.format(count), terminal.text), terminal.text
    assert re.search(
        r"test: accuracy \d+\.\d\d %, cross-entropy \d\.\d\d, s \d\.\d\d, d \d\.\d\d validation", terminal.text
    )
    end = "".join("".join(terminal.lines[-5:]).split())  # a command to copy may be broken anywhere
    assert end.endswith("oplreportroplevaluater/digits-opl/seed-0geometry")
    assert "images/s" not in terminal.text  # the bar is gone
