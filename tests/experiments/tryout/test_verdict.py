"""The end of `opl try`: directions, the next step, and a box whose lines break between words."""

import shlex
from pathlib import Path

import pytest

from opl._advice import LOWER_D
from opl.experiments.statistics import GAIN, LOSS, TOO_FEW, UNDECIDED
from opl.experiments.tryout.verdict import (
    Step,
    Verdict,
    build_item,
    describe_verdict,
    next_step,
    read_items,
    show_box,
    wrap_command,
    write_item,
)

DEFAULTS = {"weight": 1.0, "gamma": 0.5}
SAFER = {"weight": LOWER_D.weight, "gamma": LOWER_D.gamma}


@pytest.mark.parametrize(
    ("verdict", "d_rose", "tried", "expected"),
    [
        (UNDECIDED, False, [], {"seeds": 4}),
        (UNDECIDED, True, [], SAFER),
        (UNDECIDED, True, [SAFER], {"seeds": 4}),
        (TOO_FEW, False, [], {"seeds": 4}),
        (LOSS, False, [], SAFER),
        (LOSS, True, [SAFER], None),
        ("equivalent within ±0.5", False, [], None),
        ("equivalent within ±0.5", True, [], SAFER),
    ],
)
def test_the_next_step_follows_from_verdict_direction_and_what_was_tried(verdict, d_rose, tried, expected):
    pairs = {tuple(settings.values()) for settings in (DEFAULTS, *tried)}
    step = next_step(verdict, d_rose, 2, DEFAULTS, pairs)
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
    first = next(index for index, line in enumerate(lines) if line.strip().startswith("opl try"))
    copied = []
    for line in lines[first:]:
        copied.append(line.strip().removesuffix("\\"))
        if not line.strip().endswith("\\"):
            break
    assert shlex.split(" ".join(copied)) == shlex.split(command)


def test_an_argument_wider_than_the_box_has_a_line_of_its_own():
    lines = wrap_command(f"opl try {'x' * 50} --seeds 4", 30)
    assert [line.removesuffix(" \\").split() for line in lines] == [["opl", "try"], ["x" * 50], ["--seeds", "4"]]


def test_the_table_of_a_folder_is_kept_and_other_files_are_skipped(tmp_path):
    arms = [("CE", "try-a-ce"), ("CE+OPL", "try-a-opl"), ("CE+OPL (weight 1, gamma 2)", "try-a-opl-g2")]
    item = build_item("try-a", arms, True, "note", "opl try a")
    (tmp_path / "try/a").mkdir(parents=True)
    (tmp_path / "try/b").mkdir()
    (tmp_path / "try/b/item.json").write_text("[1]")
    write_item(tmp_path / "try/a", item)
    assert read_items(tmp_path) == {"try-a": item}
    assert item.title == "CE vs CE+OPL on your images"
    assert item.compared == ("test/top1", "test/balanced")
    assert [row.baseline for row in item.rows] == ["", "try-a-ce", "try-a-ce"]
    assert item.headline == "try-a-opl-g2"
