"""The content of the files of a data set as one hash, so that replaced files are noticed whatever their size and time.

Hashing a data set takes seconds, so the hash of each file is kept beside the cache, with its size, modification time,
inode and change time. The last is set by the system whenever a file is written or replaced, and by nobody else: a file
is hashed again unless all four are the same.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...files import read_limited, write_whole

KEPT = "-source.json"  # ending of the files of kept hashes, in the cache
MOST_KEPT = 1 << 28  # bytes of one list of kept hashes


def content_sums(folder: Path, files: Iterable[Path], cache: Path) -> list[tuple[str, str]]:
    """Return the name inside `folder` and the hash of each file, read only if it may have changed.

    Args:
        folder: the folder of the data set.
        files: files in it.
        cache: the folder in which hashes are kept; they are not, if it cannot be written.
    """
    name = hashlib.blake2b(str(folder.absolute()).encode(errors="surrogateescape"), digest_size=16).hexdigest()
    kept = cache / f"{name}{KEPT}"
    known, now, sums = _read(kept), {}, []
    for file in files:
        inside, stat = file.relative_to(folder).as_posix(), file.stat()
        facts = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
        *before, found = known.get(inside) or [None]
        if before != facts or not isinstance(found, str):
            with file.open("rb") as stream:
                found = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
        now[inside] = [*facts, found]
        sums.append((inside, found))
    if any(known.get(inside) != facts for inside, facts in now.items()):
        _write(kept, {**known, **now})
    return sums


def _read(kept: Path) -> Mapping[str, Any]:
    try:
        known = json.loads(read_limited(kept, MOST_KEPT))
    except (OSError, ValueError, RecursionError):
        return {}
    return {name: facts for name, facts in known.items() if isinstance(facts, list)} if isinstance(known, dict) else {}


def _write(kept: Path, known: Mapping[str, Any]) -> None:
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, json.dumps(known).encode())
    except OSError:
        return  # whoever only reads a finished cache need not be able to write to it
