"""Atomic file writes, careful reads, and serialized state dicts. Imports torch only to pack or unpack a state."""

import contextlib
import errno
import io
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DamagedError

TEMPORARY, CLAIM = ".tmp", ".claim"  # of a file that is written, and of a process that wants a lock
LARGEST = 1 << 34  # bytes of a file that is read at once
NO_LINKS = os.O_NOFOLLOW if os.name == "posix" else 0
NO_WAIT = os.O_NONBLOCK if os.name == "posix" else 0  # opening a pipe would wait for its writer


def write_whole(file: Path, data: bytes) -> None:
    """Write a file atomically, even if power fails: write and sync a temporary file, then rename it.

    The temporary file is new and has a name that nobody can know before: it never is somebody's link.
    """
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINKS, 0o666), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def open_to_append(file: Path) -> BinaryIO:
    """Open a file to append to it; a link in its place is an error."""
    return open(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | NO_LINKS, 0o666), "ab")


def sweep(folder: Path) -> None:
    """Delete the temporary files that killed processes left in a folder; a claim may be somebody's for a minute."""
    claims = time.time() - 60
    for file in folder.glob(".*"):
        with contextlib.suppress(OSError):
            if file.suffix == TEMPORARY or (file.suffix == CLAIM and file.lstat().st_mtime < claims):
                file.unlink()


def open_regular(file: Path, *, links: bool = True) -> BinaryIO:
    """Open a regular file to read it; anything else, such as a pipe or device, is an OSError."""
    number = os.open(file, os.O_RDONLY | NO_WAIT | (0 if links else NO_LINKS))
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    raise OSError(errno.EINVAL, "it is no regular file")


def read_limited(file: Path, limit: int = LARGEST, *, links: bool = True) -> bytes:
    """Read a regular file of at most `limit` bytes; anything else is an OSError.

    Args:
        file: the file.
        limit: its largest size.
        links: whether it may be a symbolic link.
    """
    with open_regular(file, links=links) as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes")
        return stream.read()


def pack(state: dict[str, Any]) -> bytes:
    """Serialize tensors and plain values to bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """Load the output of `pack` on the CPU; anything but tensors and plain values is rejected."""
    import torch

    try:
        state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # zip and pickle raise errors of many kinds
        raise DamagedError(f"a checkpoint cannot be read ({' '.join(str(error).split())[:200]}).") from error
    return state
