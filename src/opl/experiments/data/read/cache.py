"""The one cache: folders that are built once from the files of a data set, and checked whenever they are opened.

A folder `<name>-<key>` in `$OPL_CACHE` (or `~/.cache/opl`) is built under a temporary name and renamed when complete,
so that an interrupted build is never used. Its `contents.json` starts with its own checksum and lists the size and
checksum of every other file. Concurrent processes wait for the first one behind a lock. A folder that does not match
its checksums is rebuilt, with a warning.

The key is a hash of the contents of the data set's files: replaced files are noticed whatever their size and
modification time. Hashing a data set takes seconds, so the hashes are stored next to the cache, with the size,
modification time, change time and inode of each file. Only the system sets the change time; a file is hashed again
unless all four are equal.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from ...._ranges import FolderName
from ....errors import DataError, OplWarning, OptionError
from ...files import open_regular, read_limited, write_whole

CONTENTS = "contents.json"
SUMS = "-source.json"  # suffix of the files of stored hashes
MOST_SUMS = 1 << 28  # bytes of a file of stored hashes
NAME = FolderName()
Contents = dict[str, Any]


def cache_folder() -> Path:
    """Return the folder of the cache: `$OPL_CACHE`, or `~/.cache/opl`."""
    return Path(os.environ.get("OPL_CACHE") or "~/.cache/opl").expanduser()


def open_cached(
    name: str, key: str, build: Callable[[Path], Contents], needed: Callable[[str], bool] = lambda file: True
) -> tuple[Path, Contents]:
    """Open a folder of the cache, and return it with what `build` returned; the first process builds it, others wait.

    Args:
        name: the name of the data set.
        key: a hash of everything that determines the content.
        build: writes the files into a folder, and returns what `contents.json` should hold.
        needed: whether a file of this name is needed now; only these files are checked.
    """
    if not NAME.allows(name):
        raise OptionError(f"the name of the data set is {name!r:.80}: choose one {NAME}.")
    folder = cache_folder() / f"{name}-{key}"
    try:
        contents = _read(folder, needed)
        if contents is None:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.parent / f"{folder.name}.lock"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", OplWarning)  # already warned about
                    contents = _read(folder, needed)
                contents = contents or _build(folder, build)
    except OSError as error:
        raise DataError(
            f"the cache {str(folder)!r} cannot be written ({error.strerror or error}): "
            "set OPL_CACHE to a writable folder with enough space."
        ) from error
    return folder, contents


def _read(folder: Path, needed: Callable[[str], bool]) -> Contents | None:
    """Return the contents of a folder; None if there is none, or if it is damaged, which is warned about."""
    if not folder.is_dir():
        return None
    contents: Contents | None = None
    with contextlib.suppress(OSError, ValueError):  # missing, or not text
        checksum, _, text = read_limited(folder / CONTENTS).decode().partition("\n")
        contents = json.loads(text) if checksum == f"{zlib.crc32(text.encode()):08x}" else None
    files: Mapping[str, list[int]] = contents["files"] if contents else {CONTENTS: [-2]}
    for file, expected in files.items():
        if (file == CONTENTS or needed(file)) and _sums(folder / file, len(expected)) != expected:
            warnings.warn(
                OplWarning(
                    f"{file} in the cache {str(folder)!r} is damaged; rebuilding. If this recurs, check the disk."
                ),
                stacklevel=5,
            )
            return None
    return contents


def _build(folder: Path, build: Callable[[Path], Contents]) -> Contents:
    """Build a folder, and remove what interrupted builds left; the caller must hold the lock."""
    for remainder in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(remainder, ignore_errors=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        contents = build(temporary)
        unchecked = contents.pop("unchecked", ())
        contents["files"] = {
            file.relative_to(temporary).as_posix(): _sums(file, 1 if file.name in unchecked else 2)
            for file in sorted(temporary.iterdir())
            if file.is_file()
        }
        text = json.dumps(contents, indent=1)
        (temporary / CONTENTS).write_text(f"{zlib.crc32(text.encode()):08x}\n{text}", encoding="utf-8")
        temporary.chmod(0o755)  # mkdtemp creates private folders, but a cache may be shared
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        temporary.rename(folder)
        return contents
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


# Checksums


def _sums(file: Path, count: int) -> list[int]:
    """Return the size of a file and its CRC-32, or only the size if `count` is 1; empty if it cannot be read."""
    try:
        with open_regular(file) as stream:
            size, checksum = os.fstat(stream.fileno()).st_size, 0
            while count > 1 and (block := stream.read(1 << 22)):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return [-1]
    return [size, checksum][:count]


def hash_of(*facts: object) -> str:
    """Return a hash of plain values.

    Example:
        >>> hash_of("mnist", 28) == hash_of("mnist", 28) != hash_of("mnist", 32)
        True
    """
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()


def content_sums(folder: Path, files: Iterable[Path]) -> list[tuple[str, str]]:
    """Return the name inside `folder` and the content hash of each file, which is read only if it may have changed.

    A file that cannot be read has an empty hash. If the cache cannot be written, no hash is stored.
    """
    name = hashlib.blake2b(str(folder.absolute()).encode(errors="surrogateescape"), digest_size=16).hexdigest()
    store = cache_folder() / f"{name}{SUMS}"
    before, after, sums = {}, {}, []
    with contextlib.suppress(OSError, ValueError, RecursionError):
        stored = json.loads(read_limited(store, MOST_SUMS))
        if isinstance(stored, dict):
            before = {name: facts for name, facts in stored.items() if isinstance(facts, list)}
    for file in files:
        inside = file.relative_to(folder).as_posix()
        try:
            stat = file.stat()
            facts = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
            *known, content = before.get(inside) or [None]
            if known != facts or not isinstance(content, str):
                with open_regular(file) as stream:
                    content = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        except OSError:
            facts, content = [], ""
        after[inside] = [*facts, content]
        sums.append((inside, content))
    if any(before.get(inside) != facts for inside, facts in after.items()):
        with contextlib.suppress(OSError):  # a process that only reads a finished cache need not be able to write to it
            store.parent.mkdir(parents=True, exist_ok=True)
            write_whole(store, json.dumps({**before, **after}).encode())
    return sums
