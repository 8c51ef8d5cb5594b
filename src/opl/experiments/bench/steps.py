"""Speed of training: `fit()` vs a bare and a conventional loop, and a step of adversarial training vs its passes.

In `train`, all loops take turns on random pixels of CIFAR's shape. `bare`: one batch that is already on the device, no
augmentation, no records, channels_last. `conventional`: the default memory format, and a DataLoader with two workers
that crop, flip and jitter image by image with Pillow. `fit`: our loop with the same augmentation, normalization,
records and the check for finite losses.

In `attack`, PGD-10 is usually said to cost eleven plain forward and backward passes. The floor is ten passes with the
gradient of only the images, and one pass with all gradients.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from ...functional import orthogonal_projection
from ...optim import SGD
from ..data import Batches, ColorJitter, Flip, PadCrop
from ..methods import AdversarialTraining, CrossEntropy, CrossEntropyOPL
from ..models import CifarResNet, Network, prepend_standardize
from ..paper import recipe
from ..training.fit import fit
from ..training.stopping import StopSignals
from ..types import Batch, EpochRecord, Images, TaskShape
from . import Options, Tables
from .measurement import median_milliseconds, to_channels_last

BATCH, CLASSES = 128, 100
PASSES, WIDTH, DEPTH = 10, 16, 8  # steps of the attack, and its ResNet


def measure_train(options: Options) -> Tables:
    """Measure images per second of the loops."""
    speeds, ratios = compare_loops()
    title = f"training loops, medians of rounds in turns, {torch.get_num_threads()} threads"
    return {title: [{"loop": name, "images/s": value} for name, value in speeds.items()], "ratios": [ratios]}


def compare_loops(rounds: int = 3, steps: int = 6) -> tuple[dict[str, float], dict[str, float]]:
    """Return images per second, medians over rounds in which all loops take turns, and their ratios."""
    pixels = torch.randint(0, 256, (BATCH * (steps + 2), 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, CLASSES, (len(pixels),))
    batch = (pixels[:BATCH].float() / 255).to(memory_format=torch.channels_last), labels[:BATCH]
    loader = DataLoader(PillowImages(pixels, labels), BATCH, shuffle=True, num_workers=2)
    loops: dict[str, Callable[[], float]] = {
        "bare": lambda: _images_per_second(to_channels_last(_network(20)), repeat(batch), steps),
        "conventional": lambda: _images_per_second(_network(20), iter(loader), steps),
        "fit": lambda: fit_loop(20, steps, pixels, labels, CrossEntropy()),
        "resnet56 ce": lambda: fit_loop(56, steps, pixels, labels, CrossEntropy()),
        "resnet56 opl": lambda: fit_loop(56, steps, pixels, labels, CrossEntropyOPL()),  # differs from ce by noise only
    }
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            speeds[name].append(loop())
    speed = {name: median(values) for name, values in speeds.items()}
    features = torch.rand(BATCH, 64).requires_grad_()  # of a ResNet-56
    opl = {"opl": lambda: torch.autograd.backward(orthogonal_projection(features, batch[1]).loss)}
    ratios = {
        "fit of bare": speed["fit"] / speed["bare"],
        "fit of conventional": speed["fit"] / speed["conventional"],
        "OPL's share of a ResNet-56 step": median_milliseconds(opl, 0.1)["opl"] / 1e3 * speed["resnet56 ce"] / BATCH,
    }
    return speed, ratios


def _images_per_second(net: Network, batches: Iterator[Any], steps: int) -> float:
    """Time forward, cross-entropy, backward and SGD."""
    optimizer = SGD().build(net.parameters())
    for step in range(-1, steps):
        if step == 0:  # after a warm-up
            start = time.perf_counter()
        images, labels = next(batches)
        loss = F.cross_entropy(net(images).logits, labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    return steps * BATCH / (time.perf_counter() - start)


class PillowImages(Dataset[tuple[Tensor, Tensor]]):
    """(N, 3, 32, 32) uint8 pixels and their labels; each image is padded, cropped, flipped and jittered by Pillow."""

    def __init__(self, pixels: Tensor, labels: Tensor) -> None:
        self.pixels, self.labels = pixels.permute(0, 2, 3, 1).numpy(), labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        from PIL import Image, ImageEnhance, ImageOps

        draw = torch.rand(6).tolist()
        image = ImageOps.expand(Image.fromarray(self.pixels[index]), 4)
        left, top = int(draw[0] * 9), int(draw[1] * 9)
        image = image.crop((left, top, left + 32, top + 32))
        image = ImageOps.mirror(image) if draw[2] < 0.5 else image
        kinds = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
        for enhance, part in zip(kinds, draw[3:], strict=True):
            image = enhance(image).enhance(0.6 + 0.8 * part)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(32, 32, 3)
        return (pixels.permute(2, 0, 1).float() / 255 - 0.5) / 0.25, self.labels[index]


def fit_loop(depth: int, steps: int, pixels: Tensor, labels: Tensor, method: CrossEntropy | CrossEntropyOPL) -> float:
    """Return images per second of the second epoch of `fit()`; the first is the warm-up."""
    from lightning_fabric import Fabric

    part = Images(pixels, labels, torch.arange(len(labels)))
    augment = (PadCrop(4), Flip(), ColorJitter(0.4, 0.4, 0.4))
    data = Batches(part, BATCH, seed=0, augment=augment, mean=(0.5,) * 3, std=(0.25,) * 3, device=torch.device("cpu"))
    data.steps = steps
    net = to_channels_last(_network(depth))
    records: list[EpochRecord] = []
    fit(
        Fabric(accelerator="cpu", devices=1),
        replace(recipe("cifar100-resnet56-ce", "tiny"), epochs=2),
        net,
        method.build(TaskShape(CLASSES, net.feature_dim)),
        data,
        everything=lambda: data.plain(BATCH),
        state=None,
        validate=lambda _: {},
        save=lambda _, record: records.append(record or {}),
        watch=lambda epoch, step, images, loss: None,
        stop=StopSignals(),
    )
    return float(records[-1]["images_per_second"])


def _network(depth: int) -> Network:
    torch.manual_seed(0)
    return CifarResNet(depth=depth).build(3, CLASSES)


def measure_attack(options: Options) -> Tables:
    """Measure a step of adversarial training vs the passes that it needs, for five times the minimum time."""
    network = CifarResNet(DEPTH, WIDTH).build(3, 10)
    model = to_channels_last(prepend_standardize(network, (0.5,) * 3, (0.25,) * 3)).train()
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (BATCH,), generator=generator)
    objective = AdversarialTraining(steps=PASSES).build(TaskShape(10, model.feature_dim))
    batch = Batch(images, labels, torch.arange(BATCH), 1 / BATCH)

    def plain() -> None:
        for _ in range(PASSES + 1):
            torch.autograd.backward(F.cross_entropy(model(images).logits, labels))

    def floor() -> None:
        for _ in range(PASSES):
            moved = images.detach().requires_grad_()
            torch.autograd.grad(F.cross_entropy(model(moved).logits, labels), moved)
        torch.autograd.backward(F.cross_entropy(model(images).logits, labels))

    versions = {"step": lambda: objective(model, batch).total.backward(), "plain": plain, "floor": floor}
    ms = median_milliseconds(versions, 5 * options.seconds, reset=model.zero_grad)
    rows = [{"version": name, "ms": value, "step / version": ms["step"] / value} for name, value in ms.items()]
    return {f"PGD-10 of ResNet-{DEPTH}, width {WIDTH}, B={BATCH}, {torch.get_num_threads()} threads": rows}
