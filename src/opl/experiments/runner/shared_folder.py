"""Whether the machines of a cluster see the folder of the runs, and have the same versions."""

import os
import platform
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from ... import __version__
from ...errors import FolderError, OplError

PACKAGES = ("torch", "numpy")
"""Packages that decide about the numbers of a run."""

LOST = 360.0
"""Seconds after which a file server has released the lock of a lost machine, with some to spare."""


class Machine(NamedTuple):
    """What a task found on its machine."""

    host: str
    token: str
    """The content of the token file; empty if the machine does not see it."""
    versions: dict[str, str]


def look(token_file: str) -> Machine:
    """Describe the machine on which this is called."""
    file = Path(token_file)
    try:
        token = file.read_text()
    except OSError:
        token = ""
    return Machine(socket.gethostname(), token, versions())


def versions() -> dict[str, str]:
    """The versions that decide about the numbers of a run."""
    return {"opl": __version__, "python": platform.python_version()} | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@contextmanager
def token_in(folder: Path) -> Iterator[tuple[Path, str]]:
    """A file with a random token in a folder, for other machines to read."""
    file, token = folder / f".seen-{secrets.token_hex(8)}", secrets.token_hex(16)
    try:
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644), "w") as stream:
            stream.write(token)
    except OSError as error:
        raise FolderError(f"cannot write to {folder} ({error.strerror}): give another folder with --out.") from error
    try:
        yield file, token
    finally:
        file.unlink(missing_ok=True)


def refuse_blind(machines: Iterable[Machine], token: str, folder: Path) -> None:
    """Raise an error that names the machines which do not see a folder."""
    blind = sorted({machine.host for machine in machines if machine.token != token})
    if blind:
        raise FolderError(
            f"{folder} is not seen by {', '.join(blind)}: give a folder with --out that all machines of the cluster "
            "share."
        )


class Versions:
    """Says once of each machine that its versions differ from those here."""

    def __init__(self) -> None:
        self.here = versions()
        self.known: set[str] = set()

    def compare(self, machine: Machine) -> None:
        """Say how a machine differs."""
        other = [f"{name} {machine.versions.get(name)} (here: {ours})" for name, ours in self.here.items()
                 if machine.versions.get(name) != ours]  # fmt: skip
        if other and machine.host not in self.known:
            print(f"{machine.host} has other versions, so its numbers may differ: {', '.join(other)}", file=sys.stderr)
        self.known.add(machine.host)


def missing_extra(package: str, extra: str) -> OplError:
    """The error for a backend whose library is not installed."""
    return OplError(
        f"{package} is not installed: pip install 'orthogonal-projection-loss[{extra}]', on all machines of the "
        "cluster."
    )
