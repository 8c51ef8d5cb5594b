"""`metrics.jsonl`: the record of each epoch, a line each, which carries a checksum of the settings and of itself.

Lines are appended while a run is trained, so that no list of sums could keep up with them; the file of a finished run
has its sum in `done` like every other.
"""

import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..files import open_to_append, write_whole
from .ledger import damaged, settings_of

METRICS = "metrics.jsonl"
CHECK = ', "check": "'  # stands before the checksum at the end of a line
CHECKED = len('01234567"}')  # letters from there to the end of a line
Record = dict[str, Any]


def append(folder: Path, record: Record) -> None:
    """Append the record of an epoch, and wait until it is on the disk."""
    with open_to_append(folder / METRICS) as file:
        file.write(_line(record, _key(folder)))
        file.flush()
        os.fsync(file.fileno())


def rewrite(folder: Path, records: Iterable[Record]) -> None:
    """Replace the file by these records."""
    key = _key(folder)
    write_whole(folder / METRICS, b"".join(_line(record, key) for record in records))


def parse(folder: Path, data: bytes) -> Iterator[Record]:
    """Yield the records of all epochs, which must be 0, 1, 2 and so on; an incomplete last line is ignored."""
    key = _key(folder)
    for epoch, line in enumerate(io.BytesIO(data)):  # line by line: a million lines at once take a gigabyte
        record = _record(line.removesuffix(b"\n"), key)
        if not line.endswith(b"\n"):
            if len(line.rpartition(CHECK.encode())[2]) >= CHECKED and CHECK.encode() in line:  # more than a part of it
                raise damaged(folder, METRICS, f"has no end of line {epoch + 1}")
            return
        if record is None or record.get("epoch") != epoch:
            raise damaged(folder, METRICS, f"is not what the run wrote (line {epoch + 1})")
        yield record


def _line(record: Record, key: int) -> bytes:
    text = json.dumps(record)
    return f'{text[:-1]}{CHECK}{_check(text, key)}"}}\n'.encode()


def _record(line: bytes, key: int) -> Record | None:
    """The record of a line; None if its checksum is wrong."""
    try:
        start, _, end = line.decode().rpartition(CHECK)
        text = f"{start}}}"
        record: Any = json.loads(text) if end == f'{_check(text, key)}"}}' else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _check(text: str, key: int) -> str:
    return f"{zlib.crc32(text.encode(), key):08x}"


def _key(folder: Path) -> int:
    """The checksum of the settings, with which those of the lines begin: a line of another run has another."""
    return zlib.crc32(settings_of(folder))
