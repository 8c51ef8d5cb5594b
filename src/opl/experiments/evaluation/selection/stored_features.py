"""Features of a run, computed once and kept in its folder; they are computed again if the images are others."""

import hashlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ...run_folder import FEATURES, RunFolder
from ...types import Images

BLOCK = 500  # images that are read and encoded together

Watch = Callable[[str, int, int], None]
"""Called with the name of the task, the amount done, and the total."""


@torch.no_grad()
def stored_features(
    folder: RunFolder, name: str, part: Images, rows: Tensor, encode: Callable[[Tensor], Tensor], watch: Watch
) -> Tensor:
    """Return (n, D) features of some images of a part.

    Args:
        folder: the run whose network makes them.
        name: the name of the part, which names the file.
        part: the images.
        rows: (n,) indices within the part, ascending.
        encode: maps (b, C, H, W) uint8 pixels to (b, D) features.
        watch: called while features are computed.
    """
    told = _content_sum(part, rows)
    kept = folder.outputs(f"{FEATURES}{name}")
    if kept is not None and kept["content"].tobytes() == told:
        return torch.from_numpy(kept["features"])
    found = []
    for start in range(0, len(rows), BLOCK):
        found.append(encode(part.take(rows[start : start + BLOCK])[0]))
        watch(f"{folder.path.parent.name} on {name}", min(start + BLOCK, len(rows)), len(rows))
    features = torch.cat(found)
    arrays = {"features": features.numpy(), "content": np.frombuffer(told, np.uint8)}
    folder.write_outputs(arrays, f"{FEATURES}{name}")
    return features


def _content_sum(part: Images, rows: Tensor) -> bytes:
    """A hash of which images these are, and of their pixels."""
    digest = hashlib.blake2b(rows.numpy().tobytes(), digest_size=16)
    for start in range(0, len(rows), BLOCK):
        digest.update(part.take(rows[start : start + BLOCK])[0].contiguous().numpy().tobytes())
    return digest.digest()
