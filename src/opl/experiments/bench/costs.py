"""Cost of losses, forward and backward: OPL vs the textbook version, vs its variants, and as a share of a step.

In `loss`, the floor is `F.normalize` forward and backward, one pass over the features that any version must make.
In `variants`, `balanced` includes the gradient of cross-entropy at the features, in closed form. In `losses`, a step is
forward, cross-entropy, backward and SGD of a ResNet-56 at B=128 on images of CIFAR's shape, in channels_last; a loss is
computed on features (and maps, logits) of the same shape, its head included, and `ce` is part of the step already.
Peak memory is measured above the start of the call, in a new process, in units of feature matrices.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ... import heads, losses
from ...functional import GAMMA, orthogonal_projection, select_algorithm
from ...schedules import Ramp
from ..allocator import keep_freed_memory
from ..methods import variants
from ..models import CifarResNet
from . import Options, Tables
from .measurement import measure_peak, median_milliseconds, run_in_child, to_channels_last

Loss = Callable[[Tensor, Tensor], Tensor]


class Case(NamedTuple):
    """A batch of B features of D numbers in C classes; signed, or non-negative like pooled ReLU outputs."""

    rows: int
    dim: int
    classes: int
    signed: bool

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return features and labels."""
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(self.rows, self.dim, generator=generator)
        features = features if self.signed else features.relu_()
        return features.requires_grad_(), torch.randint(0, self.classes, (self.rows,), generator=generator)

    def describe(self) -> dict[str, Any]:
        """Return the sizes by the symbols of the paper."""
        return {"B": self.rows, "D": self.dim, "C": self.classes, "features": "signed" if self.signed else "ReLU"}


SPEED = [
    Case(rows, dim, classes, signed)
    for signed in (False, True)
    for rows, dim, classes in ((128, 64, 100), (128, 512, 1000), (256, 512, 100), (1024, 2048, 1000), (8192, 512, 1000))
]
MEMORY = [Case(65536, 512, 1000, False), Case(16384, 512, 1000, True), Case(16384, 512, 1000, False)]
VARIANTS = [Case(rows, 512, 100, False) for rows in (128, 512, 2048, 8192)]


def textbook(features: Tensor, labels: Tensor, gamma: float = GAMMA) -> Tensor:
    """Compute `(1 - s) + gamma * d` with a B x B matrix of cosines and two masks, as in Algorithm 1 of the paper."""
    unit = F.normalize(features, p=2, dim=1)
    labels = labels[:, None]
    mask = torch.eq(labels, labels.t())
    diagonal = torch.eye(len(mask), dtype=torch.bool, device=mask.device)
    positive = mask.masked_fill(diagonal, 0).float()
    negative = (~mask).float()
    cosines = torch.matmul(unit, unit.t())
    positive_mean = (positive * cosines).sum() / (positive.sum() + 1e-6)
    negative_mean = torch.abs(negative * cosines).sum() / (negative.sum() + 1e-6)
    return (1.0 - positive_mean) + gamma * negative_mean


def versions_of(case: Case) -> dict[str, Loss]:
    """Return the textbook version, OPL and its variants as functions of features and labels."""
    plain, balance = losses.OrthogonalProjectionLoss(), variants.GradientBalance()
    head = torch.randn(case.classes, case.dim)

    def balanced(features: Tensor, labels: Tensor) -> Tensor:
        slope = variants.entropy_gradient(features.detach() @ head.T, labels, head)
        value: Tensor = balance(plain(features, labels), features, slope)
        return value

    return {
        "textbook": textbook,
        "opl": lambda features, labels: orthogonal_projection(features, labels).loss,
        "auto": losses.OrthogonalProjectionLoss(gamma="auto"),
        "log-ratio": variants.LogRatioLoss(gamma=1.0),
        "ramp": losses.OrthogonalProjectionLoss(gamma=Ramp()),
        "centered": variants.CenteredProjectionLoss(case.dim),
        "prototypes": variants.PrototypeProjectionLoss(case.dim, num_classes=case.classes),
        "balanced": balanced,
    }


def measure_loss(options: Options) -> Tables:
    """Measure OPL vs the textbook version."""
    tables = {_title(): [_speed(case, options.seconds) for case in SPEED]}
    if options.memory:
        tables["peak memory in feature matrices"] = [_memory(case) for case in MEMORY]
    return tables


def _title() -> str:
    return f"forward + backward, medians, torch {torch.__version__}, {torch.get_num_threads()} threads"


def _speed(case: Case, seconds: float) -> dict[str, Any]:
    versions = versions_of(case)
    ms = _milliseconds(case, {name: versions[name] for name in ("textbook", "opl")}, seconds, floor=True)
    return {
        **case.describe(),
        "algorithm": select_algorithm(*case.batch()),
        **{f"{name} ms": value for name, value in ms.items()},
        "faster": ms["textbook"] / ms["opl"],
        "of floor": ms["opl"] / ms["floor"],
    }


