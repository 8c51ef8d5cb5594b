"""`python -m opl.experiments.cli.worker`: execute one command after another, and end with the parent.

A line of standard input is a command and its log file, as JSON; a line of standard output is its exit code.
"""

import json
import os
import queue
import signal
import sys
import traceback
import warnings
from pathlib import Path

from ..runner.lifeline import hold_lifeline
from . import main

TERMINATED = 128 + signal.SIGTERM  # the exit code of a command that was told to end, and did


def serve() -> None:
    """Execute the commands of standard input until it ends."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    hold_lifeline(lines.put)
    replies, errors = os.dup(1), os.dup(2)
    os.dup2(errors, 1)
    while True:
        command = json.loads(lines.get())
        code = _execute(command["words"], Path(command["log"]), errors)
        try:
            os.write(replies, f"{code}\n".encode())
        except BrokenPipeError:  # the parent has died, and its run was stopped
            return
        if code == TERMINATED:
            return


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
