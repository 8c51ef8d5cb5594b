"""`python -m opl.experiments.cli.worker`: execute one command after another, for `opl.experiments.cluster.commands`.

A line of standard input is a command and its log file, as JSON; a line of standard output is its exit code.
"""

import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

from . import main


def serve() -> None:
    """Execute the commands of standard input until it ends; the process that sent them decides about Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies, errors = os.dup(1), os.dup(2)
    os.dup2(errors, 1)
    for line in sys.stdin.buffer:
        command = json.loads(line)
        code = _execute(command["words"], Path(command["log"]), errors)
        os.write(replies, f"{code}\n".encode())


def _execute(words: list[str], log: Path, errors: int) -> int:
    """Execute a command as if in a process of its own, with all output appended to a file."""
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        with warnings.catch_warnings():  # a warning that an earlier command raised is raised again
            return main(words)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in (1, 2):
            os.dup2(errors, stream)


if __name__ == "__main__":
    serve()
