"""Arrays of a run as the bytes of an `.npz` file."""

import io
import zipfile
from pathlib import Path
from typing import Any

from .ledger import damaged

UNPACKED = 1 << 33  # bytes that the arrays of one file may take


def pack_arrays(arrays: dict[str, Any]) -> bytes:
    """Serialize arrays, compressed."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def unpack_arrays(folder: Path, name: str, data: bytes) -> dict[str, Any]:
    """Load the arrays of a file of a run folder; objects, and more bytes than fit, are rejected."""
    import numpy as np

    buffer = io.BytesIO(data)
    try:
        with zipfile.ZipFile(buffer) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > UNPACKED:
            raise damaged(folder, name, f"would take {size:,} bytes of memory")
        with np.load(buffer, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise damaged(folder, name, "holds no arrays") from error


def unpack_weights(folder: Path, name: str, data: bytes) -> dict[str, Any]:
    """Load the state dict of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        weights: dict[str, Any] = load(data)
    except SafetensorError as error:
        raise damaged(folder, name, f"holds no weights ({error})") from error
    return weights
