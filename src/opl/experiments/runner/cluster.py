"""What the cluster backends share: the environment of tasks, a check of all machines, and what an interrupt does."""

import os
import platform
import secrets
import socket
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Self

from ... import __version__
from ...errors import FolderError, OplError
from ..files import read_limited, write_whole
from ..terminal import count
from .executor import Executor, Task, start_python

PACKAGES = ("torch", "numpy")
"""Packages that affect the numbers of a run."""


def start_child(task: Task, environment: Mapping[str, str]) -> Any:
    """Start a task on this machine of a cluster.

    A run starts its own processes, so it must not mistake the batch job around it for its launcher.
    """
    inherited = {name: value for name, value in os.environ.items() if name != "SLURM_NTASKS"}
    return start_python(task.arguments, task.resources.cpus, {**inherited, **environment}, task.log)


def import_engine(package: str, extra: str) -> Any:
    """Import the library of a backend; the error names the extra that installs it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise OplError(
            f"{package} is not installed: run pip install 'orthogonal-projection-loss[{extra}]' on all machines of the "
            "cluster."
        ) from error


def opl_variables() -> dict[str, str]:
    """Return the `OPL_*` environment variables of this process, which tasks on other machines need too."""
    return {name: value for name, value in os.environ.items() if name.startswith("OPL_")}


class Machine(NamedTuple):
    """What a task reports about its machine."""

    host: str
    token: str
    """The content of the token file; empty if the machine does not see it."""
    versions: dict[str, str]


def describe_machine(token_file: str) -> Machine:
    """Describe the machine that executes this function."""
    try:
        token = read_limited(Path(token_file), 4096).decode()
    except OSError:
        token = ""
    return Machine(socket.gethostname(), token, versions())


def versions() -> dict[str, str]:
    """Return the versions that affect the numbers of a run."""
    return {"opl": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def check_machines(folder: Path, describe: Callable[[str], Iterable[Machine]]) -> None:
    """Raise an error if a machine does not see a folder, and print which machines have other versions.

    Args:
        folder: the folder of the runs.
        describe: calls `describe_machine` with a token file on machines of the cluster.
    """
    file, token = folder / f".token-{secrets.token_hex(8)}", secrets.token_hex(16)
    try:
        write_whole(file, token)
    except OSError as error:
        raise FolderError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out.") from error
    try:
        machines = {(machine.host, machine.token): machine for machine in describe(str(file))}.values()
    finally:
        file.unlink(missing_ok=True)
    hosts = sorted({machine.host for machine in machines if machine.token != token})
    if hosts:
        raise FolderError(
            f"{folder} is not visible on {', '.join(hosts)}: choose a folder with --out that all machines of the "
            "cluster share."
        )
    here = versions()
    for machine in machines:
        different = [f"{name} {machine.versions.get(name)} (here: {ours})" for name, ours in here.items()
                     if machine.versions.get(name) != ours]  # fmt: skip
        if different:
            text = f"{machine.host} has other versions, so its numbers may differ: {', '.join(different)}"
            print(text, file=sys.stderr)


class Cluster(Executor):
    """Executes tasks on machines that must all see the folder of the runs.

    An interrupted command leaves its tasks on the cluster or, with `cancel`, cancels them.
    """

    name: str
    patience = 360.0
    """A file server has released the lock of a lost machine by then, with time to spare."""
    ahead = True

    def __init__(self, folder: Path, cancel: bool = False) -> None:
        super().__init__()
        self.folder, self.cancels = folder.absolute(), cancel

    def __enter__(self) -> Self:
        self.connect()
        try:
            check_machines(self.folder, self.describe_machines)
        except BaseException:
            self.disconnect()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is KeyboardInterrupt and self.running:
            runs = count(len(self.running), "run")
            if self.cancels:
                self.cancel()
                print(f"{runs} on {self.name} cancelled; the same command resumes training.", file=sys.stderr)
            else:
                how = "the same command re-attaches; with --on-interrupt cancel, Ctrl-C cancels runs"
                print(f"{runs} left on {self.name}: {how}.", file=sys.stderr)
        self.disconnect()

    @abstractmethod
    def connect(self) -> None:
        """Connect to the cluster; if there is none, raise an error that names what is missing."""

    @abstractmethod
    def describe_machines(self, token_file: str) -> Iterable[Machine]:
        """Call `describe_machine` on machines of the cluster."""

    def disconnect(self) -> None:
        """End the connection; tasks that were left continue."""
