"""Measuring time and peak memory: versions that take turns, and calls in a new process."""

import multiprocessing
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import torch

from ...errors import OptionError
from ..models import Network

T = TypeVar("T")
MIN_TURNS = 4  # the first is a warm-up


def median_milliseconds(
    versions: Mapping[str, Callable[[], object]], seconds: float, *, reset: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Return the median time of each version; the versions take turns in random order, so that all share disturbances.

    Args:
        versions: what is timed, by name.
        seconds: the minimum time of all turns; each version runs at least three times after a warm-up.
        reset: called before each call, outside of its time.
    """
    times: dict[str, list[float]] = {name: [] for name in versions}
    order, shuffle = list(versions), random.Random(0).shuffle
    turns, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or turns < MIN_TURNS:
        shuffle(order)
        for name in order:
            reset()
            start = time.perf_counter()
            versions[name]()
            times[name].append(time.perf_counter() - start)
        turns += 1
    return {name: 1e3 * median(values[1:]) for name, values in times.items()}


def measure_peak(call: Callable[[], object]) -> int:
    """Return the peak memory of a call in bytes, above what this process used before it."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    call()
    return _status("VmHWM") - before


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def run_in_child(function: Callable[..., T], *arguments: Any) -> T:
    """Call an importable function in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            raise OptionError(
                f"the process that measured {arguments} died: free some memory, then run it again."
            ) from None


def to_channels_last(network: Network) -> Network:
    """Convert a network's weights, in place, to channels_last, the fastest memory format for convolutions on a CPU."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
    return network
