"""`opl` commands as child processes that can be killed, watched and counted (Linux).

A command is forked from a process that has imported torch once, which costs a tenth of a second. Commands that start
themselves again by `sys.argv` run in a fresh Python process.
"""

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import psutil

TIME_LIMIT = 300.0  # seconds after which a command counts as hanging
GRACE = 10.0  # seconds in which the children of a finished command must exit
MEMORY = 6 * 2**30  # bytes per command, so that an endless file cannot take down the machine
SUBREAPER, DEATH_SIGNAL = 36, 1  # prctl: adopt orphaned descendants; receive a signal when the parent dies
PRELOADED = (
    "torch", "lightning_fabric", "datasets", "pyarrow.parquet", "matplotlib.figure", "scipy.stats", "sklearn.datasets",
    "safetensors.torch", "rich.console", "PIL.Image", "opl.experiments.cli", "opl.experiments.training.run",
    "opl.experiments.report.page",
)  # fmt: skip
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "120"}
CRASHES = ("Traceback (most recent call last)", "Fatal Python error", "a defect of opl")


class Ended(NamedTuple):
    """How a command ended; `orphans` are the command lines of the processes that it left running."""

    code: int
    output: str
    seconds: float
    hung: bool = False
    orphans: tuple[str, ...] = ()

    @property
    def fault(self) -> str:
        """The fault that any command may have, whatever its task; empty if it has none."""
        if self.hung:
            return "hang"
        if any(text in self.output for text in CRASHES) or self.code < 0:
            return "traceback"
        return "orphan" if self.orphans else ""

    @property
    def refused(self) -> bool:
        """Whether it ended with exit code 1 or 2 and a message."""
        return self.code in (1, 2) and bool(self.output.strip())


class Command:
    """A running command."""

    running: ClassVar[set[int]] = set()

    def __init__(self, child: Any, output: IO[bytes]) -> None:
        self.child, self.output, self.started = child, output, time.monotonic()
        self.pid: int = child.pid
        self.running.add(self.pid)

    def signal(self, number: int, *, group: bool = True) -> None:
        """Send a signal to all processes of the command, or only to the first."""
        if self.child.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)

    def wait_until(self, condition: Callable[[], bool], limit: float = TIME_LIMIT) -> bool:
        """Wait until the condition holds; False if the command ended or the time ran out before."""
        deadline = time.monotonic() + limit
        while self.child.exitcode is None and time.monotonic() < deadline:
            if condition():
                return True
            time.sleep(0.001)
        return False

    def wait(self, limit: float = TIME_LIMIT) -> Ended:
        """Wait until it ends; kill it when the time is up."""
        self.wait_until(lambda: False, limit)  # not `join`, which also waits for processes that the command has left
        hung = self.child.exitcode is None
        if hung:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.running.discard(self.pid)
        seconds = time.monotonic() - self.started
        orphans = end_orphans(0.0 if hung else GRACE)
        self.output.seek(0)
        return Ended(self.child.exitcode, self.output.read().decode(errors="replace"), seconds, hung, orphans)


def preload() -> None:
    """Import what commands need and adopt orphans, before any thread is started."""
    os.environ.update(ENVIRONMENT)
    for name in PRELOADED:
        import_module(name)
    prctl(SUBREAPER, 1)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def start(
    argv: Sequence[str] = (),
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    fresh: bool = False,
    delay: float = 0.0,
    call: Callable[[], object] | None = None,
    memory: int = MEMORY,
) -> Command:
    """Start `opl argv`, or `call` in its place, in a forked child; `fresh` starts a new Python process."""
    output = tempfile.TemporaryFile()  # noqa: SIM115

    def become() -> None:
        """Turn the forked child into an `opl` command."""
        os.setsid()
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        Command.running.clear()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.environ.update(environment or {})
        os.chdir(cwd or ".")
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time.sleep(delay)
        if fresh:
            os.execv(sys.executable, [sys.executable, "-P", "-m", "opl", *argv])
        try:
            _execute(list(argv), call)
        finally:
            atexit._run_exitfuncs()  # which a forked child would not do

    child = multiprocessing.get_context("fork").Process(target=become)
    child.start()
    return Command(child, output)


def _execute(argv: list[str], call: Callable[[], object] | None) -> None:
    from opl.errors import OplError
    from opl.experiments.cli import main

    sys.argv = ["opl", *argv]
    if call is None:
        sys.exit(main(argv))
    try:
        call()
    except OplError as error:
        sys.exit(f"opl: {error}")


def run(argv: Sequence[str] = (), *, limit: float = TIME_LIMIT, **options: object) -> Ended:
    """Start a command and wait until it ends; see `start`."""
    return start(argv, **options).wait(limit)  # type: ignore[arg-type]


def call_in_child(function: Callable[[], object]) -> str:
    """The last printed line of a function that runs in a child, so that its threads and memory are gone afterwards."""
    ended = run(call=lambda: print(f"\n{function()}"), memory=2 * MEMORY)
    if ended.code:
        raise RuntimeError(f"a case cannot be made: {ended.output}")
    return ended.output.splitlines()[-1]


def end_orphans(grace: float) -> tuple[str, ...]:
    """Wait until no process is left by finished commands; kill those that stay, and return their command lines."""
    deadline = time.monotonic() + grace
    while (left := _orphans()) and time.monotonic() < deadline:
        time.sleep(0.02)
    lines = []
    for process in left:
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
            process.kill()
    psutil.wait_procs(left, timeout=GRACE)
    return tuple(lines)


def _orphans() -> list[psutil.Process]:
    """The living descendants of this process that belong to no running command; dead ones are reaped."""
    left = []
    for child in psutil.Process().children():
        if child.pid not in Command.running:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child.pid, os.WNOHANG)
            with contextlib.suppress(psutil.Error):
                left += [part for part in (child, *child.children(recursive=True)) if part.is_running()]
    return left
