"""Checksums, to verify that a file is unchanged."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

from ...files import open_regular, read_limited


def size_and_checksum(file: Path) -> tuple[int, int]:
    """Return the size in bytes and the CRC-32 of a file; -1 and 0 if it cannot be read."""
    try:
        with open_regular(file) as stream:
            size, checksum = os.fstat(stream.fileno()).st_size, 0
            while block := stream.read(1 << 22):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return -1, 0
    return size, checksum


def seal(content: dict[str, Any]) -> str:
    """Return a JSON object as text, after a line with its CRC-32."""
    text = json.dumps(content, indent=1)
    return f"{_checksum(text)}\n{text}"


def unseal(file: Path) -> dict[str, Any] | None:
    """Read what `seal` returned; None if it is damaged.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    try:
        checksum, _, text = read_limited(file).decode().partition("\n")
    except ValueError:  # not text at all
        return None
    content: dict[str, Any] | None = json.loads(text) if checksum == _checksum(text) else None
    return content


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
