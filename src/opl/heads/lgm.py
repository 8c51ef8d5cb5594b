"""LGM: a head with one Gaussian per class, a margin on the distance, and a likelihood term to add to the loss."""

import torch
from torch import Tensor, nn

from .._kernels.normalize import full_precision
from .._kernels.validate import as_vectors, check_positive, mean_or_zero
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ..schedules import StepCounter
from ._head import Head, is_target, squared_distances

MARGIN = 0.3
START = 0.1
DOUBLE_EVERY = 5000


def gaussian(
    features: Tensor,
    means: Tensor,
    labels: Tensor | None = None,
    *,
    log_variances: Tensor | None = None,
    margin: float | Tensor = MARGIN,
) -> Tensor:
    """Compute the logits `-d (1 + margin * [class is the label]) - log|Sigma| / 2`.

    d is half the squared Mahalanobis distance. Rethinking Feature Distribution for Loss Functions in Image
    Classification (Wan et al., CVPR 2018), with equal class priors. The released code omits the log-determinant, which
    is correct only for variances fixed at 1; it is included here.

    Args:
        features: (B, D).
        means: (C, D), the class means.
        labels: (B,) class ids; None means no margin, and a negative id none for its row.
        log_variances: (C, D), logarithms of the diagonal of Sigma; None means variance 1.
        margin: alpha of the paper.

    Example:
        >>> gaussian(torch.tensor([[2.0, 0.0]]), torch.zeros(2, 2), torch.tensor([1]), margin=0.5)
        tensor([[-2., -3.]])
    """
    distances = squared_distances(features, means, log_variances) / 2
    if labels is not None:
        distances = distances * (1 + margin * is_target(labels, len(means)).to(distances))
    return -distances if log_variances is None else -distances - log_variances.to(distances.dtype).sum(1) / 2


def unlikelihood(features: Tensor, means: Tensor, labels: Tensor, *, log_variances: Tensor | None = None) -> Tensor:
    """Compute the likelihood term of the loss, the mean of `d_y + log|Sigma_y| / 2`, to be added with a weight.

    Rows with a negative label are excluded; without rows the mean is 0.

    Example:
        >>> unlikelihood(torch.tensor([[2.0, 0.0]]), torch.zeros(2, 2), torch.tensor([1]))
        tensor(2.)
    """
    with full_precision(features):
        kept, ids = labels >= 0, labels.clamp(min=0)
        features = as_vectors(features).masked_fill(~kept[:, None], 0)
        squares = (features - means[ids].to(torch.promote_types(means.dtype, torch.float32))).square()
        if log_variances is None:
            return mean_or_zero(squares.sum(1), kept) / 2
        chosen = log_variances[ids].to(squares.dtype)
        return mean_or_zero((squares * (-chosen).exp() + chosen).sum(1), kept) / 2


class LGMHead(Head, StepCounter):
    """A head with one Gaussian per class: see `gaussian`.

    The margin starts at `start` and doubles every `double_every` steps up to `margin`. The head counts its calls in
    training mode, as part of its state; `head.set_step(n)` sets the count. The means have twice the learning rate, as
    in the released code. At test time, with equal variances, the class with the nearest mean is predicted.

    Example:
        >>> head = LGMHead(64, num_classes=100)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features, labels), labels) + 0.1 * head.penalty(features, labels)
    """

    param_options = {"means": {"lr_mult": 2.0}}  # noqa: RUF012

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        margin: float = MARGIN,
        start: float = START,
        double_every: int = DOUBLE_EVERY,
        learn_variances: bool = False,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__(feature_dim, num_classes=num_classes, ignore_index=ignore_index)
        if not 0 <= margin < float("inf") or double_every < 1:
            raise OptionError(f"margin is {margin} and double_every {double_every}: they must be at least 0 and 1.")
        self.margin, self.start, self.double_every = margin, check_positive("start", start), double_every
        self.means = nn.Parameter(nn.init.kaiming_normal_(torch.empty(num_classes, feature_dim)))
        self.log_variances = nn.Parameter(torch.zeros(num_classes, feature_dim)) if learn_variances else None

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `gaussian`."""
        if labels is None:
            return gaussian(features, self.means, log_variances=self.log_variances)
        doubled = self.start * torch.exp2((self.tick() // self.double_every).float())
        return gaussian(
            features, self.means, labels, log_variances=self.log_variances, margin=doubled.clamp(max=self.margin)
        )

    def penalty(self, features: Tensor, labels: Tensor) -> Tensor:
        """Compute the likelihood term by `unlikelihood`."""
        features = as_vectors(features, self.feature_dim)
        labels = self.class_ids(labels, features)
        return unlikelihood(features, self.means, labels, log_variances=self.log_variances)
