"""Losses that bear wrong labels: Lq (generalized cross-entropy), and Lq cut off where a label is hardly believed."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._support.arguments import as_class_ids, as_vectors
from .._support.reduction import Reduction, check_reduction, reduce_losses
from ..errors import OptionError

Q = 0.7
K = 0.5


def generalized_cross_entropy(logits: Tensor, labels: Tensor, *, q: float = Q, reduction: Reduction = "mean") -> Tensor:
    """The mean over samples of `(1 - p^q) / q`, p the probability of the label.

    Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels (Zhang and Sabuncu, NeurIPS
    2018). The gradient of a sample is that of cross-entropy times `p^q`: a label that the model does not believe moves
    it little. Finite at p = 0, and with digits left where p is 1.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        q: 0 is cross-entropy, 1 is `1 - p`, half the mean absolute error.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Example:
        >>> generalized_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), q=1.0)
        tensor(0.5000)
    """
    check_truncated(q)
    return reduce_losses(_lq(cross_entropies(logits, labels), q), reduction)


def truncated(
    logits: Tensor,
    labels: Tensor,
    *,
    q: float = Q,
    k: float = K,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """The mean over samples of `w Lq(p) + (1 - w) Lq(k)`, with Lq of `generalized_cross_entropy`, same source.

    Without weights a sample counts (w = 1) where p is above k, so that the loss is Lq cut off at `Lq(k)`. With weights,
    as in training, they were made before, by `keep_mask` (pruning). The released code leaves the constant `Lq(k)` out,
    which has no gradient.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        q: see `generalized_cross_entropy`.
        k: the probability at and below which a label is not believed.
        weights: (B,), 1 for samples that count and 0 for those that are pruned.
        reduction: `"mean"`, over all samples, pruned ones too; `"sum"` or `"none"`.

    Example:
        >>> logits, labels = torch.zeros(1, 4), torch.tensor([0])  # p = 1/4
        >>> truncated(logits, labels, q=1.0), truncated(logits, labels, q=1.0, weights=torch.ones(1))
        (tensor(0.5000), tensor(0.7500))
    """
    check_truncated(q, k)
    entropy = cross_entropies(logits, labels)
    if weights is None:
        weights = entropy < -math.log(k)
    if weights.shape != entropy.shape:
        raise OptionError(f"weights of shape {tuple(weights.shape)} for {len(entropy)} samples: give one for each.")
    kept = weights.to(entropy)
    return reduce_losses(kept * _lq(entropy, q) + (1 - kept) * _bound(q, k), reduction)


def keep_mask(logits: Tensor, labels: Tensor, *, k: float = K) -> Tensor:
    """(B,) truths: whether the probability of the label is above k, so that its sample is not pruned."""
    check_truncated(0.0, k)
    return cross_entropies(logits, labels) < -math.log(k)


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """(B,) cross-entropies, by how far the label is behind all others together: p = 1 keeps its digits."""
    logits = as_vectors(logits, name="logits")
    labels = as_class_ids(labels, logits, logits.shape[1])
    if logits.shape[1] == 1:
        return 0 * logits[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return F.softplus(others.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1))


def _lq(entropy: Tensor, q: float) -> Tensor:
    """`expm1` has the digits of the loss where p is near 1, `exp` those of the gradient where p is near 0."""
    if not q:
        return entropy
    power = -q * entropy
    return torch.where(power > -1, -power.expm1(), 1 - power.exp()) / q


def _bound(q: float, k: float) -> float:
    """Lq(k)."""
    return -math.expm1(q * math.log(k)) / q if q else -math.log(k)


def check_truncated(q: float, k: float = K) -> None:
    """Refuse settings that mean nothing."""
    if not 0 <= q <= 1:
        raise OptionError(f"q is {q}: give a number from 0 (cross-entropy) to 1 (absolute error), such as 0.7.")
    if not 0 < k < 1:
        raise OptionError(f"k is {k}: give the probability below which a label is not believed, such as 0.5.")


class GeneralizedCrossEntropyLoss(nn.Module):
    """Lq of logits: see `generalized_cross_entropy`.

    Example:
        >>> GeneralizedCrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.5492)
    """

    def __init__(self, q: float = Q, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_truncated(q)
        check_reduction(reduction)
        self.q, self.reduction = q, reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (B, C) logits."""
        return generalized_cross_entropy(logits, labels, q=self.q, reduction=self.reduction)

    def extra_repr(self) -> str:
        """The settings."""
        return f"q={self.q}, reduction={self.reduction!r}"


class TruncatedLoss(nn.Module):
    """Lq of logits, cut off: see `truncated`.

    Example:
        >>> TruncatedLoss()(torch.tensor([[0.0, 9.0]]), torch.tensor([0]))
        tensor(0.5492)
    """

    def __init__(self, q: float = Q, k: float = K, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_truncated(q, k)
        check_reduction(reduction)
        self.q, self.k, self.reduction = q, k, reduction

    def forward(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """The loss of (B, C) logits; weights, where they are given, say which samples count."""
        return truncated(logits, labels, q=self.q, k=self.k, weights=weights, reduction=self.reduction)

    def extra_repr(self) -> str:
        """The settings."""
        return f"q={self.q}, k={self.k}, reduction={self.reduction!r}"
