"""How many files of `opl` a command enters: files with a function that is called; class and module bodies do not count.

    python benchmarks/files_entered.py      # `opl train digits-opl --scale tiny`, then `opl report`
    python benchmarks/files_entered.py --list train digits-opl --scale tiny

Calls that only define a module (decorators, tables that are built on import) are counted separately as `on import`.
"""

import argparse
import contextlib
import inspect
import io
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = str(Path(__file__).parents[1] / "src" / "opl")


class Tracer:
    """Records the files of called functions, apart for calls below the body of a module that is being imported."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self.on_import: set[str] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and code.co_flags & inspect.CO_OPTIMIZED:
            name = code.co_filename.removeprefix(SOURCE).lstrip("/")
            if name not in self.called:
                (self.on_import if _is_importing(frame) else self.called).add(name)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False


def trace(call: Callable[[], Any]) -> Tracer:
    tracer = Tracer()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return tracer


def trace_command(argv: list[str], listed: bool) -> None:
    from opl.experiments import cli

    def call() -> None:
        with contextlib.suppress(SystemExit):
            cli.main(argv)

    tracer = trace(call)
    only_on_import = sorted(tracer.on_import - tracer.called)
    loads = "torch imported" if "torch" in sys.modules else "no torch imported"
    print(f"opl {' '.join(argv)}: {len(tracer.called)} files, {len(only_on_import)} more on import, {loads}")
    for name in sorted(tracer.called) if listed else ():
        print(f"  {name}")
    for name in only_on_import if listed else ():
        print(f"  {name} (on import)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also list the files")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the arguments of opl")
    options = parser.parse_args()
    if options.command:
        trace_command(options.command, options.list)
        return
    listed = ["--list"] if options.list else []
    with tempfile.TemporaryDirectory() as out:
        for command in (["train", "digits-opl", "--scale", "tiny", "--out", out], ["report", out]):
            subprocess.run([sys.executable, __file__, *listed, *command], check=True)


if __name__ == "__main__":
    main()
