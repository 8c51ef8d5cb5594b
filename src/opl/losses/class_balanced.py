"""Class-balanced focal loss: focal loss with classes weighted by the effective number of their samples."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._reduction import Reduction
from .focal import FocalForm, FocalLoss

BETA = 0.9999
GAMMA = 1.0
FORM: FocalForm = "sigmoid"


def class_balanced_weights(counts: Sequence[int] | Tensor, *, beta: float = BETA) -> Tensor:
    """Return (C,) weights `(1 - beta) / (1 - beta^n)` for classes with n samples, scaled to a mean of 1.

    Class-Balanced Loss Based on Effective Number of Samples (Cui et al., CVPR 2019). Equal counts give weights of
    exactly 1, for any beta. A class without samples has weight 0.

    Example:
        >>> class_balanced_weights([500, 5], beta=0.99)
        tensor([0.0940, 1.9060])
    """
    if not 0 <= beta < 1:
        raise OptionError(f"beta is {beta} but must be at least 0 (equal weights) and below 1, such as 0.9999.")
    numbers = torch.as_tensor(counts, dtype=torch.float64)
    if numbers.ndim != 1 or len(numbers) == 0 or bool((numbers < 0).any()) or not bool((numbers > 0).any()):
        raise OptionError("counts must be (C,) sample counts, one per class, none negative and at least one positive.")
    effective = 1 - torch.as_tensor(beta, dtype=torch.float64).pow(numbers)
    rarest = effective[numbers > 0].min()  # a common factor, so that equal counts give exactly 1
    weights = torch.where(numbers > 0, rarest / effective.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
    return (weights * len(weights) / weights.sum()).float()


class ClassBalancedFocalLoss(FocalLoss):
    """Focal loss with class-balanced weights, by default with sigmoids as in the released code: see `focal`.

    Args:
        counts: the number of training samples of each class.
        beta: 0 weights all classes equally; toward 1, the weights approach the inverse counts.
        gamma: see `focal`.
        form: see `focal`.
        reduction: see `focal`.
        ignore_index: see `focal`.

    Example:
        >>> loss = ClassBalancedFocalLoss(counts=[500, 5])
        >>> loss(torch.zeros(1, 2), torch.tensor([0]))
        tensor(0.0141)
    """

    def __init__(
        self,
        counts: Sequence[int] | Tensor,
        *,
        beta: float = BETA,
        gamma: float = GAMMA,
        form: FocalForm = FORM,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__(gamma=gamma, form=form, reduction=reduction, ignore_index=ignore_index)
        self.beta = beta
        self.register_buffer("weights", class_balanced_weights(counts, beta=beta))

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"beta={self.beta}, {super().extra_repr()}"
