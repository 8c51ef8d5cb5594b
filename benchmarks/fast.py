"""Gain of each speed-up of the fast network: images per second of processor time, one thread, versions in turns.

    python benchmarks/fast.py [--full] [--batch 256] [--rounds 3] [--return-memory]

Every line adds one speed-up to the previous line: channels_last, bf16, `torch.compile`, and images that grow from 20 to
32 pixels as in `opl reproduce fast`. A step is forward, cross-entropy, backward and Muon, on random images.
As in training, freed memory is kept; with `--return-memory` the allocator decides.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch
from torch.nn import functional as F

from opl.experiments.allocator import keep_freed_memory
from opl.experiments.data.small_images import GROWING_SIZES
from opl.experiments.models import FastNet
from opl.optim import Muon

PIXELS, CLASSES = 32, 100


class Version(NamedTuple):
    """A version of the training step."""

    name: str
    channels_last: bool = True
    bf16: bool = True
    compile: bool = False
    growing: bool = False


VERSIONS = (
    Version("fp32", channels_last=False, bf16=False),
    Version("+ channels_last", bf16=False),
    Version("+ bf16"),
    Version("+ torch.compile", compile=True),
    Version("+ growing images (not compiled)", growing=True),
)


def shares_of_sizes(growing: bool) -> dict[int, float]:
    """Return the share of training with images of each size."""
    if not growing:
        return {PIXELS: 1.0}
    ends = [*GROWING_SIZES, (1.0, PIXELS)]
    starts = [0.0, *(end for end, _ in GROWING_SIZES)]
    return {pixels: end - start for start, (end, pixels) in zip(starts, ends, strict=True)}


def make_step(version: Version, full: bool, batch: int) -> Callable[[int], float]:
    """Return a function that makes a step with images of a size and returns the seconds of processor time."""
    torch.manual_seed(0)
    layout = torch.channels_last if version.channels_last else torch.contiguous_format
    net = FastNet(half=not full).build(3, CLASSES).to(memory_format=layout)
    optimizer = Muon().build(net.parameters())
    labels = torch.randint(0, CLASSES, (batch,))
    images = {pixels: torch.randn(batch, 3, pixels, pixels).to(memory_format=layout) for pixels in (20, 24, PIXELS)}
    if version.compile:
        net.compile()

    def step(pixels: int) -> float:
        start = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=version.bf16):
            logits = net(images[pixels]).logits
        optimizer.zero_grad()
        F.cross_entropy(logits.float(), labels).backward()
        optimizer.step()
        return time.process_time() - start

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the full width instead of half")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--return-memory", action="store_true", help="do not keep freed memory")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.return_memory:
        keep_freed_memory()
    steps = {version: make_step(version, arguments.full, arguments.batch) for version in VERSIONS}
    seconds: dict[Version, dict[int, list[float]]] = {
        version: {pixels: [] for pixels in shares_of_sizes(version.growing)} for version in VERSIONS
    }
    for turn in range(arguments.rounds + 1):  # the first is the warm-up
        for version, step in steps.items():
            for pixels, times in seconds[version].items():
                elapsed = step(pixels)
                if turn:
                    times.append(elapsed)
    print(f"{'full' if arguments.full else 'half'} width, batches of {arguments.batch}, one thread, processor time")
    before = first = 0.0
    for version in VERSIONS:
        shares = shares_of_sizes(version.growing)
        mean = sum(share * median(seconds[version][pixels]) for pixels, share in shares.items())
        speed = arguments.batch / mean
        first = first or speed
        gain = f"{speed / (before or speed):>8.2f} of the previous line" if not version.growing else " " * 26
        print(f"{version.name:<34}{speed:>8.0f} images/s{gain}{speed / first:>8.2f} of the first")
        before = speed


if __name__ == "__main__":
    main()
