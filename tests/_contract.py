"""Every loss and head with an input for it, and how to train it, save it and get its gradients."""

import io
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from opl import AutoGamma, Ramp
from opl.experiments.methods.variants import CenteredProjectionLoss, LogRatioLoss, PrototypeProjectionLoss
from opl.heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, LGMHead, LinearHead, LSoftmaxHead, RBFHead
from opl.losses import (
    AnchorLoss,
    CenterLoss,
    ClassBalancedFocalLoss,
    DistillationProjectionLoss,
    FocalLoss,
    GeneralizedCrossEntropyLoss,
    KnowledgeDistillationLoss,
    LogitAdjustmentLoss,
    NegativeCAMLoss,
    NTXentLoss,
    OLELoss,
    OrthogonalProjectionLoss,
    PerpetualProjectionLoss,
    TruncatedLoss,
)

ROWS, DIM, CLASSES = 20, 6, 5
TEACHER = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(7))
ANSWERS = torch.randn(ROWS, CLASSES, generator=torch.Generator().manual_seed(8))


def entropy(head: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(head(x, labels), labels.flatten().long())


def with_penalty(head: LGMHead, x: Tensor, labels: Tensor) -> Tensor:
    return entropy(head, x, labels) + 0.1 * head.penalty(x, labels)


def taught(loss: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return loss(x, TEACHER[: len(x)], labels)


def answered(loss: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return loss(x, ANSWERS[: len(x)], labels)


def plain(loss: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return loss(x, labels)


def remembering() -> PrototypeProjectionLoss:
    loss = PrototypeProjectionLoss(DIM, num_classes=CLASSES, temperature=0.5)
    loss.centers = F.normalize(torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(9)))
    return loss


class Case(NamedTuple):
    """How to build it, how to get a scalar from an input of `shape` a sample, and what a batch of none costs."""

    build: Callable[[], nn.Module]
    loss: Callable[[nn.Module, Tensor, Tensor], Tensor] = plain
    shape: tuple[int, ...] = (DIM,)
    empty: float = 0.0


LOGITS, MAPS = (CLASSES,), (CLASSES, 3, 4)
HEADS = {
    "ASoftmaxHead": Case(lambda: ASoftmaxHead(DIM, num_classes=CLASSES), entropy),
    "LSoftmaxHead": Case(lambda: LSoftmaxHead(DIM, num_classes=CLASSES), entropy),
    "LSoftmaxHead, full margin": Case(lambda: LSoftmaxHead(DIM, num_classes=CLASSES, base=1e-30), entropy),
    "ArcFaceHead": Case(lambda: ArcFaceHead(DIM, num_classes=CLASSES, scale=8.0, warmup=2), entropy),
    "CosFaceHead": Case(lambda: CosFaceHead(DIM, num_classes=CLASSES, scale=8.0, warmup=2), entropy),
    "LGMHead": Case(lambda: LGMHead(DIM, num_classes=CLASSES, double_every=2), with_penalty),
    "LGMHead, variances": Case(lambda: LGMHead(DIM, num_classes=CLASSES, learn_variances=True), with_penalty),
    "RBFHead": Case(lambda: RBFHead(DIM, num_classes=CLASSES), entropy),
    "LinearHead": Case(lambda: LinearHead(DIM, num_classes=CLASSES, prior=True), entropy),
}
LOSSES = {
    "FocalLoss": Case(lambda: FocalLoss(), shape=LOGITS),
    "FocalLoss, sigmoid": Case(lambda: FocalLoss(form="sigmoid"), shape=LOGITS),
    "ClassBalancedFocalLoss": Case(lambda: ClassBalancedFocalLoss([1, 2, 4, 8, 16], beta=0.9), shape=LOGITS),
    "LogitAdjustmentLoss": Case(lambda: LogitAdjustmentLoss([1, 2, 4, 8, 16]), shape=LOGITS),
    "AnchorLoss": Case(lambda: AnchorLoss(warmup=2), shape=LOGITS),
    "GeneralizedCrossEntropyLoss": Case(lambda: GeneralizedCrossEntropyLoss(), shape=LOGITS),
    "TruncatedLoss": Case(lambda: TruncatedLoss(k=0.2), shape=LOGITS),
    "CenterLoss": Case(lambda: CenterLoss(DIM, num_classes=CLASSES)),
    "NTXentLoss": Case(lambda: NTXentLoss(temperature=0.5)),
    "OLELoss": Case(lambda: OLELoss()),
    "NegativeCAMLoss, kd": Case(lambda: NegativeCAMLoss(k=2, form="kd"), shape=MAPS),
    "NegativeCAMLoss, mse": Case(lambda: NegativeCAMLoss(k=2, form="mse"), shape=MAPS),
    "PerpetualProjectionLoss, 1": Case(lambda: PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=1)),
    "PerpetualProjectionLoss, 2": Case(lambda: PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=2)),
    "DistillationProjectionLoss, absolute": Case(lambda: DistillationProjectionLoss(form="absolute"), taught),
    "DistillationProjectionLoss, softmax": Case(lambda: DistillationProjectionLoss(form="softmax"), taught),
    "KnowledgeDistillationLoss": Case(lambda: KnowledgeDistillationLoss(temperature=2.0), answered, LOGITS),
    "OrthogonalProjectionLoss": Case(lambda: OrthogonalProjectionLoss(), empty=1.0),  # s of no pair is 0
    "OrthogonalProjectionLoss, squared": Case(lambda: OrthogonalProjectionLoss(form="squared"), empty=1.0),
    "OrthogonalProjectionLoss, auto": Case(
        lambda: OrthogonalProjectionLoss(gamma=AutoGamma(momentum=0.5), form="mean"), empty=1.0
    ),
    "OrthogonalProjectionLoss, ramp": Case(
        lambda: OrthogonalProjectionLoss(gamma=Ramp(0.0, 2.0, steps=4, shape="cosine")), empty=1.0
    ),
}
VARIANTS = {  # of the study, not of the library
    "LogRatioLoss": Case(lambda: LogRatioLoss(gamma=1.0)),
    "CenteredProjectionLoss": Case(lambda: CenteredProjectionLoss(DIM, momentum=0.5), empty=1.0),
    "PrototypeProjectionLoss": Case(remembering),
}
CASES = HEADS | LOSSES | VARIANTS


def some(case: Case, rows: int = ROWS, seed: int = 1) -> tuple[Tensor, Tensor]:
    """An input that wants a gradient, and labels with every class in them."""
    x = torch.randn(rows, *case.shape, generator=torch.Generator().manual_seed(seed))
    return x.requires_grad_(), torch.arange(rows) % CLASSES


def training(case: Case, module: nn.Module) -> tuple[nn.Module, Tensor, torch.optim.Optimizer]:
    """The input learns too, so that a loss without parameters has something to do."""
    x, _ = some(case)
    return module, x, torch.optim.SGD([x, *module.parameters()], lr=0.05, momentum=0.9)


def steps(case: Case, module: nn.Module, x: Tensor, optimizer: torch.optim.Optimizer, count: int) -> None:
    labels = some(case)[1]
    for _ in range(count):
        optimizer.zero_grad()
        case.loss(module, x, labels).backward()
        optimizer.step()


def state(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def assert_same_state(one: nn.Module, other: nn.Module) -> None:
    torch.testing.assert_close(state(one), state(other), rtol=0, atol=0)


def through_a_file(saved: object) -> dict:
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def value_and_gradients(case: Case, module: nn.Module, x: Tensor, labels: Tensor) -> list[Tensor]:
    """The scalar, then the gradient to the input and to every parameter."""
    return with_gradients(case.loss(module, x, labels), module, x)


def with_gradients(value: Tensor, module: nn.Module, x: Tensor) -> list[Tensor]:
    return [value.detach(), *torch.autograd.grad(value, [x, *module.parameters()])]
