"""Losses for noisy labels: Lq (generalized cross-entropy), and Lq truncated where the label is improbable."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.validate import LabeledBatch, as_labeled_batch, as_vectors, check_ignore_index
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

Q = 0.7
K = 0.5


def generalized_cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    q: float = Q,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean over samples of `(1 - p^q) / q`, where p is the probability of the label.

    Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels (Zhang and Sabuncu, NeurIPS
    2018). The gradient of a sample is that of cross-entropy times `p^q`, so a label with low probability has little
    effect. The loss is finite at p = 0 and accurate near p = 1.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        q: 0 is cross-entropy, 1 is `1 - p`, half the mean absolute error.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> generalized_cross_entropy(torch.zeros(1, 2), torch.tensor([0]), q=1.0)
        tensor(0.5000)
    """
    check_truncated(q)
    batch = _as_batch(logits, labels, ignore_index)
    return reduce_losses(_lq(_entropies(batch), q), reduction, batch.kept)


def truncated(
    logits: Tensor,
    labels: Tensor,
    *,
    q: float = Q,
    k: float = K,
    weights: Tensor | None = None,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean over samples of `w Lq(p) + (1 - w) Lq(k)`, with Lq as in `generalized_cross_entropy`.

    From the same paper. Without weights, w = 1 for samples with p above k and 0 for the others, so that the loss is Lq
    truncated at `Lq(k)`. In training the weights are given, computed earlier by `keep_mask` (pruning). The released
    code omits the constant `Lq(k)`, which has no gradient.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        q: see `generalized_cross_entropy`.
        k: truncation threshold: samples whose label has at most this probability are truncated.
        weights: (B,), 1 for samples to keep and 0 for pruned samples.
        reduction: `"mean"` over all samples that are not ignored, including pruned ones; `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> logits, labels = torch.zeros(1, 4), torch.tensor([0])  # p = 1/4
        >>> truncated(logits, labels, q=1.0), truncated(logits, labels, q=1.0, weights=torch.ones(1))
        (tensor(0.5000), tensor(0.7500))
    """
    check_truncated(q, k)
    batch = _as_batch(logits, labels, ignore_index)
    entropy = _entropies(batch)
    if weights is None:
        weights = entropy < -math.log(k)
    if weights.shape != entropy.shape:
        raise OptionError(
            f"weights of shape {tuple(weights.shape)} for {len(entropy)} samples: pass one weight per sample."
        )
    weights = weights.to(entropy)
    return reduce_losses(weights * _lq(entropy, q) + (1 - weights) * _bound(q, k), reduction, batch.kept)


def keep_mask(logits: Tensor, labels: Tensor, *, k: float = K, ignore_index: int = IGNORE_INDEX) -> Tensor:
    """Return a (B,) mask of the samples to keep, whose label has a probability above k; ignored rows are not kept."""
    check_truncated(0.0, k)
    batch = _as_batch(logits, labels, ignore_index)
    probable = _entropies(batch) < -math.log(k)
    return probable if batch.kept is None else probable & batch.kept


def cross_entropies(logits: Tensor, labels: Tensor, *, ignore_index: int = IGNORE_INDEX) -> Tensor:
    """Return (B,) cross-entropies, accurate near p = 1; 0 for ignored rows."""
    batch = _as_batch(logits, labels, ignore_index)
    return reduce_losses(_entropies(batch), "none", batch.kept)


def _as_batch(logits: Tensor, labels: Tensor, ignore_index: int) -> LabeledBatch:
    logits = as_vectors(logits, name="logits")
    return as_labeled_batch(logits, labels, logits.shape[1], ignore_index)


def _entropies(batch: LabeledBatch) -> Tensor:
    """Return (B,) cross-entropies from the gap between label and log-sum-exp of other logits."""
    logits, labels, _ = batch
    if logits.shape[1] == 1:
        return 0 * logits[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return F.softplus(others.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1))


def _lq(entropy: Tensor, q: float) -> Tensor:
    """Compute Lq with `expm1`, which is accurate near p = 1, or `exp`, whose gradient is accurate near p = 0."""
    if not q:
        return entropy
    power = -q * entropy
    return torch.where(power > -1, -power.expm1(), 1 - power.exp()) / q


def _bound(q: float, k: float) -> float:
    """Return Lq(k)."""
    return -math.expm1(q * math.log(k)) / q if q else -math.log(k)


def check_truncated(q: float, k: float = K) -> None:
    """Raise `OptionError` for invalid settings."""
    if not 0 <= q <= 1:
        raise OptionError(f"q is {q} but must be between 0 (cross-entropy) and 1 (absolute error), such as 0.7.")
    if not 0 < k < 1:
        raise OptionError(f"k is {k} but must be a probability, such as 0.5: labels that are less probable are pruned.")


class GeneralizedCrossEntropyLoss(nn.Module):
    """Lq of logits: see `generalized_cross_entropy`.

    Example:
        >>> GeneralizedCrossEntropyLoss()(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.5492)
    """

    def __init__(self, *, q: float = Q, reduction: Reduction = "mean", ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        check_truncated(q)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.q, self.reduction, self.ignore_index = q, reduction, ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (B, C) logits."""
        return generalized_cross_entropy(
            logits, labels, q=self.q, reduction=self.reduction, ignore_index=self.ignore_index
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"q={self.q}, reduction={self.reduction!r}"


class TruncatedLoss(nn.Module):
    """Truncated Lq of logits: see `truncated`.

    Example:
        >>> TruncatedLoss()(torch.tensor([[0.0, 9.0]]), torch.tensor([0]))
        tensor(0.5492)
    """

    def __init__(
        self, *, q: float = Q, k: float = K, reduction: Reduction = "mean", ignore_index: int = IGNORE_INDEX
    ) -> None:
        super().__init__()
        check_truncated(q, k)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.q, self.k, self.reduction, self.ignore_index = q, k, reduction, ignore_index

    def forward(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the loss of (B, C) logits; `weights`, if given, select the samples to keep."""
        return truncated(
            logits,
            labels,
            q=self.q,
            k=self.k,
            weights=weights,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"q={self.q}, k={self.k}, reduction={self.reduction!r}"
