"""Perpetual OPL: projection onto learned class directions, which include classes that are not in the batch."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index, check_sizes, mean_or_zero
from ..errors import OptionError
from ..functional import IGNORE_INDEX
from .projection import default_group

Version = Literal[1, 2]
VERSIONS = get_args(Version)  # a constant: torch 2.6 cannot trace get_args
VERSION: Version = 1


def perpetual(
    features: Tensor,
    labels: Tensor,
    centers: Tensor,
    *,
    version: Version = VERSION,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
) -> Tensor:
    """Align features with the direction v of their class, orthogonal to the directions of other classes.

    From the code released with Orthogonal Projection Loss (Ranasinghe et al., ICCV 2021); it is not in the paper.

    - version 1: `1/2 (1 - s) + |d|`, s the mean of `cos(f_i, v_{y_i})`, d the mean of `cos(f_i, v_j)` over all
      j != y_i. Cosines of opposite sign cancel in d.
    - version 2: `1/2 mean_i |1 - cos(f_i, v_{y_i})| + 1/C^2 sum_{j,k} |cos(v_j, v_k) - [j = k]|`. The second part
      depends only on the directions.

    Both give 0 for an empty batch. There is no `reduction`: |d| and the second part of version 2 are not means
    over samples.

    Args:
        features: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) class ids.
        centers: (C, D), one direction per class; the lengths do not matter.
        version: 1 or 2.
        ignore_index: rows with this label are excluded.
        group: a process group. The value is still that of the local batch, but with the sign of d of the global batch,
            so that averaging over all samples gives |d| of the global batch.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
        >>> perpetual(features, torch.tensor([0, 0]), torch.eye(2))
        tensor(0.4268)
    """
    _check_version(version)
    centers = as_vectors(centers, name="centers")
    features = as_vectors(features, centers.shape[1])
    features, labels, kept = as_labeled_batch(features, labels, len(centers), ignore_index)
    num_classes = len(centers)
    with full_precision(features):
        f, v = unit_rows(features), unit_rows(centers.to(features.dtype))
        # never negative, so |1 - cos| of version 2 is the same
        along = 0.5 * mean_or_zero(1 - (f * v[labels]).sum(1), kept)
        if version == 1:
            others = v.sum(0) - v[labels]  # the sum over j != y_i, without a (B, C) matrix
            across = (f * others).sum(1)
            return along + mean_or_zero(across, kept) * _sign(across, group) / max(1, num_classes - 1)
        apart = (v @ v.T - torch.eye(num_classes, dtype=v.dtype, device=v.device)).abs().sum() / num_classes**2
        return along + apart * (min(1, len(features)) if kept is None else kept.any())


class PerpetualProjectionLoss(nn.Module):
    """Perpetual OPL with its learned class directions: see `perpetual`.

    The directions are the parameter `centers`; pass `loss.parameters()` to the optimizer together with those of the
    model. `opl.optim.param_groups` reads `param_options`: the learning-rate multiplier `lr_mult` (5 x 0.1 is the 0.5 of
    the released code), and no weight decay, because the length of a direction does not matter.

    Args:
        feature_dim: D.
        num_classes: C.
        version: 1 or 2.
        ignore_index: rows with this label are excluded.
        global_batch: in version 1, use the sign of d over the batches of all processes; requires `init_process_group`.

    Example:
        >>> loss, model = PerpetualProjectionLoss(64, num_classes=10), nn.Linear(32, 64)
        >>> optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
        >>> loss(model(torch.randn(8, 32)), torch.arange(8)).backward()
        >>> optimizer.step()
    """

    param_options: Mapping[str, Mapping[str, float]] = {"centers": {"lr_mult": 5.0, "weight_decay": 0.0}}

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        version: Version = VERSION,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(feature_dim, num_classes)
        _check_version(version)
        check_ignore_index(ignore_index)
        self.version, self.ignore_index, self.global_batch = version, ignore_index, global_batch
        self.centers = nn.Parameter(torch.randn(num_classes, feature_dim))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        group = default_group() if self.global_batch else None
        return perpetual(
            features, labels, self.centers, version=self.version, ignore_index=self.ignore_index, group=group
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        num_classes, feature_dim = self.centers.shape
        return f"feature_dim={feature_dim}, num_classes={num_classes}, version={self.version}"


def _sign(across: Tensor, group: Any) -> Tensor:
    """Return the sign of the sum over the samples of all processes."""
    total = across.detach().sum()
    if group is not None:
        dist.all_reduce(total, group=group)
    return total.sign()


def _check_version(version: int) -> None:
    if version not in VERSIONS:
        raise OptionError(f"version is {version!r} but must be 1 or 2.")
