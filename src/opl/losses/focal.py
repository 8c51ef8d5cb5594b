"""Focal loss: cross-entropy that looks away from samples already answered well."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._support.arguments import as_class_ids, as_vectors
from .._support.reduction import Reduction, check_reduction, reduce_losses
from ..errors import OptionError, did_you_mean

FocalForm = Literal["softmax", "sigmoid"]

GAMMA = 2.0
FORM: FocalForm = "softmax"


def focal(
    logits: Tensor,
    labels: Tensor,
    *,
    gamma: float = GAMMA,
    form: FocalForm = FORM,
    class_weights: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """The mean over samples of `-(1 - p)^gamma log p`, p the probability of the right answer.

    Focal Loss for Dense Object Detection (Lin et al., ICCV 2017). Powers and logarithms are taken of nothing that can
    be 0, so saturated logits and a gamma below 1 keep a finite gradient.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        gamma: 0 is plain cross-entropy; larger looks away sooner.
        form: `"softmax"`, one term a sample; or `"sigmoid"`, as in the paper: a yes or no for every class, added up.
        class_weights: (C,), what a sample of each class counts.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Example:
        >>> focal(torch.zeros(1, 2), torch.tensor([0]), gamma=0.0)
        tensor(0.6931)
    """
    check_focal(gamma, form)
    logits = as_vectors(logits, name="logits")
    labels = as_class_ids(labels, logits, logits.shape[1])
    values = (_softmax if form == "softmax" else _sigmoid)(logits, labels, gamma)
    if class_weights is not None:
        values = values * class_weights.to(values)[labels]
    return reduce_losses(values, reduction)


def _softmax(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """By how far the label is behind all others together: `p = sigmoid(-behind)`, with digits left where p is 1."""
    if logits.shape[1] == 1:
        return 0 * logits[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf)
    behind = others.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1)
    return (-gamma * F.softplus(-behind)).exp() * F.softplus(behind)


def _sigmoid(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    right = torch.where(F.one_hot(labels, logits.shape[1]).bool(), logits, -logits)
    return ((-gamma * F.softplus(right)).exp() * F.softplus(-right)).sum(1)


def check_focal(gamma: float, form: str) -> None:
    """Refuse settings that mean nothing."""
    if not 0 <= gamma < float("inf"):
        raise OptionError(f"gamma is {gamma}: give a finite number from 0 (cross-entropy) up, such as 2.")
    if form not in get_args(FocalForm):
        raise OptionError(did_you_mean("form", form, get_args(FocalForm)))


class FocalLoss(nn.Module):
    """Focal loss of logits: see `focal`.

    Example:
        >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
    """

    def __init__(self, gamma: float = GAMMA, form: FocalForm = FORM, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_focal(gamma, form)
        check_reduction(reduction)
        self.gamma, self.form, self.reduction = gamma, form, reduction

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of (B, C) logits."""
        return focal(logits, labels, gamma=self.gamma, form=self.form, reduction=self.reduction)

    def extra_repr(self) -> str:
        """The settings."""
        return f"gamma={self.gamma}, form={self.form!r}, reduction={self.reduction!r}"
