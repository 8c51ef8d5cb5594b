"""What each loss of table 1 costs, as a share of a ResNet-56 training step at B=128 on CIFAR's shape, in one run.

The step is forward, cross-entropy, backward and SGD, in channels_last. A loss is its forward and backward on features
(and maps, logits) of that batch's shape, its head included; all take turns, and medians are reported. The row `ce` is
the linear classifier with cross-entropy, which is in the step already.
"""

from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, Head, LGMHead, LinearHead, LSoftmaxHead, RBFHead
from ...losses import (
    AnchorLoss,
    CenterLoss,
    ClassBalancedFocalLoss,
    DistillationProjectionLoss,
    FocalLoss,
    NegativeCAMLoss,
    OLELoss,
    OrthogonalProjectionLoss,
    PerpetualProjectionLoss,
    class_activation_maps,
)
from ..models import CifarResNet
from . import Options
from .layout import to_channels_last
from .timing import time_call

BATCH, DIM, CLASSES, SIDE = 128, 64, 100, 8


def measure(options: Options) -> dict[str, Any]:
    """Milliseconds of the step and of each loss, and their shares."""
    from rich.console import Console

    with Console(stderr=True).status("losses and training steps take turns (about half a minute) ..."):
        return compare_losses()


def compare_losses(rounds: int = 5, calls: int = 20) -> dict[str, Any]:
    """Medians over rounds in which all take turns: a step, then so many calls of each loss."""
    torch.manual_seed(0)
    step, losses = _resnet56_step(), _losses()
    for call in (step, *losses.values()):
        call()  # warms up
    seconds: dict[str, list[float]] = {name: [] for name in ("step", *losses)}
    for _ in range(rounds):
        seconds["step"].append(time_call(step))
        for name, call in losses.items():
            seconds[name] += [time_call(call) for _ in range(calls)]
    ms = {name: 1e3 * median(values) for name, values in seconds.items()}
    whole = ms.pop("step")
    return {"step_ms": whole, "losses": {name: {"ms": value, "share": value / whole} for name, value in ms.items()}}


def _resnet56_step() -> Callable[[], None]:
    net = to_channels_last(CifarResNet(depth=56).build(3, CLASSES))
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    images = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,))

    def call() -> None:
        optimizer.zero_grad()
        torch.autograd.backward(F.cross_entropy(net(images).logits, labels))
        optimizer.step()

    return call


def _losses() -> dict[str, Callable[[], None]]:
    """Forward and backward of every loss on one batch, by the names of table 1."""
    maps = torch.randn(BATCH, DIM, SIDE, SIDE).relu_().requires_grad_()
    features = maps.detach().mean((2, 3)).requires_grad_()
    teacher = torch.rand(BATCH, DIM)
    labels = torch.randint(0, CLASSES, (BATCH,))
    linear = LinearHead(DIM, num_classes=CLASSES)
    counts = torch.full((CLASSES,), 450)

    def through(head: Head, criterion: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy) -> Callable[[], None]:
        return lambda: torch.autograd.backward(criterion(head(features, labels), labels))

    def beside(loss: nn.Module) -> Callable[[], None]:
        return lambda: loss(features, labels).backward()

    def gaussians() -> None:
        entropy = F.cross_entropy(lgm(features, labels), labels)
        torch.autograd.backward(entropy + 0.1 * lgm.penalty(features, labels))

    def cams() -> None:
        hnc(class_activation_maps(maps, linear.weight, linear.bias), labels).backward()

    lgm, hnc, distilled = LGMHead(DIM, num_classes=CLASSES), NegativeCAMLoss(), DistillationProjectionLoss()
    return {
        "ce": through(linear),
        "opl": beside(OrthogonalProjectionLoss()),
        "center": beside(CenterLoss(DIM, num_classes=CLASSES)),
        "focal": through(linear, FocalLoss()),
        "a-softmax": through(ASoftmaxHead(DIM, num_classes=CLASSES)),
        "lmc": through(CosFaceHead(DIM, num_classes=CLASSES)),
        "ole": beside(OLELoss()),
        "lgm": gaussians,
        "anchor": through(linear, AnchorLoss()),
        "aam": through(ArcFaceHead(DIM, num_classes=CLASSES)),
        "l-softmax": through(LSoftmaxHead(DIM, num_classes=CLASSES)),
        "cb-focal": through(linear, ClassBalancedFocalLoss(counts)),
        "hnc": cams,
        "rbf": through(RBFHead(DIM, num_classes=CLASSES)),
        "perpetual-1": beside(PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=1)),
        "perpetual-2": beside(PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=2)),
        "distillation": lambda: distilled(features, teacher).backward(),
    }


def show(result: dict[str, Any]) -> None:
    """Print a line for each loss."""
    threads = torch.get_num_threads()
    print(
        f"a ResNet-56 step at B=128: {result['step_ms']:.0f} ms, {threads} threads; forward and backward of each loss:"
    )
    for name, row in result["losses"].items():
        print(f"{name:<14}{row['ms']:>8.2f} ms{100 * row['share']:>8.2f} %")
