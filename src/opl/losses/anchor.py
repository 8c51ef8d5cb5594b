"""Anchor loss: sigmoid cross-entropy that gives more weight to classes scored close to the true class."""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index, check_steps
from ..errors import OptionError, did_you_mean
from ..functional import IGNORE_INDEX
from ..schedules import StepCounter
from ._reduction import Reduction, check_reduction, reduce_losses

Variant = Literal["neg", "pos"]
VARIANTS = get_args(Variant)  # a constant: torch 2.6 cannot trace get_args

GAMMA = 0.5
DELTA = 0.05
VARIANT: Variant = "neg"


def anchor(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float = GAMMA,
    delta: float = DELTA,
    variant: Variant = VARIANT,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean of `-log p_y - sum_{c != y} (1 + p_c - p*)^gamma log(1 - p_c)`, with sigmoid probabilities p.

    Anchor Loss: Modulating Loss Scale Based on Prediction Difficulty (Ryou et al., ICCV 2019). The anchor
    `p* = max(p_y - delta, 0)` has no gradient. At zero logits the loss is large, about 0.7 per class: use warmup, or
    start from a small prior probability (`opl.heads.LinearHead(prior=True)`).

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        gamma: 0 is plain sigmoid cross-entropy.
        delta: slack between the true class and the others, from 0 to 1.
        variant: `"neg"` as above; `"pos"` weights the true class instead, by `(1 - p_y + min(p_max + delta, 1))^gamma`,
            where p_max is the largest p of the other classes and has no gradient.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> anchor(torch.zeros(1, 2), torch.tensor([0]), gamma=0.0)
        tensor(1.3863)
    """
    check_anchor(gamma, delta, variant)
    logits = as_vectors(logits, name="logits")
    logits, labels, kept = as_labeled_batch(logits, labels, logits.shape[1], ignore_index)
    target = F.one_hot(labels, logits.shape[1]).bool()
    p = logits.sigmoid()
    yes, no = F.softplus(-logits), F.softplus(logits)
    if variant == "neg":
        anchors = (p.detach().gather(1, labels[:, None]) - delta).clamp(min=0)
        weight = _power(1 + p - anchors, gamma)
        return reduce_losses(torch.where(target, yes, weight * no).sum(1), reduction, kept)
    highest = p.detach().masked_fill(target, 0).amax(1, keepdim=True)
    weight = _power(1 - p + (highest + delta).clamp(max=1), gamma)
    return reduce_losses(torch.where(target, weight * yes, no).sum(1), reduction, kept)


def _power(base: Tensor, gamma: float) -> Tensor:
    """Compute `base^gamma`; the clamp avoids the infinite slope at 0 (possible if delta is 0) for gamma below 1."""
    return base.clamp(min=1e-6).pow(gamma)


def check_anchor(gamma: float, delta: float, variant: str) -> None:
    """Raise `OptionError` for invalid settings."""
    if not 0 <= gamma < float("inf"):
        raise OptionError(f"gamma is {gamma} but must be a finite number of at least 0, such as 0.5.")
    if not 0 <= delta <= 1:
        raise OptionError(f"delta is {delta} but must be a probability between 0 and 1, such as 0.05.")
    if variant not in VARIANTS:
        raise OptionError(did_you_mean("variant", variant, VARIANTS))


class AnchorLoss(StepCounter):
    """Anchor loss of logits, after `warmup` steps of softmax cross-entropy: see `anchor`.

    The original warms up for five epochs. The module counts its calls in training mode, as part of its state;
    `loss.set_step(n)` sets the count. After `eval()` the loss is that of the current step, and the count is fixed.

    Example:
        >>> AnchorLoss(gamma=0.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(1.3863)
    """

    def __init__(
        self,
        *,
        gamma: float = GAMMA,
        delta: float = DELTA,
        variant: Variant = VARIANT,
        warmup: int = 0,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__()
        check_anchor(gamma, delta, variant)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.gamma, self.delta, self.variant = gamma, delta, variant
        self.warmup, self.reduction, self.ignore_index = check_steps("warmup", warmup), reduction, ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (B, C) logits."""
        value = anchor(
            logits,
            labels,
            gamma=self.gamma,
            delta=self.delta,
            variant=self.variant,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )
        if self.warmup == 0:
            return value
        logits = as_vectors(logits, name="logits")
        logits, labels, kept = as_labeled_batch(logits, labels, logits.shape[1], self.ignore_index)
        plain = reduce_losses(F.cross_entropy(logits, labels, reduction="none"), self.reduction, kept)
        return torch.where(self.tick() < self.warmup, plain, value)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"gamma={self.gamma}, delta={self.delta}, variant={self.variant!r}, warmup={self.warmup}"
