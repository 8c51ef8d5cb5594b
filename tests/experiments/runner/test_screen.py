"""Bars of running tasks: they fit any terminal, and a remaining time is what arithmetic says."""

import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from opl.experiments.run_folder import RunFolder
from opl.experiments.runner.estimate import Reached, about, seconds_left
from opl.experiments.runner.jobs import Job
from opl.experiments.runner.screen import Screen, Step, count, fit

LONG = "cifar10-noisy-uniform-tl-opl-code-left-out seed"


def line(number, state):
    step = Step(3, 12, "epoch 3/12", "12345 images/s")
    name = f"{LONG} {number}"
    return SimpleNamespace(name=name, state=state, ended=state in ("done", "failed (x)"), step=lambda: step)


@pytest.mark.parametrize(("width", "height"), [*itertools.product((20, 40, 80, 120, 200), (3, 6, 12, 24, 50))])
def test_what_runs_fits_a_terminal_of_any_size(width, height):
    lines = [line(number, state) for number, state in enumerate(["done"] * 18 + ["running"] * 40 + ["waiting"] * 14)]
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    view = fit(console, lines, lambda running: 2040.0 if running == 40 else None)
    with console.capture() as captured:
        console.print(view)
    shown = console.render_lines(view, pad=False)
    texts = ["".join(part.text for part in row).rstrip() for row in shown]
    assert max(map(len, texts)) <= width
    assert len(shown) < height or height <= 4  # the count itself takes two lines of 20 columns
    assert "…" not in captured.get()
    words = " ".join(texts)
    assert "18/72 done, about 34 min left" in words
    bars = words.count("epoch 3/12")
    assert bars == 40 or f"and {40 - bars} more run" in words
    if bars:
        names = re.sub(r"epoch 3/12|12345 images/s|[━╸╺\s]", "", words)
        assert f"{LONG} 18".replace(" ", "") in names


def test_nothing_is_drawn_where_there_is_no_terminal(capfd):
    told = SimpleNamespace(state="running", ended=False, describe=lambda: "a: running", conclude=lambda: "never")
    with Screen([told], lambda running: None) as screen:
        screen.say(told)
        screen.note("a note")
    heard = capfd.readouterr()
    assert (heard.out, heard.err) == ("", "a: running\na note\n")


def test_failures_are_counted_apart():
    lines = [line(0, "done"), line(1, "failed (x)"), line(2, "running")]
    assert count(lines) == "1/3 done, 1 failed"


def job(recipe, seed, state, reached, cost=0.0, took=0.0):
    made = Job(recipe, seed, 10, RunFolder("nowhere"), cost=cost, state=state, took=took, known=reached)
    made.reached = lambda: reached
    return made


def test_the_time_left_is_by_own_epochs_then_those_of_the_recipe_then_of_others():
    jobs = [
        job("a", 0, "done", Reached(10, 100.0), took=107.0),  # 10 s an epoch, 7 s to start
        job("a", 1, "running", Reached(4, 80.0)),  # 20 s an epoch: 6 epochs, 120 s
        job("a", 2, "waiting", Reached()),  # the mean of the recipe, 15 s: 150 s and 7
        job("b", 0, "waiting", Reached(), cost=1e6),  # the mean of all runs, the same
        job("c", 0, "failed (x)", Reached()),
    ]
    assert seconds_left(jobs, 1) == pytest.approx(120 + 157 + 157)
    assert seconds_left(jobs, 2) == pytest.approx((120 + 157 + 157) / 2)
    assert seconds_left(jobs, 100) == pytest.approx(157)  # no shorter than the longest


def test_before_any_epoch_the_time_left_is_what_the_item_states_or_unknown():
    assert seconds_left([job("a", seed, "waiting", Reached(), cost=30.0) for seed in (0, 1)], 1) == 60
    assert seconds_left([job("a", 0, "waiting", Reached())], 1) is None
    assert seconds_left([job("a", 0, "done", Reached(10, 5.0))], 1) == 0


def test_a_run_tells_how_far_it_is_and_keeps_that_while_its_file_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("opl.experiments.runner.jobs.FRESH", 0.0)
    folder = RunFolder.of(tmp_path, "a", 0)
    run = Job("a", 0, 3, folder, state="running")
    assert run.step() == Step(0, 3, "epoch 0/3")
    folder.start({"name": "a"}, {})
    folder.log({"epoch": 0, "seconds": 2.0, "images_per_second": 90.4})
    folder.log({"epoch": 1, "seconds": 4.0, "images_per_second": 80.4, "val/top1": 50.0})
    assert run.step() == Step(2, 3, "epoch 2/3", "80 images/s")
    assert run.reached() == Reached(2, 6.0, 80.4, 50.0)
    (folder.path / "metrics.jsonl").write_text("no record\n")
    assert run.reached() == Reached(2, 6.0, 80.4, 50.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (14.4, "14 s"), (88, "90 s"), (95, "2 min"), (5399, "90 min")]
)
def test_times_are_rounded(seconds, text):
    assert about(seconds) == text.replace("90 min", "1 h 30 min")
