"""Files: one function writes them, one appends, one reads, one parses JSON. Imports torch only for a packed state."""

import contextlib
import errno
import io
import json
import os
import secrets
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DamagedError

TEMPORARY = ".tmp"
LARGEST = 1 << 34  # bytes of the largest file that is read at once
MOST_JSON = 1 << 26  # bytes of the largest JSON file
DIGITS = 19  # digits of the largest 64-bit integer
NO_LINKS = os.O_NOFOLLOW if os.name == "posix" else 0
NO_WAIT = os.O_NONBLOCK if os.name == "posix" else 0  # opening a named pipe would wait for its other end


def write_whole(file: Path, data: bytes | str) -> None:
    """Write a file atomically, even if power fails: write and sync a temporary file, then rename it.

    The temporary file is new and its name cannot be guessed, so it is never a link that somebody else placed; a link at
    the final name is replaced, not followed. Text is encoded as UTF-8, whatever the locale.
    """
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NO_LINKS, 0o666), "wb") as stream:
            stream.write(data.encode(errors="backslashreplace") if isinstance(data, str) else data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def make_folder(root: Path, *names: str) -> Path:
    """Create a folder and its parents; raise OSError if one of `names` is a link, since it may lead anywhere.

    Args:
        root: a folder that the user has named; it may be a link.
        names: folders below it; in a downloaded folder, some of them may be links.
    """
    root.mkdir(parents=True, exist_ok=True)
    folder = root
    for name in names:
        folder = folder / name
        if folder.is_symlink():
            raise OSError(errno.ELOOP, f"{folder.name} is a link, and nothing is written behind links", str(folder))
        folder.mkdir(exist_ok=True)
    return folder


def open_to_append(file: Path) -> BinaryIO:
    """Open a regular file to append to it, or create it; raise OSError for a link, pipe or device."""
    descriptor = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY | NO_LINKS | NO_WAIT, 0o666)
    stream: BinaryIO = _regular(descriptor, "ab")
    return stream


def open_regular(file: Path, *, links: bool = True) -> io.BufferedReader:
    """Open a regular file to read it; raise OSError for anything else, such as a pipe or device."""
    stream: io.BufferedReader = _regular(os.open(file, os.O_RDONLY | NO_WAIT | (0 if links else NO_LINKS)), "rb")
    return stream


def _regular(descriptor: int, mode: str) -> Any:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, mode)
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_limited(file: Path, limit: int = LARGEST, *, links: bool = True) -> bytes:
    """Read a regular file of at most `limit` bytes; raise OSError for anything else.

    Args:
        file: the file.
        limit: its largest size.
        links: whether it may be a symbolic link.
    """
    with open_regular(file, links=links) as stream:
        if os.fstat(stream.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {limit:,} bytes")
        return stream.read()


def read_json(file: Path, limit: int = MOST_JSON, *, links: bool = True) -> Any:
    """Read a JSON file of limited size and depth.

    Raises:
        OSError: it cannot be read, is not a regular file, or is too large.
        ValueError: it is not JSON, or is nested too deeply.
    """
    return parse_json(read_limited(file, limit, links=links))


def parse_json(data: bytes) -> Any:
    """Parse JSON of limited depth; an integer of more than 64 bits becomes a float, which may be infinite."""
    try:
        return json.loads(data, parse_int=lambda text: int(text) if len(text.lstrip("-")) <= DIGITS else float(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def sweep(folder: Path) -> None:
    """Delete the temporary files that killed processes left in a folder."""
    for file in folder.glob(f".*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            file.unlink()


def pack(state: dict[str, Any]) -> bytes:
    """Serialize tensors and plain values to bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def check_stored(data: bytes) -> None:
    """Raise `ValueError` if a zip archive would unpack to more bytes than it has; `torch.save` never compresses."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        return
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > len(data):
        raise ValueError(f"it has {len(data):,} bytes and would unpack to {unpacked:,}")


def unpack(data: bytes) -> dict[str, Any]:
    """Load the output of `pack` on the CPU; anything but tensors and plain values is rejected."""
    import torch

    try:
        check_stored(data)
        state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    except Exception as error:  # zip and pickle raise errors of many kinds
        raise DamagedError(f"a checkpoint cannot be read ({' '.join(str(error).split())[:200]}).") from error
    return state
