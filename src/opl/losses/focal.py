"""Focal loss: cross-entropy that down-weights well-classified samples."""

from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index
from ..errors import OptionError, did_you_mean
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

FocalForm = Literal["softmax", "sigmoid"]
FORMS = get_args(FocalForm)  # a constant: torch 2.6 cannot trace get_args

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
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean over samples of `-(1 - p)^gamma log p`, where p is the probability of the true class.

    Focal Loss for Dense Object Detection (Lin et al., ICCV 2017). No power or logarithm has an argument that can be 0,
    so the gradient stays finite for saturated logits and for gamma below 1.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        gamma: 0 is plain cross-entropy; larger values down-weight well-classified samples more.
        form: `"softmax"`, one term per sample; or `"sigmoid"`, as in the paper: the sum of one binary term per class.
        class_weights: (C,), weight of the samples of each class; the mean is still over the number of samples.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> focal(torch.zeros(1, 2), torch.tensor([0]), gamma=0.0)
        tensor(0.6931)
    """
    check_focal(gamma, form)
    logits = as_vectors(logits, name="logits")
    if class_weights is not None and len(class_weights) != logits.shape[1]:
        raise OptionError(
            f"got {logits.shape[1]} logits per sample but weights or counts for {len(class_weights)} classes."
        )
    logits, labels, kept = as_labeled_batch(logits, labels, logits.shape[1], ignore_index)
    values = (_softmax if form == "softmax" else _sigmoid)(logits, labels, gamma)
    if class_weights is not None:
        values = values * class_weights.to(values)[labels]
    return reduce_losses(values, reduction, kept)


def _softmax(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    """Compute the loss from `p = sigmoid(-behind)`, the gap to the log-sum-exp of other logits: accurate near p = 1."""
    if logits.shape[1] == 1:
        return 0 * logits[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf)
    behind = others.logsumexp(1) - logits.gather(1, labels[:, None]).squeeze(1)
    return (-gamma * F.softplus(-behind)).exp() * F.softplus(behind)


def _sigmoid(logits: Tensor, labels: Tensor, gamma: float) -> Tensor:
    right = torch.where(F.one_hot(labels, logits.shape[1]).bool(), logits, -logits)
    return ((-gamma * F.softplus(right)).exp() * F.softplus(-right)).sum(1)


def check_focal(gamma: float, form: str) -> None:
    """Raise `OptionError` for invalid settings."""
    if not 0 <= gamma < float("inf"):
        raise OptionError(f"gamma is {gamma} but must be a finite number of at least 0 (cross-entropy), such as 2.")
    if form not in FORMS:
        raise OptionError(did_you_mean("form", form, FORMS))


class FocalLoss(nn.Module):
    """Focal loss of logits: see `focal`.

    The buffer `weights` holds (C,) class weights, or None.

    Example:
        >>> FocalLoss(gamma=2.0)(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.1733)
    """

    weights: Tensor | None

    def __init__(
        self,
        *,
        gamma: float = GAMMA,
        form: FocalForm = FORM,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__()
        check_focal(gamma, form)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.gamma, self.form, self.reduction, self.ignore_index = gamma, form, reduction, ignore_index
        self.register_buffer("weights", None)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (B, C) logits."""
        return focal(
            logits,
            labels,
            gamma=self.gamma,
            form=self.form,
            class_weights=self.weights,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"gamma={self.gamma}, form={self.form!r}, reduction={self.reduction!r}"
