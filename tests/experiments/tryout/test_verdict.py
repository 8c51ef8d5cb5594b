"""The end of `opl try`: directions, the next step, and a box whose lines break between words."""

import json
import math
import shlex
import subprocess
from pathlib import Path

import pytest

from opl._advice import LOWER_D
from opl.experiments.item import Row
from opl.experiments.results.comparisons import Line
from opl.experiments.settings import to_json
from opl.experiments.statistics import GAIN, LOSS, TOO_FEW, UNDECIDED, Decision, interval
from opl.experiments.tryout.verdict import (
    Step,
    Verdict,
    build_item,
    describe_accuracy,
    describe_verdict,
    next_step,
    read_items,
    show_box,
    wrap_command,
)

DEFAULTS = {"weight": 1.0, "gamma": 0.5}
SAFER = {"weight": LOWER_D.weight, "gamma": LOWER_D.gamma}


@pytest.mark.parametrize(
    ("verdict", "d_rose", "seeds", "tried", "expected"),
    [
        (UNDECIDED, False, 2, [], {"seeds": 4}),
        (UNDECIDED, True, 2, [], SAFER),
        (UNDECIDED, True, 2, [SAFER], {"seeds": 4}),
        (TOO_FEW, False, 1, [], {"seeds": 3}),
        (LOSS, False, 2, [], SAFER),
        (LOSS, True, 2, [SAFER], None),
        ("equivalent within ±0.5", False, 2, [], {"seeds": 4}),
        ("equivalent within ±0.5", False, 3, [], None),
        ("equivalent within ±0.5", True, 3, [], SAFER),
    ],
)
def test_the_next_step_follows_from_verdict_direction_and_what_was_tried(verdict, d_rose, seeds, tried, expected):
    pairs = {tuple(settings.values()) for settings in (DEFAULTS, *tried)}
    step = next_step(verdict, d_rose, seeds, DEFAULTS, pairs)
    assert step.flags == expected
    assert step.code == ""
    assert ("keep cross-entropy" in step.sentence) == (expected is None)


def test_a_gain_ends_in_the_line_to_add_and_lack_of_time_in_the_same_command():
    step = next_step(GAIN, False, 3, {"weight": 0.1, "gamma": 1.0}, [])
    assert step.code == "criterion = opl.regularize(torch.nn.CrossEntropyLoss(), model, weight=0.1, gamma=1)"
    assert next_step(GAIN, False, 1, DEFAULTS, [], "time was up after 1 of 3 seeds").flags == {}


@pytest.mark.parametrize("verdict", [GAIN, LOSS, UNDECIDED, TOO_FEW, "equivalent within ±0.5"])
def test_every_verdict_says_better_worse_unknown_or_no_difference(verdict):
    assert sum(word in describe_verdict(verdict) for word in ("better", "worse", "Unknown", "No difference")) == 1


@pytest.mark.parametrize(("verdict", "unsure"), [(UNDECIDED, True), ("equivalent within ±0.5", False), (GAIN, False)])
def test_two_seeds_are_called_too_few_only_if_they_decide_nothing(verdict, unsure):
    pairs = (0.5, 0.4)
    line = Line(
        label="CE+OPL", recipe="opl", seeds=(0, 1), numbers={}, values={"test/top1": (90.5, 91.4)}, paper={},
        missing="", difference={"test/top1": interval(pairs)}, pairs={"test/top1": pairs}, paired=(0, 1),
        decisions={"test/top1": Decision(0.1, 0.1, 1, math.nan, verdict)},
    )  # fmt: skip
    text = describe_accuracy(line, Row("CE", "ce", {}))
    assert "(90.0 → 90.5, 91.0 → 91.4 %, two seeds" in text
    assert ("too few" in text) == unsure


@pytest.mark.parametrize("width", [80, 100, 120])
def test_lines_of_the_box_break_between_words_and_the_command_can_be_copied(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    sentence = "d rose from 0.61 to 0.69, the opposite of the aim: gamma 0.5 was below the 0.72 that features need."
    command = shlex.join(["opl", "try", "my photos/été", "--out", "runs", "--minutes", "12", "--seeds", "4"] * 2)
    verdict = Verdict("Unknown", sentence, sentence, sentence, "", Step("train more seeds", {}), None, [], [])
    show_box(verdict, command, Path("runs/report.html"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= min(width, 100)
    assert set(" ".join(lines).split()) >= {*sentence.split(), "runs/report.html", "photos/été'"}
    assert all(line == line.rstrip() for line in lines)  # a space after a backslash would end the command
    first = next(index for index, line in enumerate(lines) if line.strip().startswith("opl try"))
    last = next(index for index, line in enumerate(lines[first:], first) if not line.endswith("\\"))
    script = "\n".join(lines[first : last + 1]).replace("opl try", "printf '%s\\n' opl try", 1)
    printed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == shlex.split(command)
    for line in lines[first:last]:  # a flag and its value are on one line
        assert not line.removesuffix("\\").split()[-1].startswith("--")


def test_a_word_wider_than_the_box_is_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    target, page = f"/{'images' * 20}/photos", Path(f"/{'results' * 20}/report.html")
    verdict = Verdict("Unknown", "Accuracy.", "", "", "", Step("train more seeds", {}), None, [], [])
    show_box(verdict, f"opl try {target} --seeds 4", page)
    assert {target, str(page)} <= set(capsys.readouterr().out.split())


def test_an_argument_wider_than_the_box_has_a_line_of_its_own():
    lines = wrap_command(f"opl try {'x' * 50} --seeds 4", 30)
    assert [line.removesuffix(" \\").split() for line in lines] == [["opl", "try"], ["x" * 50], ["--seeds", "4"]]


def test_the_table_of_a_folder_is_kept_and_other_files_are_skipped(tmp_path):
    arms = [("CE", "try-a-ce"), ("CE+OPL", "try-a-opl"), ("CE+OPL (weight 1, gamma 2)", "try-a-opl-g2")]
    item = build_item("try-a", arms, "try-a-opl-g2", True, "note", "opl try a")
    (tmp_path / "try/a").mkdir(parents=True)
    (tmp_path / "try/b").mkdir()
    (tmp_path / "try/b/item.json").write_text("[1]")
    (tmp_path / "try/a/item.json").write_text(json.dumps(to_json(item)))
    assert read_items(tmp_path) == {"try-a": item}
    assert item.title == "CE vs CE+OPL on your images"
    assert item.compared == ("test/top1", "test/balanced")
    assert [row.baseline for row in item.rows] == ["", "try-a-ce", "try-a-ce"]
    assert item.headline == "try-a-opl-g2"
