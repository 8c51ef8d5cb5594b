"""TRADES (Zhang et al., 2019): cross-entropy on clean images, and equal predictions for adversarial examples."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from ..._ranges import NotNegative
from ..types import Batch, Output
from .adversarial import TwoPassMethod


@dataclass(frozen=True)
class TRADES(TwoPassMethod):
    """`cross-entropy(x) + weight * KL(p(x) || p(x'))`, where the attack chooses x' to increase the same divergence.

    Gradients flow through both sides of the divergence. Auxiliary losses use the features of x'.
    """

    weight: NotNegative = 6.0
    """Weight of the divergence; TRADES's beta, or 1 / lambda."""

    def perturb(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return examples that increase the divergence from the clean prediction."""
        return self.attack(model, batch, lambda logits, _, clean: divergence(clean, logits).sum(), clean=True)

    def losses(self, clean: Output, moved: Output, batch: Batch) -> dict[str, tuple[float, Tensor]]:
        """Return the cross-entropy and the divergence."""
        return {
            "entropy": (1.0, F.cross_entropy(clean.logits, batch.labels, reduction="sum")),
            "divergence": (self.weight, divergence(clean.logits, moved.logits).sum()),
        }


def divergence(clean: Tensor, moved: Tensor) -> Tensor:
    """Compute `KL(softmax(clean) || softmax(moved))` for each sample, from (N, C) logits.

    Example:
        >>> import torch
        >>> divergence(torch.zeros(1, 2), torch.zeros(1, 2))
        tensor([0.])
    """
    log_p, log_q = clean.log_softmax(1), moved.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)
