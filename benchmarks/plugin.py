"""Overhead of `opl.regularize`: CPU time of a ResNet-20 step at B=128 with OPL, divided by the time without it.

Steps with and without OPL come in blocks of four, in the order ABBA or BAAB at random, so that a machine that becomes
slower or faster favors neither. Two ratios are reported, as medians over blocks with bootstrap intervals: of whole
steps, and of the time from the features to their gradient, which contains all of OPL. The rest of the step is the same
code with and without OPL, so on a busy machine it only adds noise.

python benchmarks/plugin.py [--blocks 40]
"""

import argparse
import random
import time

import numpy as np
import torch
from scipy.stats import bootstrap
from torch import nn

import opl
from opl.experiments.models import CifarResNet

BATCH, CLASSES, BOUND = 128, 100, 0.01
BASE = nn.CrossEntropyLoss()


class Classifier(nn.Module):
    """A network that returns only logits, like most networks."""

    def __init__(self) -> None:
        super().__init__()
        self.network = CifarResNet(depth=20).build(3, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images).logits


class Steps:
    """Steps of one model, measured with and without OPL."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model, self.images = Classifier(), torch.randn(BATCH, 3, 32, 32)
        self.labels = torch.randint(0, CLASSES, (BATCH,))
        self.marks: list[float] = []
        self.model.network.fc.register_forward_pre_hook(lambda _, inputs: self._mark(inputs[0]))

    def _mark(self, features: torch.Tensor) -> None:
        """Record the times of the features and of their gradient."""
        features.register_hook(lambda _: self.marks.append(time.process_time()))
        self.marks.append(time.process_time())

    def measure(self, regularized: bool) -> tuple[float, float]:
        """Return the CPU time of a step, and of its part from the features to their gradient."""
        criterion = opl.regularize(BASE, self.model) if regularized else BASE
        self.marks.clear()
        start = time.process_time()
        criterion(self.model(self.images), self.labels).backward()
        whole = time.process_time() - start
        self.model.zero_grad()
        if regularized:
            criterion.close()  # removes its hooks
        forward, backward = self.marks
        return whole, backward - forward

    def in_blocks(self, blocks: int) -> np.ndarray:
        """Return the mean times per block: (blocks, without and with OPL, whole step and part)."""
        generator = random.Random(0)
        times = np.empty((blocks, 2, 2))
        for block in times:
            first = generator.random() < 0.5
            order = (first, not first, not first, first)
            taken = [self.measure(chosen) for chosen in order]
            for chosen in (False, True):
                pairs = zip(taken, order, strict=True)
                block[int(chosen)] = np.mean([pair for pair, regularized in pairs if regularized is chosen], axis=0)
        return times


def median_with_interval(values: np.ndarray) -> tuple[float, float, float]:
    interval = bootstrap((values,), np.median, method="percentile", rng=0).confidence_interval
    return float(np.median(values)), float(interval.low), float(interval.high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=40)
    blocks = parser.parse_args().blocks
    torch.set_num_threads(1)
    steps = Steps()
    steps.in_blocks(1)
    times = steps.in_blocks(blocks)
    without, with_opl = times[:, 0], times[:, 1]
    whole = float(np.median(without[:, 0]))
    ratio, low, high = median_with_interval(with_opl[:, 0] / without[:, 0])
    added, least, most = (value / whole for value in median_with_interval(with_opl[:, 1] - without[:, 1]))
    print(f"{blocks} blocks of four steps; a step takes {1e3 * whole:.0f} ms of CPU time")
    print(f"whole steps: {ratio:.4f} with OPL, 95 % interval {low:.4f} to {high:.4f}")
    print(
        f"from features to their gradient: {1 + added:.4f} of a step, 95 % interval {1 + least:.4f} to {1 + most:.4f}"
    )
    print(f"at most {BOUND:.0%}: {'yes' if most <= BOUND else 'no'} by the part, {_verdict(low, high)} by whole steps")


def _verdict(low: float, high: float) -> str:
    if high <= 1 + BOUND:
        return "yes"
    return "no" if low > 1 + BOUND else "too noisy to tell"


if __name__ == "__main__":
    main()
