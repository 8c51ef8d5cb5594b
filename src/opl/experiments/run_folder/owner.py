"""The owner of a folder: one process at a time trains, searches or tries in it."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ...errors import FolderError
from ..files import make_folder, read_json, write_whole
from .manifest import json_bytes

OWNER, LOCK = "owner.json", ".owner.lock"


@contextmanager
def own(root: Path, *names: str, wait: float = 0.0) -> Iterator[Path]:
    """Create a folder and own it: a second process waits, then gets an error that names the first.

    The lock is the system's, so it is free as soon as its owner has ended, however it ended; the content and the times
    of the lock file and of `owner.json` do not matter.

    Args:
        root: an existing or new folder, which may be a link.
        names: the folders below it, which must not be links.
        wait: seconds to wait for another process.
    """
    folder = root.joinpath(*names)
    try:
        make_folder(root, *names)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=wait, poll_interval=0.02)
    except Timeout as error:
        raise FolderError(
            f"{folder} is in use by {_describe_owner(folder)}: wait until it ends, or choose another folder with --out."
        ) from error
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        facts = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
        write_whole(folder / OWNER, json_bytes(facts))
        yield folder
    finally:
        with suppress(OSError):  # the folder may be gone
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def _describe_owner(folder: Path) -> str:
    """Describe the process that owns the folder."""
    try:
        owner = read_json(folder / OWNER, 4096, links=False)
        return f"process {int(owner['process'])} on {owner['host']!s} since {owner['since']!s}"
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return "another process"


def unwritable(folder: Path, error: OSError) -> FolderError:
    """Return the error for a folder that cannot be written."""
    return FolderError(f"cannot write to {folder} ({error.strerror}): choose another folder with --out.")
