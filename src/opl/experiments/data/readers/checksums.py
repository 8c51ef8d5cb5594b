"""Whether a file is still what was written."""

import zlib
from pathlib import Path


def size_and_checksum(file: Path) -> tuple[int, int]:
    """Bytes and CRC-32 of a file; -1 and 0 where it cannot be read."""
    try:
        size, checksum = file.stat().st_size, 0
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                checksum = zlib.crc32(block, checksum)
    except OSError:
        return -1, 0
    return size, checksum


def text_checksum(text: str) -> str:
    """CRC-32 of a text."""
    return f"{zlib.crc32(text.encode()):08x}"
