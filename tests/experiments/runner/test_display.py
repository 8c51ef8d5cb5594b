"""The progress display fits any terminal and draws nothing elsewhere."""

import io
import itertools
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from opl.experiments.runner.display import Display, Step, count, format_seconds, render, render_whole

LONG = "cifar10-noisy-uniform-tl-opl-code-left-out seed"


def line(number, state):
    step = Step(3, 12, "epoch 3/12", "12345 images/s")
    name = f"{LONG} {number}"
    return SimpleNamespace(name=name, state=state, ended=state in ("done", "failed (x)"), step=lambda: step)


@pytest.mark.parametrize(("width", "height"), [*itertools.product((20, 40, 80, 120, 200), (3, 6, 12, 24, 50))])
def test_running_tasks_fit_a_terminal_of_any_size(width, height):
    lines = [line(number, state) for number, state in enumerate(["done"] * 18 + ["running"] * 40 + ["waiting"] * 14)]
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    view = render(console, lines, lambda running: 2040.0 if running == 40 else None)
    with console.capture() as captured:
        console.print(view)
    rendered = console.render_lines(view, pad=False)
    texts = ["".join(part.text for part in row).rstrip() for row in rendered]
    assert max(map(len, texts)) <= width
    assert len(rendered) < height or height <= 4  # the count itself takes two lines of 20 columns
    assert "…" not in captured.get()
    joined = " ".join(texts)
    assert "18/72 done, about 34 min left" in joined
    bars = joined.count("epoch 3/12")
    assert bars == 40 or f"and {40 - bars} more running" in joined
    if bars:
        names = re.sub(r"epoch 3/12|12345 images/s|[━╸╺\s]", "", joined)
        assert f"{LONG} 18".replace(" ", "") in names


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(("left", "text"), [(90.0, "1/4 done, about 2 min left"), (None, "1/4 done, estimating time…")])
def test_all_tasks_have_one_bar_that_grows_with_the_time(width, left, text):
    lines = [line(number, state) for number, state in enumerate(["done", "running", "running", "waiting"])]
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    rows = console.render_lines(render_whole(width, lines, lambda running: left, 30.0), pad=False)
    [rendered] = ["".join(part.text for part in row) for row in rows]
    assert len(rendered.rstrip()) <= width
    assert text in rendered
    if left:
        bar = min(40, width // 3)
        assert rendered.count("━") + rendered.count("╸") == pytest.approx(bar * 30 / 120, abs=1)


def test_nothing_is_drawn_where_there_is_no_terminal(capfd):
    task = SimpleNamespace(state="running", ended=False, describe=lambda: "a: running", conclude=lambda: "never")
    with Display([task], lambda running: None) as display:
        display.update(task)
        display.print("a note")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "a: running\na note\n")


def test_failures_are_counted_separately():
    lines = [line(0, "done"), line(1, "failed (x)"), line(2, "running")]
    assert count(lines) == "1/3 done, 1 failed"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (14.4, "14 s"), (88, "90 s"), (95, "2 min"), (5399, "90 min")]
)
def test_times_are_rounded(seconds, text):
    assert format_seconds(seconds) == text.replace("90 min", "1 h 30 min")
