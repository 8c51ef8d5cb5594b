"""Logit adjustment: cross-entropy whose logits are shifted by the log-frequencies of the classes in training."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index, is_number
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

TAU = 1.0


def class_log_priors(counts: Sequence[int] | Tensor) -> Tensor:
    """Return the (C,) log-frequencies `log(n_c / sum n)` of classes with n_c training samples.

    A class without samples counts as if it had one, so that all values are finite.

    Example:
        >>> class_log_priors([75, 25])
        tensor([-0.2877, -1.3863])
    """
    numbers = torch.as_tensor(counts, dtype=torch.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or not bool(((numbers >= 0) & numbers.isfinite()).all()):
        raise OptionError("counts must be (C,) sample counts, one per class, all finite and none negative.")
    numbers = numbers.clamp(min=1)
    return (numbers / numbers.sum()).log().float()


def logit_adjustment(
    logits: Tensor,
    labels: Tensor,
    *,
    log_priors: Tensor,
    tau: float = TAU,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute cross-entropy on `logits + tau * log_priors`.

    Long-tail Learning via Logit Adjustment (Menon et al., ICLR 2021), the version that changes the loss. A rare class
    must exceed the others by a larger margin in training; predictions use the logits as they are. With tau = 1 these
    minimize the balanced error, the mean over classes of the error of each class.

    Args:
        logits: (B, C).
        labels: (B,) class ids.
        log_priors: (C,), see `class_log_priors`; equal values give plain cross-entropy.
        tau: strength of the adjustment; 0 is plain cross-entropy.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> logit_adjustment(torch.zeros(1, 2), torch.tensor([1]), log_priors=class_log_priors([75, 25]))
        tensor(1.3863)
    """
    _check_tau(tau)
    logits = as_vectors(logits, name="logits")
    if len(log_priors) != logits.shape[1]:
        raise OptionError(
            f"got {logits.shape[1]} logits per sample but priors or counts for {len(log_priors)} classes."
        )
    logits, labels, kept = as_labeled_batch(logits, labels, logits.shape[1], ignore_index)
    values = F.cross_entropy(logits + tau * log_priors.to(logits), labels.long(), reduction="none", ignore_index=-1)
    return reduce_losses(values, reduction, kept)


class LogitAdjustmentLoss(nn.Module):
    """Cross-entropy with adjusted logits: see `logit_adjustment`.

    Args:
        counts: the number of training samples of each class.
        tau: strength of the adjustment; 0 is plain cross-entropy.
        reduction: see `logit_adjustment`.
        ignore_index: see `logit_adjustment`.

    Example:
        >>> loss = LogitAdjustmentLoss(counts=[75, 25])
        >>> loss(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.2877)
    """

    log_priors: Tensor

    def __init__(
        self,
        counts: Sequence[int] | Tensor,
        *,
        tau: float = TAU,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__()
        _check_tau(tau)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.tau, self.reduction, self.ignore_index = tau, reduction, ignore_index
        self.register_buffer("log_priors", class_log_priors(counts))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of (B, C) logits."""
        return logit_adjustment(
            logits,
            labels,
            log_priors=self.log_priors,
            tau=self.tau,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"tau={self.tau}, reduction={self.reduction!r}"


def _check_tau(tau: float) -> None:
    if not is_number(tau) or not 0 <= tau < float("inf"):
        raise OptionError(f"tau is {tau!r} but must be a finite number of at least 0 (cross-entropy), such as 1.")
