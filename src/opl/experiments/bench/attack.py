"""A step of adversarial training (PGD-10) against the passes that it needs.

Eleven plain forward and backward passes are what PGD-10 is usually said to cost. The floor is ten passes with the
gradient to the images alone, and one with all gradients. The three take turns; medians are reported.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.nn import functional as F

from ..methods import AdversarialTraining
from ..models import CifarResNet, Network, prepend_standardize
from ..types import Batch, TaskShape
from . import Options
from .layout import to_channels_last
from .timing import take_turns

STEPS, SECONDS = 10, 20.0
BATCH, WIDTH, DEPTH, CLASSES = 128, 16, 8, 10


def measure(options: Options) -> dict[str, Any]:
    """Milliseconds of a step, of the plain passes and of the floor, and their ratios."""
    from rich.console import Console

    with Console(stderr=True).status("steps and passes take turns (about half a minute) ..."):
        return compare_steps()


def compare_steps(seconds: float = SECONDS) -> dict[str, Any]:
    """Time the three for so many seconds together."""
    network = CifarResNet(DEPTH, WIDTH).build(3, CLASSES)
    model = to_channels_last(prepend_standardize(network, (0.5,) * 3, (0.25,) * 3)).train()
    times = take_turns(_versions(model), seconds, reset=lambda: model.zero_grad(set_to_none=True))
    medians = {name: median(values) for name, values in times.items()}
    return {
        "network": f"ResNet-{DEPTH}, width {WIDTH}, B={BATCH}",
        "threads": torch.get_num_threads(),
        "turns": len(times["step"]),
        "ms": {name: 1e3 * value for name, value in medians.items()},
        "of_plain": medians["step"] / medians["plain"],
        "of_floor": medians["step"] / medians["floor"],
    }


def _versions(model: Network) -> dict[str, Callable[[], None]]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH, 3, 32, 32, generator=generator).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    objective = AdversarialTraining(steps=STEPS).build(TaskShape(CLASSES, model.feature_dim))
    batch = Batch(images, labels, torch.arange(BATCH), 1 / BATCH)

    def step() -> None:
        objective(model, batch).total.backward()

    def plain() -> None:
        for _ in range(STEPS + 1):
            torch.autograd.backward(F.cross_entropy(model(images).logits, labels))

    def floor() -> None:
        for _ in range(STEPS):
            moved = images.detach().requires_grad_()
            torch.autograd.grad(F.cross_entropy(model(moved).logits, labels), moved)
        torch.autograd.backward(F.cross_entropy(model(images).logits, labels))

    return {"step": step, "plain": plain, "floor": floor}


def show(result: dict[str, Any]) -> None:
    """Print a line for each."""
    ms = result["ms"]
    print(f"{result['network']}, {result['threads']} threads, medians of {result['turns']} turns:")
    print(f"a PGD-10 step                                    {ms['step']:>8.1f} ms")
    print(f"11 forward and backward passes                   {ms['plain']:>8.1f} ms {result['of_plain']:>7.2f}x")
    print(f"10 passes to the images alone, 1 to all weights  {ms['floor']:>8.1f} ms {result['of_floor']:>7.2f}x")
