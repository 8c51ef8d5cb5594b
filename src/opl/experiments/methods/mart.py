"""MART (Wang et al., 2020): boosted cross-entropy on adversarial examples, and consistency on uncertain samples."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..._ranges import NotNegative
from ..types import Batch, Output
from .adversarial import TwoPassMethod

TINY = 1e-12  # the constants of the published code, which are part of its formula
ABOVE_ONE = 1.0001
BARELY_ABOVE_ONE = 1.0000001


@dataclass(frozen=True)
class MART(TwoPassMethod):
    """`boosted_cross_entropy(x') + weight * consistency(x, x')`; see `boosted_cross_entropy` and `consistency`.

    x' is the adversarial example of x. The published weight is 5 for ResNet-18 and 6 for WRN-34-10. Auxiliary losses
    use the features of x'.
    """

    weight: NotNegative = 5.0
    """Weight of the consistency; MART's beta, or lambda."""

    def losses(self, clean: Output, moved: Output, batch: Batch) -> dict[str, tuple[float, Tensor]]:
        """Return the boosted cross-entropy and the consistency."""
        return {
            "boosted": (1.0, boosted_cross_entropy(moved.logits, batch.labels).sum()),
            "consistency": (self.weight, consistency(clean.logits, moved.logits, batch.labels).sum()),
        }


def boosted_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Compute `-log p_y - log(1.0001 - max over j != y of p_j + 1e-12)` for each adversarial example.

    Example:
        >>> boosted_cross_entropy(torch.zeros(1, 2), torch.tensor([0]))  # -log 0.5 - log 0.5001
        tensor([1.3861])
    """
    logits = _wide(logits)
    p = logits.softmax(1)
    runner_up = p.scatter(1, labels[:, None], -1.0).max(1).values
    return F.cross_entropy(logits, labels, reduction="none") - torch.log(ABOVE_ONE - runner_up + TINY)


def consistency(clean: Tensor, moved: Tensor, labels: Tensor) -> Tensor:
    """Compute `(1.0000001 - p_y) * sum over j of p_j (log p_j - log(q_j + 1e-12))` for each sample.

    p are the probabilities of the clean image, q those of its adversarial example, both from (N, C) logits.
    """
    log_p, q = _wide(clean).log_softmax(1), _wide(moved).softmax(1)
    p = log_p.exp()
    divergence = (p * (log_p - torch.log(q + TINY))).sum(1)
    unsure = BARELY_ABOVE_ONE - p.gather(1, labels[:, None]).squeeze(1)
    return unsure * divergence


def _wide(logits: Tensor) -> Tensor:
    """Convert to at least fp32."""
    return logits if logits.dtype == torch.float64 else logits.float()
