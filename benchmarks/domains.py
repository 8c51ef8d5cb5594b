"""Speed of decoding PACS into an empty cache, and of reading it from the cache.

`take`: the bytes of random batches; `batches`: the same as normalized floats, the input of a network without
augmentation; `augmented`: with RSC's crop, flip, jitter and gray. Images per second of one process with one thread.
"""

import json
import os
import sys
import tempfile
import time

import torch

from opl.errors import DataError
from opl.experiments.data import Batches, Pacs

BATCH = 64


def rate(count: int, work) -> float:
    """Return the best rate of three: slower turns were disturbed by other programs."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return count / min(seconds)


def measure(size: int = 64) -> dict[str, float]:
    """Return images per second, or {} if the data is missing."""
    torch.set_num_threads(1)
    data = Pacs(size=size, target="sketch")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["OPL_CACHE"] = cache
        start = time.perf_counter()
        try:
            part = data.load(0).train
        except DataError as error:
            print(error, file=sys.stderr)
            return {}
        decoded = 9991 / (time.perf_counter() - start)
        start = time.perf_counter()
        data.load(0)
        warm = time.perf_counter() - start
        settings = {"seed": 0, "mean": data.mean, "std": data.std, "device": "cpu"}
        plain, full = (Batches(part, BATCH, augment=steps, **settings) for steps in ((), data.augment))
        order = torch.randperm(len(part))
        return {
            "size": size,
            "decoded": decoded,
            "warm_start_seconds": warm,
            "take": rate(len(part), lambda: [part.take(rows) for rows in order.split(BATCH)]),
            "batches": rate(len(part), lambda: [None for _ in plain.epoch(0)]),
            "augmented": rate(len(part), lambda: [None for _ in full.epoch(0)]),
        }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 64), indent=1))
