"""`opl` commands that can be killed, watched and counted (Linux).

`call` runs a command in this process, which is the fastest. `start` forks a child from a process that has imported
torch once, for commands that are killed or may take all memory; `start(fresh=True)` starts a new Python process, for
commands that start themselves again by `sys.argv`. A command is a line of text or a list of arguments. Its working
folder is the folder of the case, so that paths are relative, and its cache is in there.
"""

import atexit
import contextlib
import ctypes
import io
import multiprocessing
import os
import resource
import shlex
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import psutil

TIME_LIMIT = 300.0  # seconds after which a command counts as hanging
GRACE = 10.0  # seconds in which the children of a finished command must exit
DEATH_SIGNAL, ADOPT_ORPHANS = 1, 36  # options of prctl
FORK = multiprocessing.get_context("fork")
MEMORY = 6 * 2**30  # bytes per process, so that an endless file cannot take down the machine
PRELOADED = (
    "torch", "lightning_fabric", "datasets", "pyarrow.parquet", "matplotlib.figure", "scipy.stats", "sklearn.datasets",
    "safetensors.torch", "rich.console", "PIL.Image", "opl.experiments.cli", "opl.experiments.training.run",
    "opl.experiments.report.page",
)  # fmt: skip
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "120"}
CRASHES = ("Traceback (most recent call last)", "Fatal Python error", "a bug in opl")
Argv = str | Sequence[str]
Function = Callable[[], object] | None


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
    def outcome(self) -> str:
        """The outcome of a command that may succeed, or refuse with exit code 1 or 2 and a message."""
        refused = self.code in (1, 2) and self.output.strip()
        return self.fault or ("right" if self.code == 0 else "refused" if refused else "silent")


def worst(results: Sequence[Ended]) -> Ended:
    """The first command that failed; the first of all if none did."""
    return next((ended for ended in results if ended.fault or ended.code), results[0])


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
            time.sleep(0.002)
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
    """Import what commands need, before any thread is started."""
    os.environ.update(ENVIRONMENT)
    for name in PRELOADED:
        import_module(name)


class Worker(FORK.Process):
    """A function in a child that adopts orphans, and ends with this process."""

    def run(self) -> None:
        """Run the function, and end what it leaves behind."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        prctl(DEATH_SIGNAL, signal.SIGTERM)
        prctl(ADOPT_ORPHANS, 1)
        Command.running.clear()
        try:
            super().run()
        finally:
            Command.running.clear()
            end_orphans(0.0)

    def end(self) -> int:
        """Wait until it ends, and return its exit code."""
        self.join()
        return self.exitcode


def fork(function: Callable[..., object], *arguments: Any) -> Worker:
    """Start a worker."""
    worker = Worker(target=function, args=arguments)
    worker.start()
    return worker


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _execute(argv: Argv, cwd: Path, function: Function) -> int:
    """Run `opl argv`, or a function in its place, in a folder; return the exit code."""
    from opl.errors import OplError
    from opl.experiments.cli import main

    os.chdir(cwd)
    os.environ["OPL_CACHE"] = str(cwd / "cache")
    sys.argv = ["opl", *(shlex.split(argv) if isinstance(argv, str) else argv)]
    try:
        return main(sys.argv[1:]) if function is None else int(bool(function()))
    except OplError as error:
        print(f"opl: {error}", file=sys.stderr)
        return 1


def start(
    argv: Argv, cwd: Path, *, fresh: bool = False, delay: float = 0.0, function: Function = None, memory: int = MEMORY
) -> Command:
    """Start a command in a forked child."""
    output = tempfile.TemporaryFile()  # noqa: SIM115

    def become() -> None:
        """Turn the forked child into an `opl` command."""
        os.setsid()
        prctl(DEATH_SIGNAL, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        Command.running.clear()
        for number, target in enumerate((os.open(os.devnull, os.O_RDONLY), output.fileno(), output.fileno())):
            os.dup2(target, number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time.sleep(delay)
        replace = lambda: os.execv(sys.executable, [sys.executable, "-P", "-m", *sys.argv])  # noqa: E731
        try:
            sys.exit(_execute(argv, cwd, replace if fresh else function))
        finally:
            atexit._run_exitfuncs()  # which a forked child would not do

    child = FORK.Process(target=become)
    child.start()
    return Command(child, output)


def run(argv: Argv, cwd: Path, *, limit: float = TIME_LIMIT, **options: Any) -> Ended:
    """Start a command and wait until it ends; see `start`."""
    return start(argv, cwd, **options).wait(limit)


def prepare(argv: Argv, cwd: Path, **options: Any) -> Ended:
    """Run a command, or a function, that a case needs and that must succeed."""
    ended = run(argv, cwd, **options)
    if ended.code or ended.fault:
        raise RuntimeError(f"a case cannot be made: opl {argv}: {ended.output}")
    return ended


class HangError(BaseException):
    """A command took too long."""


def call(argv: Argv, cwd: Path, *, limit: float = TIME_LIMIT, function: Function = None) -> Ended:
    """Run a command in this process; interrupt it when the time is up."""

    def interrupt(*_: object) -> None:
        raise HangError

    buffer, code, started, hung = io.BytesIO(), -1, time.monotonic(), False
    out = io.TextIOWrapper(buffer, "utf-8", write_through=True)  # as strict as the streams of a process
    err = io.TextIOWrapper(buffer, "utf-8", errors="backslashreplace", write_through=True)
    environment, home, usual = dict(os.environ), os.getcwd(), signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            code = _execute(argv, cwd, function)
    except HangError:
        hung = True
    except BaseException:
        err.write(traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)
        os.chdir(home)
        os.environ.clear()
        os.environ.update(environment)
    text, seconds = buffer.getvalue().decode(errors="replace"), time.monotonic() - started
    return Ended(code, text, seconds, hung, end_orphans(GRACE))


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
                if "multiprocessing.resource_tracker" not in " ".join(child.cmdline()):  # ends with this process
                    left += [part for part in (child, *child.children(recursive=True)) if part.is_running()]
    return left
