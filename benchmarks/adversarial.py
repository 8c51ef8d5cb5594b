"""A step of adversarial training (PGD-10) against the passes that it needs: `opl bench attack`.

Eleven plain forward and backward passes are what PGD-10 is usually said to cost. The floor is ten passes with the
gradient to the images alone, and one with all gradients. The three take turns; medians are reported.
"""

import time
from statistics import median

import torch
from torch.nn import functional as F

from opl.experiments.methods import AdversarialTraining
from opl.experiments.models import CifarResNet, prepend_standardize
from opl.experiments.types import Batch, TaskShape

STEPS = 10


def measure(seconds: float = 20.0, batch: int = 128, width: int = 16, depth: int = 8) -> dict:
    model = prepend_standardize(CifarResNet(depth, width).build(3, 10), (0.5,) * 3, (0.25,) * 3)
    model.to(memory_format=torch.channels_last).train()
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(batch, 3, 32, 32, generator=chance).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,), generator=chance)
    objective = AdversarialTraining(steps=STEPS).build(TaskShape(10, model.feature_dim))
    given = Batch(images, labels, torch.arange(batch), 1 / batch)

    def step():
        objective(model, given).total.backward()

    def plain():
        for _ in range(STEPS + 1):
            F.cross_entropy(model(images).logits, labels).backward()

    def floor():
        for _ in range(STEPS):
            moved = images.detach().requires_grad_()
            torch.autograd.grad(F.cross_entropy(model(moved).logits, labels), moved)
        F.cross_entropy(model(images).logits, labels).backward()

    versions = {"step": step, "plain": plain, "floor": floor}
    times = take_turns(versions, model, seconds)
    found = {name: median(values) for name, values in times.items()}
    return {
        "network": f"ResNet-{depth}, width {width}, B={batch}",
        "threads": torch.get_num_threads(),
        "turns": len(times["step"]),
        "ms": {name: 1e3 * value for name, value in found.items()},
        "of_plain": found["step"] / found["plain"],
        "of_floor": found["step"] / found["floor"],
    }


def take_turns(versions: dict, model: torch.nn.Module, seconds: float) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in versions}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["step"]) < 4:
        for name, call in versions.items():
            model.zero_grad(set_to_none=True)
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: values[1:] for name, values in times.items()}  # the first turn warms up
