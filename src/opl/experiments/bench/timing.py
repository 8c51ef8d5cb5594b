"""Times of several versions of one job that take turns, so that whatever else the machine does meets all of them."""

import random
import time
from collections.abc import Callable, Mapping

MIN_TURNS = 4  # the first warms up


def time_call(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def take_turns(
    versions: Mapping[str, Callable[[], object]], seconds: float, *, reset: Callable[[], object]
) -> dict[str, list[float]]:
    """Seconds of each call of each version, without the first turn; the order of each turn is drawn anew.

    Args:
        versions: what is timed, by name.
        seconds: how long the turns go on, at least; each version runs at least three times.
        reset: called before each call, outside of its time.
    """
    times: dict[str, list[float]] = {name: [] for name in versions}
    order, shuffle = list(versions), random.Random(0).shuffle
    turns, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or turns < MIN_TURNS:
        shuffle(order)
        for name in order:
            reset()
            times[name].append(time_call(versions[name]))
        turns += 1
    return {name: values[1:] for name, values in times.items()}
