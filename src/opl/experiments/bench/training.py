"""Images a second of `fit()` against a bare loop and against the loop that people have, in turns, in one run.

`bare`: no augmentation, no records, channels_last, the batch already on the device. `conventional`: the default memory
format and a DataLoader with two workers that decode nothing but crop, flip and jitter image by image with Pillow.
`fit`: our loop with pad-crop, flip, jitter, normalization, records and the check for finite losses. Random pixels in
CIFAR's shape; with CIFAR-100 at hand, also how long it takes to decode it and to start with the decoded copy.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from ...functional import orthogonal_projection
from ...optim import SGD
from ..data import Batches, ColorJitter, Flip, PadCrop
from ..methods import CrossEntropy, CrossEntropyOPL
from ..models import CifarResNet, Network
from ..paper import recipe
from ..training.fit import fit
from ..training.stopping import StopSignals
from ..types import Batch, EpochRecord, Images, TaskShape
from . import Options
from .decoding import measure_decoding
from .layout import to_channels_last
from .pillow_images import PillowImages
from .timing import time_call

BATCH, CLASSES = 128, 100


def measure(options: Options) -> dict[str, Any]:
    """Images a second of the loops, and what the data costs."""
    from rich.console import Console

    with Console(stderr=True).status("training loops take turns (about three minutes) ..."):
        return {**compare_loops(), **measure_decoding()}


def compare_loops(rounds: int = 3, steps: int = 6) -> dict[str, Any]:
    """Medians over rounds in which all take turns; ratios of those."""
    pixels = torch.randint(0, 256, (BATCH * (steps + 2), 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (len(pixels),))
    loops: dict[str, Callable[[], float]] = {
        "bare": lambda: bare_loop(20, steps, pixels, labels),
        "conventional": lambda: conventional_loop(20, steps, pixels, labels),
        "fit": lambda: fit_loop(20, steps, pixels, labels, CrossEntropy()),
        "resnet56 ce": lambda: fit_loop(56, steps, pixels, labels, CrossEntropy()),
        "resnet56 opl": lambda: fit_loop(56, steps, pixels, labels, CrossEntropyOPL()),  # only noise tells it from ce
    }
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            speeds[name].append(loop())
    speed = {name: median(values) for name, values in speeds.items()}
    return {
        "images_per_second": speed,
        "fit_of_bare": speed["fit"] / speed["bare"],
        "fit_of_conventional": speed["fit"] / speed["conventional"],
        "opl_share_of_a_resnet56_step": _projection_seconds() * speed["resnet56 ce"] / BATCH,
    }


def bare_loop(depth: int, steps: int, pixels: Tensor, labels: Tensor) -> float:
    """Images a second of forward, cross-entropy, backward and SGD on one batch, in channels_last."""
    net = to_channels_last(_network(depth))
    optimizer = SGD().build(net.parameters())
    images = (pixels[:BATCH].float() / 255).to(memory_format=torch.channels_last)
    _step(net, optimizer, images, labels[:BATCH])
    start = time.perf_counter()
    for _ in range(steps):
        _step(net, optimizer, images, labels[:BATCH])
    return steps * BATCH / (time.perf_counter() - start)


def conventional_loop(depth: int, steps: int, pixels: Tensor, labels: Tensor) -> float:
    """Images a second of the loop that most training scripts have."""
    net = _network(depth)
    optimizer = SGD().build(net.parameters())
    loader = iter(DataLoader(PillowImages(pixels, labels), BATCH, shuffle=True, num_workers=2))
    _step(net, optimizer, *next(loader))
    start = time.perf_counter()
    for _ in range(steps):
        _step(net, optimizer, *next(loader))
    return steps * BATCH / (time.perf_counter() - start)


def fit_loop(depth: int, steps: int, pixels: Tensor, labels: Tensor, method: CrossEntropy | CrossEntropyOPL) -> float:
    """Images a second of the second epoch of `fit()`; the first warms up."""
    from lightning_fabric import Fabric

    part = Images(pixels, labels, torch.arange(len(labels)))
    augment = (PadCrop(4), Flip(), ColorJitter(0.4, 0.4, 0.4))
    data = Batches(part, BATCH, seed=0, augment=augment, mean=(0.5,) * 3, std=(0.25,) * 3, device=torch.device("cpu"))
    net = to_channels_last(_network(depth))
    records: list[EpochRecord] = []
    fit(
        Fabric(accelerator="cpu", devices=1),
        replace(recipe("cifar100-resnet56-ce", "tiny"), epochs=2),
        net,
        method.build(TaskShape(CLASSES, net.feature_dim)),
        _FirstSteps(data, steps),
        everything=lambda: data.plain(BATCH),
        state=None,
        validate=lambda _: {},
        save=lambda _, record: records.append(record or {}),
        watcher=_NoWatcher(),
        stop=StopSignals(),
    )
    return float(records[-1]["images_per_second"])


class _FirstSteps:
    """The first steps of each epoch, as `fit` takes data."""

    def __init__(self, data: Batches, steps: int) -> None:
        self.data, self.steps = data, steps

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        for _, batch in zip(range(self.steps), self.data.epoch(epoch, start_step), strict=False):
            yield batch


class _NoWatcher:
    """Told of every step, shows nothing."""

    def step(self, epoch: int, step: int, images: int, loss: float) -> None:
        pass


def _network(depth: int) -> Network:
    torch.manual_seed(0)
    return CifarResNet(depth=depth).build(3, CLASSES)


def _step(net: Network, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    loss = F.cross_entropy(net(images).logits, labels)
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()


def _projection_seconds() -> float:
    """Forward and backward of OPL alone on the features of a ResNet-56 batch."""
    features = torch.rand(BATCH, 64).requires_grad_()
    labels = torch.randint(0, CLASSES, (BATCH,))

    def call() -> None:
        torch.autograd.backward(orthogonal_projection(features, labels).loss)

    return median(time_call(call) for _ in range(200))


def show(result: dict[str, Any]) -> None:
    """Print the speeds, then the ratios and what the data costs."""
    for name, value in result["images_per_second"].items():
        print(f"{name:<28}{value:>10.1f} images/s")
    for name, value in result.items():
        if name != "images_per_second":
            print(f"{name.replace('_', ' '):<28}{value:>10.4f}")
