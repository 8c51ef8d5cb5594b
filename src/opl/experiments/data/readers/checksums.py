"""Checksums, to verify that a file is unchanged."""

import zlib
from pathlib import Path


def size_and_checksum(file: Path) -> tuple[int, int]:
    """Return the size in bytes and the CRC-32 of a file; -1 and 0 if it cannot be read."""
    try:
        size, checksum = file.stat().st_size, 0
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return -1, 0
    return size, checksum


def text_checksum(text: str) -> str:
    """Return the CRC-32 of a string, as 8 hex digits."""
    return f"{zlib.crc32(text.encode()):08x}"
