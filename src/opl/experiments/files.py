"""Atomic file writes, JSON lines, and serialized state dicts. Imports torch only to pack or unpack a state."""

import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_whole(file: Path, data: bytes) -> None:
    """Write a file atomically, even if power fails: write and sync a temporary file, then rename it."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def file_sum(file: Path) -> str:
    """The SHA-256 of a file; empty if there is none."""
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""


def read_json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield one value per line, up to the first invalid line: the last line may be incomplete."""
    if not file.exists():
        return
    for line in file.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def pack(state: dict[str, Any]) -> bytes:
    """Serialize tensors and plain values to bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """Load the output of `pack` on the CPU; anything but tensors and plain values is rejected."""
    import torch

    state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    return state
