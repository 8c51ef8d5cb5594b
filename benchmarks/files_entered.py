"""How many files of `opl` a command enters: files with a function that is called; class and module bodies do not count.

    python benchmarks/files_entered.py      # a step with opl.regularize, then opl train, then opl report
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

ONE_LINE = "opl.regularize"
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


def take_step() -> None:
    """Build a criterion with `opl.regularize`, and compute the loss of one batch and its gradient."""
    import torch
    from torch import nn

    import opl

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    criterion = opl.regularize(nn.CrossEntropyLoss(), model)
    criterion(model(torch.rand(32, 8)), torch.arange(32) % 4).backward()


def run_command(argv: list[str]) -> None:
    from opl.experiments import cli

    with contextlib.suppress(SystemExit):
        cli.main(argv)


def report_files(argv: list[str], listed: bool) -> None:
    tracer = trace(take_step if argv == [ONE_LINE] else lambda: run_command(argv))
    only_on_import = sorted(tracer.on_import - tracer.called)
    loads = "torch imported" if "torch" in sys.modules else "no torch imported"
    name = argv[0] if argv == [ONE_LINE] else f"opl {' '.join(argv)}"
    print(f"{name}: {len(tracer.called)} files, {len(only_on_import)} more on import, {loads}")
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
        report_files(options.command, options.list)
        return
    listed = ["--list"] if options.list else []
    with tempfile.TemporaryDirectory() as out:
        for command in ([ONE_LINE], ["train", "digits-opl", "--scale", "tiny", "--out", out], ["report", out]):
            subprocess.run([sys.executable, __file__, *listed, *command], check=True)


if __name__ == "__main__":
    main()
