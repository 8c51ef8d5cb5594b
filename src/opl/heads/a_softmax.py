"""A-Softmax (SphereFace): a head with a multiplicative margin on the angle, introduced gradually."""

import math

import torch
from torch import Tensor

from .._kernels.normalize import full_precision
from .._kernels.validate import check_positive
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ..schedules import StepCounter
from ._head import Head, cosines, is_target, target_column, xavier

MARGIN = 4
BASE = 1000.0
GAMMA = 0.12
POWER = 1.0
FLOOR = 5.0


def a_softmax(
    features: Tensor,
    weight: Tensor,
    labels: Tensor | None = None,
    *,
    margin: int = MARGIN,
    blend: float | Tensor = 0.0,
) -> Tensor:
    """Compute the logits `|f| cos`; for the label, `(blend * cos + psi) / (1 + blend)` replaces the cosine.

    SphereFace: Deep Hypersphere Embedding for Face Recognition (Liu et al., CVPR 2017). `psi` is `cos(margin * angle)`
    extended to decrease monotonically: `(-1)^k cos(margin * angle) - 2k` between k pi / m and (k+1) pi / m.
    `cos(m * angle)` is computed as a Chebyshev polynomial of the cosine, so no arc cosine is differentiated.

    Args:
        features: (B, D).
        weight: (C, D), one vector per class; the lengths do not matter.
        labels: (B,) class ids; None means no margin, and a negative id none for its row.
        margin: m of the paper, an integer; 1 is no margin.
        blend: lambda of the released code: 0 is the full margin, large values approach no margin.

    Example:
        >>> a_softmax(torch.tensor([[0.0, 2.0]]), torch.eye(2), torch.tensor([0]), margin=2)
        tensor([[-2.,  2.]])
    """
    cosine = cosines(features, weight)
    with full_precision(features):
        length: Tensor = torch.linalg.vector_norm(features.to(cosine.dtype), dim=1, keepdim=True)
        if labels is None:
            return length * cosine
        target = target_column(cosine, labels)
        moved = (blend * target + monotone_cosine(target, margin=margin)) / (1 + blend)
        return length * torch.where(is_target(labels, len(weight)), moved, cosine)


def monotone_cosine(cosine: Tensor, *, margin: int) -> Tensor:
    """Return psi of the paper, as a function of the cosine: 1 at angle 0, decreasing to `1 - 2 * margin` at pi."""
    before, now = torch.ones_like(cosine), cosine
    for _ in range(margin - 1):
        before, now = now, 2 * cosine * now - before
    bends = [math.cos(k * math.pi / margin) for k in range(1, margin)]
    k = sum((cosine < bend).to(cosine.dtype) for bend in bends) if bends else torch.zeros_like(cosine)
    return (1 - 2 * (k % 2)) * now - 2 * k


def anneal_blend(step: Tensor, *, base: float, gamma: float, power: float, floor: float) -> Tensor:
    """Return the blend at a step: `max(floor, base * (1 + gamma * step)^-power)`."""
    return (base * (1 + gamma * step.float()).pow(-power)).clamp(min=floor)


class ASoftmaxHead(Head, StepCounter):
    """A classifier head with the A-Softmax margin, introduced over the first steps: see `a_softmax`, `anneal_blend`.

    The defaults are those of the released code: the blend falls from 1000 to 5 in about 1,700 steps. The head counts
    its calls in training mode, as part of its state; `head.set_step(n)` sets the count. At test time the class with the
    largest cosine is predicted.

    Example:
        >>> head = ASoftmaxHead(64, num_classes=100)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features, labels), labels)
    """

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        margin: int = MARGIN,
        base: float = BASE,
        gamma: float = GAMMA,
        power: float = POWER,
        floor: float = FLOOR,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__(feature_dim, num_classes=num_classes, ignore_index=ignore_index)
        if not 1 <= margin < float("inf") or margin != int(margin):
            raise OptionError(f"margin is {margin} but must be an integer of at least 1 (no margin), such as 4.")
        self.margin, self.base, self.gamma, self.power, self.floor = int(margin), base, gamma, power, floor
        check_positive("base", base)
        if not (gamma >= 0 and power >= 0 and floor >= 0):
            raise OptionError(f"gamma is {gamma}, power is {power} and floor is {floor}: all three must be at least 0.")
        self.weight = xavier(feature_dim, num_classes)

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `a_softmax`."""
        if labels is None:
            return a_softmax(features, self.weight)
        return a_softmax(features, self.weight, labels, margin=self.margin, blend=self.blend())

    def blend(self) -> Tensor:
        """Return the blend at this step, and count the step in training mode."""
        return anneal_blend(self.tick(), base=self.base, gamma=self.gamma, power=self.power, floor=self.floor)
