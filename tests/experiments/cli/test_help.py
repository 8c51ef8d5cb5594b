"""The help of every command: a sentence, examples that work, flags with texts, and no cut words."""

import shlex
from importlib import import_module

import pytest
import tyro

from opl.experiments import cli
from opl.experiments.cli import COMMANDS, help
from opl.experiments.evaluation.protocols import PROTOCOLS

RECIPE = "cifar100-resnet56-opl"
CALLS = [
    *([*name.split(), "--help"] for name in help.GUIDES),
    *(["evaluate", "runs/some", name, "--help"] for name in PROTOCOLS),
    ["train", RECIPE, "--help"],
    ["train", RECIPE, "--help-all"],
]


def helped(argv, capsys, monkeypatch, columns=100):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(argv) == 0
    return capsys.readouterr().out


def entries(text):
    """The flags and arguments with their texts, from the printed lines."""
    texts = {}
    for line in text.splitlines():
        if line.startswith("  ") and not line.startswith(("   ", "  opl ")):
            name, _, described = line.strip().partition("  ")
            texts[name] = described.strip()
        elif line.startswith("   ") and texts:
            texts[name] += f" {line.strip()}"
    return texts


@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_no_word_is_cut_and_no_line_is_too_long(argv, capsys, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(help, "WIDEST", 10_000)
        known = set(helped(argv, capsys, patch, 10_000).split())
    for columns in (60, 80, 100, 200):
        text = helped(argv, capsys, monkeypatch, columns)
        assert max(map(len, text.splitlines())) <= min(100, columns) or columns == 60, "only examples may be longer"
        assert set(text.split()) <= known
        assert "…" not in text


@pytest.mark.parametrize("argv", CALLS, ids=" ".join)
def test_every_flag_has_a_text_and_a_name_for_its_value(argv, capsys, monkeypatch):
    for name, text in entries(helped(argv, capsys, monkeypatch)).items():
        described = text.partition("(default")[0].strip()
        if name.startswith("--") and not (argv[-1] == "--help-all" and "." in name):
            assert described, name
        assert not {"STR", "INT", "FLOAT", "PATH"} & set(name.replace("[", " ").replace("]", " ").split()), name
        assert described not in ("Of SLURM.", name.lower())


@pytest.mark.parametrize("name", help.GUIDES)
def test_the_help_of_a_command_is_a_sentence_two_examples_and_at_most_five_flags_first(name, capsys, monkeypatch):
    guide = help.GUIDES[name]
    text = helped([*name.split(), "--help"], capsys, monkeypatch)
    usage, _, sentence = text.splitlines()[:3]
    assert usage.startswith(f"usage: opl {name}")
    assert sentence[0].isupper()
    assert " ".join(text.partition("  opl ")[0].split()[2:]).rstrip().endswith(".")
    assert [line.strip() for line in text.splitlines() if line.startswith("  opl ")][:2] == list(guide.examples)
    assert len(guide.examples) == 2
    first = text.partition("Flags to start with:")[2].partition("\n\n")[0]
    listed = [entry.split()[0].replace("[no-]", "") for entry in entries(first)]
    assert listed == list(guide.first)
    assert len(listed) <= 5


def test_every_command_has_a_guide_and_every_named_flag_exists(capsys, monkeypatch):
    assert {name.split()[0] for name in help.GUIDES} == set(COMMANDS)
    for name, guide in help.GUIDES.items():
        text = helped([*name.split(), "--help"], capsys, monkeypatch)
        for flag in (flag for flags in guide.groups.values() for flag in flags):
            assert f"  {flag}" in text, (name, flag)
        assert all(f"\n{heading}:\n" in text for heading in guide.groups)


@pytest.mark.parametrize("example", [example for guide in help.GUIDES.values() for example in guide.examples])
def test_every_example_is_accepted(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program, command, *argv = shlex.split(example)
    module, kind, _ = COMMANDS[command]
    assert program == "opl"
    assert import_module(f"opl.experiments.cli.{module}").__dict__[kind].parse(argv)


def test_a_recipe_shows_ten_settings_and_the_rest_on_request(capsys, monkeypatch):
    few = entries(helped(["train", RECIPE, "--help"], capsys, monkeypatch))
    every = entries(helped(["train", RECIPE, "--help-all"], capsys, monkeypatch))
    assert [name.split()[0] for name in few] == list(help.SETTINGS)
    assert len(few) == 10
    assert few.keys() < every.keys()
    text = helped(["train", RECIPE, "--help"], capsys, monkeypatch)
    assert f"--help-all lists {len(every) - len(few)} more settings" in text
    tiny = helped(["train", "digits-ce", "--scale", "tiny", "--help"], capsys, monkeypatch)
    assert "--method.gamma" not in tiny
    assert "(default: 4)" in tiny


def test_without_access_to_tyros_parser_there_is_tyros_help(capsys, monkeypatch):
    monkeypatch.delattr(tyro.extras, "get_parser")
    with pytest.raises(SystemExit):
        cli.main(["report", "--help"])
    assert "usage: opl report" in capsys.readouterr().out


def test_help_goes_to_standard_output_and_exits_with_0(capsys):
    assert cli.main(["report", "-h"]) == 0
    assert "opl report FOLDER" in capsys.readouterr().out
