"""NT-Xent, the contrastive loss of SimCLR: each view must find the other view of its image among all views."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_integers, as_vectors, check_ignore_index, check_positive, kept_rows
from ..functional import IGNORE_INDEX

TEMPERATURE = 0.5


def nt_xent(
    features: Tensor, labels: Tensor, *, temperature: float = TEMPERATURE, ignore_index: int = IGNORE_INDEX
) -> Tensor:
    """Compute the mean over positive pairs (i, j) of `-log(e_ij / (e_ij + sum_k e_ik))`, `e = exp(cos / temperature)`.

    A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., ICML 2020). Rows with the same
    label are positive pairs, such as two views of one image; k runs over the rows with other labels. With two views per
    image this is SimCLR's loss; with class labels a row has several positive pairs, each with its own fraction.

    The loss is 0 without a positive pair or without a negative one. There is no `reduction`: a value belongs to a pair,
    not to a sample. The (B, B) cosines are stored.

    Args:
        features: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) integers: the number of the image that a row is a view of.
        temperature: smaller values weight the most similar negatives more.
        ignore_index: rows with this label are excluded.

    Example:
        >>> views = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
        >>> nt_xent(views, torch.tensor([0, 1, 0, 1]), temperature=1.0)
        tensor(0.5514)
    """
    check_positive("temperature", temperature)
    x = as_vectors(features)
    labels = as_integers(labels, x)
    kept = kept_rows(labels, x, ignore_index)
    if kept is not None:
        x = x.masked_fill(~kept[:, None], 0)
    with full_precision(x):
        units = unit_rows(x)
        scores = units @ units.T / temperature
    same = labels[:, None] == labels[None, :]
    both = torch.ones_like(same) if kept is None else kept[:, None] & kept[None, :]
    lowest = torch.finfo(scores.dtype).min / 4  # finite: rows without negatives have no gradient instead of NaN
    others = scores.masked_fill(same | ~both, lowest).logsumexp(1, keepdim=True)
    positive = same & both & ~torch.eye(len(same), dtype=torch.bool, device=same.device)
    entropies = F.softplus(others - scores, threshold=40)  # the default of 20 loses digits of fp64
    return entropies.where(positive, 0).sum() / positive.sum().clamp(min=1)


class NTXentLoss(nn.Module):
    """NT-Xent of a batch of features: see `nt_xent`. With several processes, each compares the rows of its own batch.

    Args:
        temperature: smaller values weight the most similar negatives more.
        ignore_index: rows with this label are excluded.

    Example:
        >>> loss = NTXentLoss(temperature=0.5)
        >>> first, second, images = torch.randn(8, 32), torch.randn(8, 32), torch.arange(8)
        >>> value = loss(torch.cat([first, second]), images.repeat(2))
    """

    def __init__(self, *, temperature: float = TEMPERATURE, ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        check_positive("temperature", temperature)
        check_ignore_index(ignore_index)
        self.temperature, self.ignore_index = temperature, ignore_index

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return nt_xent(features, labels, temperature=self.temperature, ignore_index=self.ignore_index)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"temperature={self.temperature}"
