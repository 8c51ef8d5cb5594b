"""Shell completion as a shell sees it, and `python -m opl`."""

import os
import shutil
import subprocess
import sys

import pytest

import opl
from opl.experiments import cli

COMPLETE = """
opl() { :; }
source "$1"; shift
argv() { complete -p opl | sed 's/.*-F \\([^ ]*\\).*/\\1/'; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$(argv) opl "${@: -1}"
echo "${COMPREPLY[@]}"
"""


def run(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opl", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_flags_and_choices(tmp_path):
    script = tmp_path / "opl.bash"
    script.write_text(run("--completion", "bash").stdout)

    def complete(*argv: str) -> set[str]:
        done = subprocess.run(
            ["bash", "-c", COMPLETE, "bash", str(script), "opl", *argv], capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    assert complete("") >= set(cli.COMMANDS)
    assert complete("rep") == {"report", "reproduce"}
    assert complete("reproduce", "--sca") == {"--scale"}
    assert complete("reproduce", "--scale", "") == {"paper", "small", "tiny"}
    assert complete("train", "digits-opl", "--dry") == {"--dry-run"}
    assert complete("results", "a") == {"add"}


def test_zsh_gets_a_script_with_every_command(capsys):
    assert cli.main(["--completion", "zsh"]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in cli.COMMANDS)


@pytest.mark.parametrize("argv", [["zhs"], [], ["bash", "zsh"]])
def test_another_shell_is_one_sentence_that_names_the_shells(argv, capsys):
    assert cli.main(["--completion", *argv]) == 2
    captured = capsys.readouterr()
    assert "'zsh' or 'bash'" in captured.err
    assert captured.out == ""


def test_python_m_opl_is_opl():
    assert run("--version").stdout.strip() == opl.__version__
    wrong = run("bnch")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'bench'" in wrong.stderr
