"""Control characters and markup in foreign text: every command shows them as text, on a terminal and in a pipe."""

import json
import re
import sys
import unicodedata
from pathlib import Path

import pytest

import opl
from _finished_runs import write_finished, write_measure
from _image_files import class_folders
from _terminal import on_terminal
from _vouched import vouch
from opl.experiments import cli
from opl.experiments.terminal import escape
from opl.experiments.tryout.overview import print_choice

pytestmark = pytest.mark.usefixtures("apart")
HIDDEN, TITLE = "\x1b[8m", "\x1b]0;owned\x07"  # SGR "conceal", and a new title of the window
HOSTILE = f"{HIDDEN}{TITLE}[bold red]cat[/red]"
SEEN = "\\x1b[8m\\x1b]0;owned\\x07[bold red]cat[/red]"
MARKERS = {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e"} | set("\u2066\u2067\u2068\u2069") | {"\u2028", "\u2029"}


def run_named(folder: Path, name: str = f"digits{HOSTILE}") -> Path:
    """A finished run whose folder, recipe, class names, measure and messages are hostile."""
    path = write_finished(folder, name.replace("/", "|"), recipe={"name": name}, splits={"class_names": [HOSTILE] * 10})
    write_measure(path, "m", {HOSTILE: 1.0})
    return path


def damaged(folder: Path) -> Path:
    path = run_named(folder)
    (path / "measures" / HOSTILE.replace("/", "|")).write_text("x")
    vouch(path)
    (path / "measures" / HOSTILE.replace("/", "|")).write_text("y")
    return path


def images(folder: Path) -> Path:
    return class_folders(folder / HOSTILE.replace("/", "|"), {"only": 3})


def recipe_file(folder: Path) -> Path:
    file = folder / f"{HOSTILE.replace('/', '|')}.json"
    file.write_text(json.dumps({"kind": HOSTILE}))
    return file


COMMANDS = {  # the arguments of a command that meets hostile text
    "check": lambda f: ["check", str(damaged(f).parents[1])],
    "results": lambda f: ["results", "add", str(damaged(f).parents[1]), "--to", str(f / "to")],
    "evaluate": lambda f: ["evaluate", str(damaged(f)), "geometry"],
    "export": lambda f: ["export", str(damaged(f)), str(f / "export")],
    "report": lambda f: ["report", str(run_named(f).parent)],
    "reproduce": lambda f: ["reproduce", "demo", "--scale", "small", "--dry-run", "--out", str(recipe_file(f))],
    "train": lambda f: ["train", str(recipe_file(f))],
    "search": lambda f: ["search", str(recipe_file(f))],
    "try": lambda f: ["try", str(images(f)), "--dry-run"],
    "data": lambda f: ["data", HOSTILE],
    "recipes": lambda f: ["recipes", HOSTILE],
    "bench": lambda f: ["bench", HOSTILE],
    "demo": lambda f: ["demo", "--out", str(recipe_file(f))],
}


def test_every_command_is_tested():
    assert COMMANDS.keys() == cli.COMMANDS.keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_text_does_not_control_the_terminal(command, tmp_path):
    argv = COMMANDS[command](tmp_path)
    seen = on_terminal(lambda: cli.main(argv), 200, 50, NO_COLOR="1", OMP_NUM_THREADS="1")
    assert HIDDEN not in seen.raw
    assert TITLE not in seen.raw
    assert "bug in opl" not in seen.text
    assert "Traceback" not in seen.text


@pytest.mark.parametrize("command", ["check", "results", "evaluate", "try", "recipes"])
def test_hostile_text_is_shown_escaped_in_a_pipe(command, tmp_path, capsys):
    cli.main(COMMANDS[command](tmp_path))
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert SEEN.replace("/", "|") in captured.out + captured.err or SEEN in captured.out + captured.err


def test_markup_in_class_names_is_shown_as_it_is(capsys):
    print_choice("[/red]", {"classes": ("2 classes, 3 ([bold red]cat)", "[/red]")}, ["[bold red]cat :smile:"])
    shown = capsys.readouterr().err
    assert (shown.count("[/red]"), shown.count("[bold red]cat"), shown.count(":smile:")) == (2, 2, 1)


def test_exactly_control_characters_are_escaped():
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        control = unicodedata.category(char) == "Cc" and char not in "\t\n"
        assert (escape(char) != char) == (control or char in MARKERS), hex(code)


def test_only_one_module_makes_consoles_and_no_column_reads_markup():
    package = Path(opl.__file__).parent
    texts = {path.name: path.read_text() for path in package.rglob("*.py")}
    assert {name for name, text in texts.items() if re.search(r"\bConsole\)?\(|\(Console\)", text)} == {"terminal.py"}
    for text in texts.values():
        assert all("markup=False" in column for column in re.findall(r'TextColumn\("\{task.desc.*?\)', text))
