"""One owner for a file or folder, on any file system: a file that names the process, taken over once that is dead.

The lock is a hard link to a complete file, which either exists or does not: unlike `flock`, that works on network file
systems and is seen by other machines. Whether an owner on this machine is dead is asked of the system; an owner
elsewhere refreshes the lock, and is dead if it stops doing so.
"""

import json
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from ...errors import FolderError
from ..files import CLAIM, read_limited

REFRESH = 30.0  # seconds between two signs of life
SILENCE = 300.0  # seconds without one after which an owner on another machine is dead


class Owner(NamedTuple):
    """The process that holds a lock."""

    host: str
    place: str
    """The running system and its process ids: numbers of processes of one place can be compared."""
    process: int
    start: str
    """When the process started, which tells it from a later one of the same number."""
    since: str
    token: str

    @classmethod
    def here(cls) -> "Owner":
        """Return this process as an owner."""
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        return cls(socket.gethostname(), _place(), os.getpid(), _start(os.getpid()), since, secrets.token_hex(16))


class FileLock:
    """A lock file, held as a context manager; `wait` is for how many seconds a living owner is waited for.

    Args:
        file: the lock file; its folder must exist.
        wait: seconds to wait for another owner before an error says who it is.
        refresh: whether to show signs of life to other machines, for locks that are held for long.

    Example:
        >>> import tempfile
        >>> with FileLock(Path(tempfile.mkdtemp()) / "owner.json") as lock:
        ...     lock.is_held()
        True
    """

    def __init__(self, file: Path, *, wait: float = 0.0, refresh: bool = False) -> None:
        self.file, self.wait, self.refresh = file, wait, refresh
        self.owner: Owner | None = None
        self.released = threading.Event()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self.wait
        owner = Owner.here()
        while (other := _take(self.file, owner)) is not None:
            if time.monotonic() >= deadline:
                raise FolderError(
                    f"{self.file.parent} is in use by process {other.process} on {other.host} since {other.since}: "
                    "wait until it ends, or give another folder with --out."
                )
            time.sleep(0.02)
        self.owner = owner
        self.released.clear()
        if self.refresh:
            threading.Thread(target=self._show_life, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        if self.is_held():
            self.file.unlink(missing_ok=True)
        self.owner = None

    def is_held(self) -> bool:
        """Whether this process still is the owner; another one may take over a process that was silent for long."""
        found = _read(self.file)
        return self.owner is not None and found is not None and found.token == self.owner.token

    def _show_life(self) -> None:
        while not self.released.wait(REFRESH):
            try:
                if self.is_held():
                    os.utime(self.file)
            except OSError:
                continue  # the next sign may reach it


def _take(file: Path, owner: Owner) -> Owner | None:
    """Take a lock; if somebody else has it, return who."""
    own = _write(file.with_name(f".{file.name}.{owner.token}{CLAIM}"), owner)
    try:
        for _ in range(3):
            if _link(own, file):
                return None
            other = _read(file)
            if other is None and not file.exists():
                continue  # it was released meanwhile
            if other is not None and not _is_dead(other, file):
                return other
            if other is None and _silence(file) < SILENCE:
                return Owner("an unknown machine", "", 0, "", "a moment", "")
            if _take_over(own, file, other):
                return None
        return _read(file) or Owner("this machine", "", 0, "", "a moment", "")
    finally:
        own.unlink(missing_ok=True)


def _take_over(own: Path, file: Path, dead: Owner | None) -> bool:
    """Replace the lock of a dead owner, one process at a time."""
    gate = file.with_name(f".{file.name}.takeover")
    if not _link(own, gate):
        if _silence(gate) > REFRESH:  # whoever was at it has died
            gate.unlink(missing_ok=True)
        return False
    try:
        now = _read(file)
        if (now.token if now else "") != (dead.token if dead else ""):
            return False
        os.replace(_write(own.with_name(f"{own.name}{CLAIM}"), _read(own)), file)
        return True
    finally:
        gate.unlink(missing_ok=True)


def _link(source: Path, target: Path) -> bool:
    """Give a file a second name, unless that exists; where there are no hard links, by a file that must be new."""
    try:
        os.link(source, target)
        return True
    except FileExistsError:
        return False
    except OSError:
        try:
            number = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with open(number, "wb") as stream:
            stream.write(source.read_bytes())
        return True


def _write(file: Path, owner: Owner | None) -> Path:
    number = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    with open(number, "w") as stream:
        json.dump(owner._asdict() if owner else {}, stream)
    return file


def _read(file: Path) -> Owner | None:
    """The owner that a lock names; None if there is none, or it is incomplete."""
    try:
        content: Any = json.loads(read_limited(file))
        return Owner(**{name: kind(content[name]) for name, kind in Owner.__annotations__.items()})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _is_dead(owner: Owner, file: Path) -> bool:
    if owner.place == _place():
        return _start(owner.process) != owner.start
    return _silence(file) > SILENCE


def _silence(file: Path) -> float:
    """Seconds since the last sign of life, by the clock of the file system."""
    probe = file.with_name(f".{file.name}.{secrets.token_hex(8)}{CLAIM}")
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        return probe.stat().st_mtime - file.stat().st_mtime
    except OSError:
        return 0.0
    finally:
        probe.unlink(missing_ok=True)


def _place() -> str:
    """The running system and its numbering of processes; containers on one machine differ in the latter."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _start(process: int) -> str:
    """When a process started, in ticks since the system did; empty if there is no such process, or it is a zombie."""
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _is_alive(process)


def _is_alive(process: int) -> str:
    """The same where the system does not say when a process started."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "alive"
