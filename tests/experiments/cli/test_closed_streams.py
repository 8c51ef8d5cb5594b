"""Commands whose standard input, output or error is closed, as by `2>&-`: same exit codes, same files."""

import os
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from _finished_runs import write_finished

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apart")]
CLOSED = [" ".join(streams) for streams in product(("", "0<&-"), ("", "1>&-"), ("", "2>&-"))][1:]
ALL = "0<&- 1>&- 2>&-"
TINY = "--scale tiny --out runs"


def opl(folder: Path, command: str, streams: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, which closes streams."""
    line = f"exec {shlex.quote(sys.executable)} -P -m opl {command} {streams}"
    return subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(sys.modules["opl"].__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version", 0),
        ("--help", 0),
        ("train --help", 0),
        ("recipes", 0),
        ("data", 0),
        ("check finished", 0),
        ("report finished", 0),
        ("results add finished --to results", 0),
        ("results write --check --records gone", 2),
        ("chekc finished", 2),
    ],
)
def test_closed_streams_change_no_exit_code(command, code, tmp_path):
    write_finished(tmp_path / "finished")
    for streams in ("", *CLOSED):
        done = opl(tmp_path, command, streams)
        assert done.returncode == code, (streams, done.stderr)
        assert "Traceback" not in done.stderr
        assert "bug in opl" not in done.stderr


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (f"train digits-opl --epochs 1 {TINY}", "runs/digits-opl/seed-0/done"),
        (f"train digits-opl --epochs 1 --devices 2 {TINY}", "runs/digits-opl/seed-0/done"),
        (f"reproduce demo --seeds 1 {TINY}", "runs/tiny/demo/table.md"),
        (f"search digits-opl --over method.weight=1,2 {TINY}", "runs/search/digits-opl/winner.json"),
    ],
)
def test_commands_that_train_work_with_all_streams_closed(command, left, tmp_path):
    assert opl(tmp_path, command, ALL).returncode == 0
    assert (tmp_path / left).exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(tmp_path):
    assert opl(tmp_path, "check gone", "2>/dev/full").returncode in (2, 120)  # 120: Python's own flush at exit fails


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    """What a library prints must not end up in a file that was opened when standard error was closed."""
    code = (
        "from opl.experiments.terminal import open_closed_streams\n"
        "open_closed_streams()\n"
        "import os, sys\n"
        "file = open('file', 'wb')\n"
        "os.write(2, b'printed by a library'); print('more', file=sys.stderr, flush=True)\n"
        "sys.exit(file.fileno() < 3)\n"
    )
    (tmp_path / "code.py").write_text(code)
    assert subprocess.run(["sh", "-c", f"{sys.executable} code.py {ALL}"], cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "file").read_bytes() == b""
