"""The command line: commands, exit codes and what it imports."""

from importlib import import_module
from pathlib import Path

import pytest

import opl
from _python import python
from opl.experiments import cli


def test_the_command_line_can_be_imported_and_asked_for_help_without_torch():
    code = (
        "import sys\n"
        "sys.modules.update(torch=None, tyro=None, rich=None)\n"  # importing them raises from here on
        "import opl.experiments.cli\n"
        "print(opl.experiments.cli.main(['--help']))"
    )
    assert python(code).rstrip().endswith("0")


@pytest.mark.parametrize(
    ("argv", "code", "expected"),
    [
        (["--help"], 0, "usage"),
        (["--version"], 0, opl.__version__),
        ([], 2, "usage"),
        (["bnch"], 2, "did you mean 'bench'"),
    ],
)
def test_exit_codes(capsys, argv, code, expected):
    assert cli.main(argv) == code
    captured = capsys.readouterr()
    assert expected in captured.out + captured.err


def test_every_command_has_a_module_with_parse_and_run():
    for name, command in cli.COMMANDS.items():
        module = import_module(f"{cli.__name__}.{command.module}")
        assert Path(module.__file__).parent == Path(cli.__file__).parent, name
        assert {"parse", "run"} <= set(dir(vars(module)[command.name])), name


def test_without_tyro_the_command_line_says_what_to_install():
    code = (
        "import sys\n"
        "sys.modules['tyro'] = None\n"
        "from opl.experiments import cli\n"
        "sys.stderr = sys.stdout\n"
        "print(cli.main(['data']))"
    )
    sentence, ended = python(code).splitlines()
    assert "orthogonal-projection-loss[experiments]" in sentence
    assert ended == "1"


def test_unknown_flag_exits_with_2():
    assert cli.main(["bench", "--secondz", "1"]) == 2
