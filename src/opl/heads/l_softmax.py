"""L-Softmax: a head with a multiplicative margin on the angle whose class vectors keep their lengths."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision
from ..functional import IGNORE_INDEX
from ._head import cosines, target_column
from .a_softmax import ASoftmaxHead, monotone_cosine

MARGIN = 4
BASE = 1000.0
GAMMA = 2.5e-5
POWER = 35.0
FLOOR = 0.0


def l_softmax(
    features: Tensor,
    weight: Tensor,
    labels: Tensor | None = None,
    *,
    margin: int = MARGIN,
    blend: float | Tensor = 0.0,
) -> Tensor:
    """Compute the logits `|w| |f| cos`; for the label, `(blend * cos + psi) / (1 + blend)` replaces the cosine.

    Large-Margin Softmax Loss for Convolutional Neural Networks (Liu et al., ICML 2016). `psi` is that of A-Softmax, see
    `opl.heads.a_softmax.monotone_cosine`; here the lengths of the class vectors matter, as in a linear layer.
    The label's logit is computed as `w f + |w| |f| (psi - cos) / (1 + blend)`, which is the same number, so a margin of
    1 is exactly a linear layer without bias. A zero feature or class vector has no angle and gets no margin.

    Args:
        features: (B, D).
        weight: (C, D), one vector per class.
        labels: (B,) class ids; None means no margin, and a negative id none for its row.
        margin: m of the paper, an integer; 1 is no margin.
        blend: lambda of the paper: 0 is the full margin, large values approach no margin.

    Example:
        >>> l_softmax(torch.tensor([[0.0, 2.0]]), 3 * torch.eye(2), torch.tensor([0]), margin=2)
        tensor([[-6.,  6.]])
    """
    with full_precision(features):
        cosine = cosines(features, weight)
        features, weight = features.to(cosine.dtype), weight.to(cosine.dtype)
        logits = F.linear(features, weight)
        if labels is None:
            return logits
        target, rows = target_column(cosine, labels), labels.clamp(min=0)
        drop = (monotone_cosine(target, margin=margin) - target) / (1 + blend) * (labels >= 0)[:, None]
        lengths = torch.linalg.vector_norm(features, dim=1) * torch.linalg.vector_norm(weight, dim=1)[rows]
        return logits.scatter_add(1, rows[:, None], lengths[:, None] * drop)


class LSoftmaxHead(ASoftmaxHead):
    """A classifier head with the L-Softmax margin, introduced gradually: see `l_softmax`, `a_softmax.anneal_blend`.

    The defaults are those of the released layer: the blend falls from 1000 to 1 in about 8,700 steps, and on to 0. It
    counts its steps as `ASoftmaxHead` does. At test time it is a linear layer without bias.

    Example:
        >>> head = LSoftmaxHead(64, num_classes=100)
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
        super().__init__(
            feature_dim,
            num_classes=num_classes,
            margin=margin,
            base=base,
            gamma=gamma,
            power=power,
            floor=floor,
            ignore_index=ignore_index,
        )
        nn.init.kaiming_normal_(self.weight)  # as released: here the lengths matter

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `l_softmax`."""
        if labels is None:
            return l_softmax(features, self.weight)
        return l_softmax(features, self.weight, labels, margin=self.margin, blend=self.blend())
