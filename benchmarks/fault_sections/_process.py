"""`opl` commands as children that can be killed, watched and counted; works on Linux, since it reads /proc.

A command is forked from a process that has imported torch once, which costs a tenth of a second; those that start
processes of their own by `sys.argv` are fresh Python processes.
"""

import atexit
import contextlib
import ctypes
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO

LIMIT = 300.0  # seconds after which a command hangs
GRACE = 10.0  # seconds in which the children of an ended process must end
MEMORY = 6 * 2**30  # bytes that a command may take, so that an endless file does not take the machine down
SUBREAPER, DEATH_SIGNAL = 36, 1  # of prctl: orphans become children of this process; a signal once the parent dies
HEAVY = (
    "torch", "lightning_fabric", "datasets", "pyarrow.parquet", "matplotlib.figure",
    "scipy.stats", "sklearn.datasets", "safetensors.torch", "rich.console", "PIL.Image", "opl.experiments.cli",
    "opl.experiments.cli.flags", "opl.experiments.training.run", "opl.experiments.runner.jobs",
    "opl.experiments.evaluation.predict", "opl.experiments.evaluation.attack.evaluate",
    "opl.experiments.evaluation.few_shot.evaluate", "opl.experiments.report.page", "opl.experiments.export.bundle",
    "opl.experiments.data.read.cache", "opl.experiments.results.records",
)  # fmt: skip
SAFE = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "NO_COLOR": "1", "COLUMNS": "120"}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    said: str
    """What it wrote to standard output and standard error."""
    seconds: float
    hung: bool = False
    orphans: tuple[str, ...] = ()
    """The commands of the processes that it left behind."""

    @property
    def crashed(self) -> bool:
        """Whether it ended with a traceback, with the admission of a defect in its place, or by a signal."""
        words = ("Traceback (most recent call last)", "Fatal Python error", "this is a defect of opl")
        return any(each in self.said for each in words) or (self.code < 0 and not self.hung)

    @property
    def sentences(self) -> list[str]:
        """Its messages: errors and warnings of `opl`, and errors of the flags."""
        return [line for line in self.said.splitlines() if line.startswith("opl:") or "error" in line.lower()]


class Started:
    """A running command."""

    def __init__(self, pid: int, output: IO[bytes]) -> None:
        self.pid, self.output = pid, output
        self.began = time.monotonic()
        self.code: int | None = None
        _RUNNING.add(pid)

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                _RUNNING.discard(self.pid)
        return self.code

    def signal(self, number: int, *, group: bool = True) -> None:
        """Send a signal to all processes of the command, or to the first alone."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)

    def said(self) -> str:
        """What it has written so far."""
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def wait(self, limit: float = LIMIT, grace: float = GRACE) -> Ended:
        """Wait until it ends; one that does not end in time is killed."""
        deadline = time.monotonic() + limit
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        hung = self.poll() is None
        if hung:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
            while self.poll() is None:
                time.sleep(0.005)
        seconds = time.monotonic() - self.began
        orphans = sweep_orphans(0.0 if hung else grace)
        assert self.code is not None
        return Ended(self.code, self.said(), seconds, hung, orphans)


_RUNNING: set[int] = set()


def preload() -> None:
    """Import everything that commands need, and adopt orphans; before any thread is started."""
    os.environ.update(SAFE)
    for name in HEAVY:
        import_module(name)
    adopt_orphans()


def adopt_orphans() -> None:
    """Become the parent of every orphan among the descendants, so that none is lost from sight."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_with_parent(number: int) -> None:
    """Get a signal once the parent has died."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, number, 0, 0, 0)


def end_all() -> None:
    """Kill every descendant."""
    _RUNNING.clear()
    sweep_orphans(0.0)


def start(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    fresh: bool = False,
    before: Callable[[], None] | None = None,
    call: Callable[[], None] | None = None,
    memory: int = MEMORY,
) -> Started:
    """Start an `opl` command.

    Args:
        words: after `opl`.
        cwd: its working folder.
        environment: variables to set; an empty value unsets one.
        fresh: start a new Python process, for commands that start themselves again.
        before: called in the child before the command.
        call: called in place of the command, with its errors reported as by the command line.
        memory: bytes that it may take.
    """
    output = tempfile.TemporaryFile()  # noqa: SIM115
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Started(pid, output)
    _become(words, cwd, dict(environment or {}), output.fileno(), fresh, before, call, memory)
    raise AssertionError("a child never returns")


def run(words: Sequence[str], *, limit: float = LIMIT, **options: object) -> Ended:
    """Start a command and wait until it ends; see `start`."""
    return start(words, **options).wait(limit)  # type: ignore[arg-type]


def make_elsewhere(make: Callable[[], object]) -> str:
    """Call a function in a child, whose threads and memory are gone with it; returns its value as a text."""
    ended = run([], call=lambda: print(f"\n{make()}"), memory=2 * MEMORY)
    if ended.code:
        raise RuntimeError(f"a case cannot be made: {ended.said}")
    return ended.said.splitlines()[-1]


def _become(
    words: Sequence[str],
    cwd: Path | None,
    environment: dict[str, str],
    output: int,
    fresh: bool,
    before: Callable[[], None] | None,
    call: Callable[[], None] | None,
    memory: int,
) -> None:
    """Turn a forked child into an `opl` command."""
    code = 70
    try:
        os.setsid()
        end_with_parent(signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        _RUNNING.clear()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for name, value in environment.items():
            os.environ[name] = value
            if not value:
                del os.environ[name]
        if cwd is not None:
            os.chdir(cwd)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
        if before is not None:
            before()
        if fresh:
            os.execv(sys.executable, [sys.executable, "-P", "-m", "opl", *words])
        code = _call(list(words), call)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 255)


def _call(words: list[str], call: Callable[[], None] | None) -> int:
    from opl.errors import OplError
    from opl.experiments.cli import main

    sys.argv = ["opl", *words]
    code = 0
    try:
        if call is None:
            code = main(words)
        else:
            call()
    except OplError as error:
        print(f"opl: {error}", file=sys.stderr)
        code = 1
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    return code


def sweep_orphans(grace: float) -> tuple[str, ...]:
    """Wait until no process is left behind by ended commands; end those that stay, and return what they were."""
    deadline = time.monotonic() + grace
    while (left := _left_behind()) and time.monotonic() < deadline:
        time.sleep(0.02)
    names = tuple(_command(pid) for pid in left)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while _left_behind():
        time.sleep(0.005)
    return names


def _left_behind() -> list[int]:
    """The living descendants of this process that belong to no running command; dead ones are reaped."""
    children = _children()
    own = [pid for pid in children.get(os.getpid(), []) if pid not in _RUNNING]
    for pid in own:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return [each for pid in own if Path(f"/proc/{pid}").exists() for each in descendants(pid)]


def descendants(pid: int) -> list[int]:
    """A process and all that it started, itself first."""
    children = _children()
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def _children() -> dict[int, list[int]]:
    """The children of every process."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    return children


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return f"process {pid}"