def _milliseconds(case: Case, versions: Mapping[str, Loss], seconds: float, floor: bool = False) -> dict[str, float]:
    """Time forward and backward of each version, and of the floor."""
    features, labels = case.batch()
    ones = torch.ones_like(features)

    def drop_gradient() -> None:
        features.grad = None

    def call_of(loss: Loss) -> Callable[[], object]:
        return lambda: torch.autograd.backward(loss(features, labels))

    calls = {name: call_of(loss) for name, loss in versions.items()}
    if floor:
        calls["floor"] = lambda: torch.autograd.backward(F.normalize(features, dim=1), ones)
    return median_milliseconds(calls, seconds, reset=drop_gradient)


def _memory(case: Case) -> dict[str, Any]:
    """Measure the peak memory; the textbook version is scaled up from a smaller batch if it does not fit."""
    rows = case.rows
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    while rows * rows * 4 * 8 > 0.7 * free:  # the textbook version holds about eight B x B matrices
        rows //= 2
    scale = case.rows / rows  # B x B matrices grow with its square, the feature matrix linearly
    return {
        **case.describe(),
        "matrix MiB": case.rows * case.dim * 4 / 2**20,
        "opl": run_in_child(_peak, case, "opl"),
        "textbook": run_in_child(_peak, case._replace(rows=rows), "textbook") * scale,
        "textbook measured at B": rows,
    }


def _peak(case: Case, name: str) -> float:
    torch.autograd.backward(versions_of(case)[name](*case._replace(rows=64).batch()))  # loads everything
    loss, (features, labels) = versions_of(case)[name], case.batch()
    return measure_peak(lambda: torch.autograd.backward(loss(features, labels))) / (case.rows * case.dim * 4)


def measure_variants(options: Options) -> Tables:
    """Measure OPL vs its variants, by batch size; freed memory is kept, so that no version pays for new pages."""
    keep_freed_memory()
    rows = []
    for case in VARIANTS:
        versions = versions_of(case)
        del versions["textbook"]
        versions["opl"] = losses.OrthogonalProjectionLoss()  # a module, like its variants
        ms = _milliseconds(case, versions, options.seconds)
        for name in versions:
            row = {**case.describe(), "loss": name, "ms": ms[name], "of opl": ms[name] / ms["opl"]}
            rows.append(row | ({"feature matrices": run_in_child(_peak, case, name)} if options.memory else {}))
    return {_title(): rows}


BATCH, DIM, CLASSES, SIDE = 128, 64, 100, 8


def measure_losses(options: Options) -> Tables:
    """Measure the losses of table 1 as shares of a training step."""
    torch.manual_seed(0)
    ms = median_milliseconds({"step": _resnet56_step(), **_table_losses()}, options.seconds)
    step = ms.pop("step")
    rows = [{"loss": name, "ms": value, "% of a step": 100 * value / step} for name, value in ms.items()]
    return {f"a ResNet-56 step at B={BATCH}: {step:.0f} ms, {torch.get_num_threads()} threads": rows}


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


def _table_losses() -> dict[str, Callable[[], None]]:
    """Return forward and backward of every loss on one batch, by the names of table 1."""
    maps = torch.randn(BATCH, DIM, SIDE, SIDE).relu_().requires_grad_()
    features = maps.detach().mean((2, 3)).requires_grad_()
    teacher, labels = torch.rand(BATCH, DIM), torch.randint(0, CLASSES, (BATCH,))
    shape: dict[str, Any] = {"feature_dim": DIM, "num_classes": CLASSES}
    linear, lgm = heads.LinearHead(**shape), heads.LGMHead(**shape)
    hnc, distilled = losses.NegativeCAMLoss(), losses.DistillationProjectionLoss()

    def through(head: heads.Head, criterion: Loss = F.cross_entropy) -> Callable[[], None]:
        return lambda: torch.autograd.backward(criterion(head(features, labels), labels))

    def on_features(loss: nn.Module) -> Callable[[], None]:
        return lambda: loss(features, labels).backward()

    def gaussians(logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels) + 0.1 * lgm.penalty(features, labels)

    return {
        "ce": through(linear),
        "opl": on_features(losses.OrthogonalProjectionLoss()),
        "center": on_features(losses.CenterLoss(**shape)),
        "focal": through(linear, losses.FocalLoss()),
        "a-softmax": through(heads.ASoftmaxHead(**shape)),
        "lmc": through(heads.CosFaceHead(**shape)),
        "ole": on_features(losses.OLELoss()),
        "lgm": through(lgm, gaussians),
        "anchor": through(linear, losses.AnchorLoss()),
        "aam": through(heads.ArcFaceHead(**shape)),
        "l-softmax": through(heads.LSoftmaxHead(**shape)),
        "cb-focal": through(linear, losses.ClassBalancedFocalLoss(torch.full((CLASSES,), 450))),
        "hnc": lambda: hnc(losses.class_activation_maps(maps, linear.weight, linear.bias), labels).backward(),
        "rbf": through(heads.RBFHead(**shape)),
        "perpetual-1": on_features(losses.PerpetualProjectionLoss(**shape, version=1)),
        "perpetual-2": on_features(losses.PerpetualProjectionLoss(**shape, version=2)),
        "distillation": lambda: distilled(features, teacher).backward(),
    }
