"""What each loss of table 1 costs, as a share of a ResNet-56 training step at B=128 on CIFAR's shape, in one run.

The step is forward, cross-entropy, backward and SGD, in channels_last. A loss is its forward and backward on features
(and maps, logits) of that batch's shape, its head included; all take turns, and medians are reported. The row `ce` is
the linear classifier with cross-entropy, which is in the step already.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from opl.experiments.models import CifarResNet
from opl.heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, Head, LGMHead, LinearHead, RBFHead
from opl.losses import (
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

BATCH, DIM, CLASSES, SIDE = 128, 64, 100, 8


def step_of_resnet56() -> Callable[[], None]:
    net = CifarResNet(depth=56).build(3, CLASSES).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    images = torch.randn(BATCH, 3, 32, 32).to(memory_format=torch.channels_last)
    labels = torch.randint(0, CLASSES, (BATCH,))

    def call() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(images).logits, labels).backward()
        optimizer.step()

    return call


def losses() -> dict[str, Callable[[], None]]:
    """Forward and backward of every loss on one batch, by the names of table 1."""
    maps = torch.randn(BATCH, DIM, SIDE, SIDE).relu_().requires_grad_()
    features = maps.detach().mean((2, 3)).requires_grad_()
    teacher = torch.rand(BATCH, DIM)
    labels = torch.randint(0, CLASSES, (BATCH,))
    linear = LinearHead(DIM, CLASSES)
    counts = torch.full((CLASSES,), 450)

    def through(head: Head, criterion: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy) -> Callable[[], None]:
        return lambda: criterion(head(features, labels), labels).backward()

    def beside(loss: nn.Module) -> Callable[[], None]:
        return lambda: loss(features, labels).backward()

    def gaussians() -> None:
        (F.cross_entropy(lgm(features, labels), labels) + 0.1 * lgm.penalty(features, labels)).backward()

    def cams() -> None:
        hnc(class_activation_maps(maps, linear.weight, linear.bias), labels).backward()

    lgm, hnc, distilled = LGMHead(DIM, CLASSES), NegativeCAMLoss(), DistillationProjectionLoss()
    return {
        "ce": through(linear),
        "opl": beside(OrthogonalProjectionLoss()),
        "center": beside(CenterLoss(CLASSES, DIM)),
        "focal": through(linear, FocalLoss()),
        "a-softmax": through(ASoftmaxHead(DIM, CLASSES)),
        "lmc": through(CosFaceHead(DIM, CLASSES)),
        "ole": beside(OLELoss()),
        "lgm": gaussians,
        "anchor": through(linear, AnchorLoss()),
        "aam": through(ArcFaceHead(DIM, CLASSES)),
        "cb-focal": through(linear, ClassBalancedFocalLoss(counts)),
        "hnc": cams,
        "rbf": through(RBFHead(DIM, CLASSES)),
        "perpetual-1": beside(PerpetualProjectionLoss(CLASSES, DIM, version=1)),
        "perpetual-2": beside(PerpetualProjectionLoss(CLASSES, DIM, version=2)),
        "distillation": lambda: distilled(features, teacher).backward(),
    }


def measure(rounds: int = 5, calls: int = 20) -> dict:
    """Milliseconds of the step and of each loss, and their shares; medians over rounds in which all take turns."""
    torch.manual_seed(0)
    step, timed = step_of_resnet56(), losses()
    for call in (step, *timed.values()):
        call()  # warms up
    seconds: dict[str, list[float]] = {name: [] for name in ("step", *timed)}
    for _ in range(rounds):
        seconds["step"].append(_time(step))
        for name, call in timed.items():
            seconds[name] += [_time(call) for _ in range(calls)]
    ms = {name: 1e3 * median(values) for name, values in seconds.items()}
    whole = ms.pop("step")
    return {"step_ms": whole, "losses": {name: {"ms": value, "share": value / whole} for name, value in ms.items()}}


def _time(call: Callable[[], None]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
