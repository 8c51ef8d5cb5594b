"""The loss as papers and repositories have it: normalize, one B x B matrix of cosines, two masks, two means.

Written from Algorithm 1 of the paper, with the masks that PyTorch accepts today. It is what `opl bench` compares with.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from ...functional import GAMMA


def textbook(features: Tensor, labels: Tensor, gamma: float = GAMMA) -> Tensor:
    """`(1 - s) + gamma * d` with d the mean of |cos|."""
    unit = F.normalize(features, p=2, dim=1)
    labels = labels[:, None]
    mask = torch.eq(labels, labels.t())
    itself = torch.eye(len(mask), dtype=torch.bool, device=mask.device)
    positive = mask.masked_fill(itself, 0).float()
    negative = (~mask).float()
    cosines = torch.matmul(unit, unit.t())
    positive_mean = (positive * cosines).sum() / (positive.sum() + 1e-6)
    negative_mean = torch.abs(negative * cosines).sum() / (negative.sum() + 1e-6)
    return (1.0 - positive_mean) + gamma * negative_mean
