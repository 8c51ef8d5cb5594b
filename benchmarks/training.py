"""Images a second of `fit()` against a bare loop and against the loop that people have, in turns, in one run.

`bare`: no augmentation, no records, channels_last, the batch already on the device. `conventional`: the default memory
format and a DataLoader with two workers that decode nothing but crop, flip and jitter image by image with Pillow.
`fit`: our loop with pad-crop, flip, jitter, normalization, records and the check for finite losses. Random pixels in
CIFAR's shape; with CIFAR-100 at hand, also how long it takes to decode it and to start with the decoded copy.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from opl import orthogonal_projection
from opl.experiments import recipes
from opl.experiments.data.augment import ColorJitter, Flip, PadCrop
from opl.experiments.data.batches import Batches
from opl.experiments.methods import CrossEntropy, CrossEntropyOPL
from opl.experiments.models import CifarResNet
from opl.experiments.recipe import Recipe
from opl.experiments.training.train import fit
from opl.experiments.types import Images, TaskShape
from opl.optim import SGD

BATCH = 128


class Pictures(Dataset):
    """CIFAR-like images with augmentation one image at a time, as most training scripts have it."""

    def __init__(self, pixels: torch.Tensor, labels: torch.Tensor) -> None:
        self.pixels, self.labels = pixels.permute(0, 2, 3, 1).numpy(), labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int):
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


class Nobody:
    def step(self, *_: object) -> None:
        pass


class Short:
    """The first steps of an epoch, as `fit` sees data."""

    def __init__(self, data: Batches, steps: int) -> None:
        self.data, self.steps = data, steps

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator:
        for _, batch in zip(range(self.steps), self.data.epoch(epoch, start_step), strict=False):
            yield batch


def model(depth: int) -> nn.Module:
    torch.manual_seed(0)
    return CifarResNet(depth=depth).build(3, 100)


def step(net: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> None:
    loss = F.cross_entropy(net(images).logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def bare(depth: int, steps: int, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    net = model(depth).to(memory_format=torch.channels_last)
    optimizer = SGD().build(net.parameters())
    images = (pixels[:BATCH].float() / 255).to(memory_format=torch.channels_last)
    step(net, optimizer, images, labels[:BATCH])
    start = time.perf_counter()
    for _ in range(steps):
        step(net, optimizer, images, labels[:BATCH])
    return steps * BATCH / (time.perf_counter() - start)


def conventional(depth: int, steps: int, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    net = model(depth)
    optimizer = SGD().build(net.parameters())
    loader = iter(DataLoader(Pictures(pixels, labels), BATCH, shuffle=True, num_workers=2))
    step(net, optimizer, *next(loader))
    start = time.perf_counter()
    for _ in range(steps):
        step(net, optimizer, *next(loader))
    return steps * BATCH / (time.perf_counter() - start)


def ours(depth: int, steps: int, pixels: torch.Tensor, labels: torch.Tensor, method=None) -> float:
    from lightning_fabric import Fabric

    part = Images(pixels, labels, torch.arange(len(labels)))
    augment = (PadCrop(4), Flip(), ColorJitter(0.4, 0.4, 0.4))
    data = Batches(part, BATCH, seed=0, augment=augment, mean=(0.5,) * 3, std=(0.25,) * 3, device=torch.device("cpu"))
    recipe: Recipe = replace(recipes.recipe("cifar100-resnet56-ce", "tiny"), epochs=2)
    net = model(depth).to(memory_format=torch.channels_last)
    records: list[dict] = []
    fit(
        Fabric(accelerator="cpu", devices=1),
        recipe,
        net,
        (method or CrossEntropy()).build(TaskShape(100, net.feature_dim)),
        Short(data, steps),
        everything=lambda: data.plain(BATCH),
        state=None,
        validate=lambda _: {},
        save=lambda _, record: records.append(record),
        watcher=Nobody(),
    )
    return records[-1]["images_per_second"]  # the first epoch warms up


def seconds_of_opl() -> float:
    """Forward and backward of OPL alone on the features of a ResNet-56 batch."""
    features = torch.rand(BATCH, 64).requires_grad_()
    labels = torch.randint(0, 100, (BATCH,))
    times = []
    for _ in range(200):
        start = time.perf_counter()
        orthogonal_projection(features, labels).loss.backward()
        times.append(time.perf_counter() - start)
    return median(times)


def measure(rounds: int = 3, steps: int = 6) -> dict:
    """Medians over rounds in which all take turns; ratios of those."""
    pixels = torch.randint(0, 256, (BATCH * (steps + 2), 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 100, (len(pixels),))
    loops: dict[str, Callable[[], float]] = {
        "bare": lambda: bare(20, steps, pixels, labels),
        "conventional": lambda: conventional(20, steps, pixels, labels),
        "fit": lambda: ours(20, steps, pixels, labels),
        "resnet56 ce": lambda: ours(56, steps, pixels, labels),
        "resnet56 opl": lambda: ours(56, steps, pixels, labels, CrossEntropyOPL()),  # told apart from ce only by noise
    }
    seen: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            seen[name].append(loop())
    speed = {name: median(values) for name, values in seen.items()}
    return {
        "images_per_second": speed,
        "fit_of_bare": speed["fit"] / speed["bare"],
        "fit_of_conventional": speed["fit"] / speed["conventional"],
        "opl_share_of_a_resnet56_step": seconds_of_opl() * speed["resnet56 ce"] / BATCH,
    }


def measure_data() -> dict:
    """How fast CIFAR-100 is decoded into an empty cache, and how soon a full one starts; {} without the data."""
    code = (
        "import time; start = time.perf_counter()\n"
        "from opl.experiments.data.sets import Cifar100\n"
        "imported = time.perf_counter()\n"
        "splits = Cifar100().load(0); splits.train.take(splits.train.rows[:128] * 0)\n"
        "images = len(splits.train) + len(splits.val) + len(splits.test)\n"
        "print(imported - start, time.perf_counter() - imported, images)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "OPL_CACHE": cache, "HF_HUB_OFFLINE": "1"}
        times = []
        for _ in range(2):
            words = [sys.executable, "-c", code]
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return {}
            _, seconds, images = done.stdout.split()
            times.append(float(seconds))
    return {"decoded_images_per_second": int(images) / times[0], "warm_start_seconds": times[1]}
