"""Center loss: pulls features to the center of their class, while the centers follow the features."""

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index, check_sizes, is_number
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses
from .projection import default_group

ALPHA = 0.5


def center(
    features: Tensor,
    labels: Tensor,
    centers: Tensor,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean of `1/2 |f_i - c_{y_i}|^2`, half the squared distance of a feature to its class center.

    A Discriminative Feature Learning Approach for Deep Face Recognition (Wen et al., ECCV 2016). Popular
    implementations omit the factor 1/2, so the same weight has twice the effect there.

    Args:
        features: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) class ids.
        centers: (C, D), one center per class.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> center(torch.tensor([[3.0, 4.0], [1.0, 1.0]]), torch.tensor([0, 1]), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
        tensor(6.2500)
    """
    centers = as_vectors(centers, name="centers")
    features = as_vectors(features, centers.shape[1])
    features, labels, kept = as_labeled_batch(features, labels, len(centers), ignore_index)
    # A plain difference: |f|^2 - 2 f c + |c|^2 loses all precision if the features are large and close together.
    gaps = features - centers[labels].to(features.dtype)
    return reduce_losses(gaps.square().sum(1) / 2, reduction, kept)


@torch.no_grad()
def update_centers(
    features: Tensor,
    labels: Tensor,
    centers: Tensor,
    *,
    alpha: float = ALPHA,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
) -> Tensor:
    """Return the centers moved toward the features of their class by the paper's rule, which is not a gradient step.

    `c_j <- c_j - alpha * sum_{y_i = j} (c_j - f_i) / (1 + n_j)`, where `n_j` samples have class j. The center of a
    class that is not in the batch does not move.

    Args:
        features: (B, D).
        labels: (B,) class ids.
        centers: (C, D).
        alpha: step size; 0 keeps the centers fixed.
        ignore_index: rows with this label move no center.
        group: a process group. The batches of all its processes count as one; the processes must have equal centers.

    Example:
        >>> update_centers(torch.tensor([[3.0], [6.0]]), torch.tensor([0, 0]), torch.zeros(2, 1))
        tensor([[1.5000],
                [0.0000]])
    """
    _check_alpha(alpha)
    centers = as_vectors(centers, name="centers")
    features = as_vectors(features, centers.shape[1])
    features, labels, kept = as_labeled_batch(features, labels, len(centers), ignore_index)
    present = centers.new_ones(len(labels)) if kept is None else kept.to(centers.dtype)
    away = (centers[labels] - features.to(centers.dtype)) * present[:, None]
    gaps = torch.zeros_like(centers).index_add_(0, labels, away)
    counts = centers.new_zeros(len(centers)).index_add_(0, labels, present)
    if group is not None:
        dist.all_reduce(gaps, group=group)
        dist.all_reduce(counts, group=group)
    return centers - alpha * gaps / (1 + counts)[:, None]


class CenterLoss(nn.Module):
    """Center loss with its centers: see `center` and `update_centers`.

    The centers are a buffer, not a parameter. Like batch norm statistics, they are updated at the end of each call in
    training mode with gradients enabled. No optimizer needs them, and neither the weight of the loss nor the loss
    scaling of mixed precision affects their update. The loss uses the centers from before the update.

    Args:
        feature_dim: D.
        num_classes: C.
        alpha: step size of the centers.
        reduction: see `center`.
        ignore_index: rows with this label are excluded, from the loss and from the update.
        global_batch: update the centers from the samples of all processes of the default group and keep them equal on
            all processes; requires `init_process_group`. The loss is still the mean over the local batch. Otherwise
            each process updates its own centers.

    Example:
        >>> loss = CenterLoss(64, num_classes=10)
        >>> features, labels, logits = torch.randn(8, 64), torch.arange(8), torch.randn(8, 10)
        >>> total = F.cross_entropy(logits, labels) + 0.01 * loss(features, labels)
    """

    centers: Tensor

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        alpha: float = ALPHA,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(feature_dim, num_classes)
        _check_alpha(alpha)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.alpha, self.reduction, self.ignore_index, self.global_batch = alpha, reduction, ignore_index, global_batch
        self.register_buffer("centers", nn.init.xavier_uniform_(torch.empty(num_classes, feature_dim)))
        self._agreed = False  # whether the processes of a global batch have equal centers

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the loss, and update the centers in training mode."""
        moving = self.training and torch.is_grad_enabled()
        group = default_group() if moving and self.global_batch else None
        if group is not None and not self._agreed:
            dist.broadcast(self.centers, 0, group=group)
            self._agreed = True
        loss = center(features, labels, self.centers, reduction=self.reduction, ignore_index=self.ignore_index)
        if moving:
            # Not in place, because the backward pass of torch.compile may read the old centers again.
            self.centers = update_centers(
                features, labels, self.centers, alpha=self.alpha, ignore_index=self.ignore_index, group=group
            )
        return loss

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        num_classes, feature_dim = self.centers.shape
        return (
            f"feature_dim={feature_dim}, num_classes={num_classes}, alpha={self.alpha}, "
            f"reduction={self.reduction!r}, global_batch={self.global_batch}"
        )


def _check_alpha(alpha: float) -> None:
    if not is_number(alpha) or not math.isfinite(alpha) or alpha < 0:
        raise OptionError(f"alpha is {alpha!r} but must be a finite number of at least 0, such as 0.5 (the paper).")
