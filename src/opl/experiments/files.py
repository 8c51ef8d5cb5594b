"""Files that are whole or not there, lines of JSON, and states as bytes. No torch unless a state is packed."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_whole(file: Path, data: bytes) -> None:
    """Write all of it or nothing, also when the power goes: another name, to the disk, then the name."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def read_json_lines(file: Path) -> Iterator[dict[str, Any]]:
    """A value a line, up to the first line that is none: the last may be cut short."""
    if not file.exists():
        return
    for line in file.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def pack(state: dict[str, Any]) -> bytes:
    """Tensors and plain values as bytes."""
    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """What `pack` was given, on the CPU; anything but tensors and plain values is refused."""
    import torch

    state: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
    return state
