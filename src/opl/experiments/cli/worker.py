"""`python -m opl.experiments.cli.worker`: execute one command after another, and end with the parent.

Each line of standard input has the arguments and the log file of a command, as JSON; each line of standard output is
the exit code of a command.
"""

import json
import os
import signal
import sys
import traceback
import warnings
from pathlib import Path

from ..files import open_to_append
from ..training.stopping import end_with_parent
from . import main

TERMINATED = 128 + signal.SIGTERM  # the exit code of a command that SIGTERM stopped


def serve() -> None:
    """Execute the commands of standard input until it ends."""
    end_with_parent()
    replies, errors = os.dup(1), os.dup(2)
    os.dup2(errors, 1)
    for line in sys.stdin.buffer:
        command = json.loads(line)
        code = _execute(command["argv"], Path(command["log"]), errors)
        try:
            os.write(replies, f"{code}\n".encode())
        except BrokenPipeError:  # the parent has died, and its run was stopped
            return
        if code == TERMINATED:
            return


def _execute(argv: list[str], log: Path, errors: int) -> int:
    """Execute a command as if in a new process, with all output appended to a file."""
    with open_to_append(log) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    try:
        with warnings.catch_warnings():  # a warning that an earlier command raised is raised again
            return main(argv)
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
