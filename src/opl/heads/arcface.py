"""ArcFace (AAM): a head with an additive margin on the angle."""

import math

import torch
from torch import Tensor

from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._head import CosineHead, cosines, is_target, target_column

SCALE = 64.0
MARGIN = 0.5

NEAR = 1e-6  # sin^2 below which the derivative of the angle is unusable in fp32


def arcface(
    features: Tensor,
    weight: Tensor,
    labels: Tensor | None = None,
    *,
    scale: float = SCALE,
    margin: float | Tensor = MARGIN,
    easy: bool = False,
) -> Tensor:
    """Compute the logits `scale * cos(angle + margin * [class is the label])` of unit features and class vectors.

    ArcFace: Additive Angular Margin Loss for Deep Face Recognition (Deng et al., CVPR 2019). If the angle plus the
    margin exceeds pi, the target logit uses `cos - margin * sin(margin)` instead, which keeps decreasing. The
    derivative of the angle is infinite at cos = 1 and -1: there the sine counts as 0, and only the cosine has a
    gradient.

    Args:
        features: (B, D).
        weight: (C, D), one vector per class; the lengths do not matter.
        labels: (B,) class ids; None means no margin, and a negative id none for its row.
        scale: s of the paper.
        margin: m of the paper, in radians, from 0 to below pi.
        easy: apply the margin only to targets within 90 degrees; the others keep their cosine.

    Example:
        >>> arcface(torch.tensor([[2.0, 0.0]]), torch.eye(2), torch.tensor([1]), scale=10.0, margin=0.5)
        tensor([[10.0000, -4.7943]])
    """
    cosine = cosines(features, weight)
    if labels is None:
        return scale * cosine
    m = torch.as_tensor(margin, dtype=cosine.dtype, device=cosine.device)
    target = target_column(cosine, labels)
    squared = 1 - target.square()
    seen = squared > NEAR
    sine = torch.where(seen, squared, 1).sqrt() * seen
    moved = target * m.cos() - sine * m.sin()
    if easy:
        moved = torch.where(target > 0, moved, target)
    else:
        moved = torch.where(target >= -m.cos(), moved, target - m * m.sin())
    return scale * torch.where(is_target(labels, len(weight)), moved, cosine)


class ArcFaceHead(CosineHead):
    """A classifier head with the ArcFace margin: see `arcface`.

    Over `warmup` steps the margin grows from 0, which prevents an early collapse of the features. The head counts its
    calls in training mode, as part of its state; `head.set_step(n)` sets the count. At test time the class with the
    largest cosine is predicted.

    Example:
        >>> head = ArcFaceHead(64, num_classes=100, scale=30.0)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features, labels), labels)
    """

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        scale: float = SCALE,
        margin: float = MARGIN,
        easy: bool = False,
        warmup: int = 0,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        if not 0 <= margin < math.pi:
            raise OptionError(f"margin is {margin} but must be at least 0 and below pi (radians), such as 0.5.")
        super().__init__(
            feature_dim,
            num_classes=num_classes,
            scale=scale,
            margin=margin,
            warmup=warmup,
            ignore_index=ignore_index,
        )
        self.easy = easy

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `arcface`."""
        margin = self.next_margin(labels)
        return arcface(features, self.weight, labels, scale=self.scale, margin=margin, easy=self.easy)
