"""How fast CIFAR-100 is decoded into an empty cache, and how soon a run starts with a full one."""

import os
import tempfile
import time

from ...errors import DataError
from ..data import Cifar100
from .memory import run_in_child


def measure_decoding() -> dict[str, float]:
    """Images a second and seconds, each from a fresh process; empty without the data."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (run_in_child("the decoding of CIFAR-100", _load, cache) for _ in range(2))
    if cold is None or warm is None:
        return {}
    (images, cold_seconds), (_, warm_seconds) = cold, warm
    return {"decoded_images_per_second": images / cold_seconds, "warm_start_seconds": warm_seconds}


def _load(cache: str) -> tuple[int, float] | None:
    """Images of CIFAR-100, and seconds until its first batch is there; None where it is not on this machine."""
    os.environ.update(OPL_CACHE=cache, HF_HUB_OFFLINE="1")
    start = time.perf_counter()
    try:
        splits = Cifar100().load(0)
    except DataError:
        return None
    splits.train.take(splits.train.rows[:128] * 0)
    images = len(splits.train) + len(splits.val) + len(splits.test)
    return images, time.perf_counter() - start
