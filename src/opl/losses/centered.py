"""OPL of centered features: the running mean of all features is subtracted before the cosines are taken."""

from typing import Any

import torch
from torch import Tensor, nn

from .._kernels.validate import ValidBatch, as_vectors, check_sizes, validate
from ..functional import IGNORE_INDEX, Form, Projection
from ..schedules import Gamma
from .projection import Diagnosis, OrthogonalProjectionLoss, default_group

FORM: Form = "mean"  # linear in time for signed features too
MOMENTUM = 0.99  # about the last hundred batches
NOTHING = 1e-5  # what is left of a feature, relative to the mean, that is rounding error alone


class CenteredProjectionLoss(nn.Module):
    """OPL of `f - m`, m being the running mean of all features, which gets no gradient.

    Without centering, the mean direction of all samples is a part of every pull, which gamma must outweigh before d
    falls. Centered features have no such part: their classes spread around the mean for any gamma. In training mode the
    mean takes up each batch before the loss is computed.

    Args:
        feature_dim: D.
        gamma: as in `OrthogonalProjectionLoss`.
        form: as in `OrthogonalProjectionLoss`; centered features are signed, so `"mean_abs"` takes quadratic time.
        momentum: how much of the mean is kept at each step.
        ignore_index: rows with this label are excluded.
        global_batch: use the combined batch of all processes; requires `init_process_group`.

    Example:
        >>> loss = CenteredProjectionLoss(2)
        >>> loss(torch.tensor([[3.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 1]))  # s is 0, as no pair is alike; d is -1
        tensor(0.5000)
    """

    sums: Tensor
    weight: Tensor

    def __init__(
        self,
        feature_dim: int,
        *,
        gamma: Gamma | None = None,
        form: Form = FORM,
        momentum: float = MOMENTUM,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(feature_dim, 1)
        self.momentum, self.ignore_index, self.global_batch = momentum, ignore_index, global_batch
        self.projection = OrthogonalProjectionLoss(
            gamma=gamma, form=form, ignore_index=ignore_index, global_batch=global_batch
        )
        self.register_buffer("sums", torch.zeros(feature_dim))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.project(features, labels).loss

    def project(self, features: Tensor, labels: Tensor) -> Projection:
        """Return the loss with s and d of the centered features."""
        return self.projection.project(self.center(features, labels), labels)

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it, all of the centered features."""
        return self.projection.diagnose(self.center(features, labels), labels)

    def center(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the features without the running mean, which takes up the batch in training mode."""
        group = default_group() if self.global_batch else None
        batch = self._validate(features, labels, group)
        mean = self._mean(batch, group)
        rest = batch.x - mean
        with torch.no_grad():
            lost = rest.square().sum(1) <= (NOTHING * NOTHING) * mean.square().sum()
        return rest.masked_fill(lost[:, None], 0)

    def _validate(self, features: Tensor, labels: Tensor, group: Any) -> ValidBatch:
        width = len(self.sums)
        if group is None:
            as_vectors(features, width)
            return validate(features, labels, self.ignore_index)
        from .._kernels.distributed import check_and_agree

        return check_and_agree(features, labels, self.ignore_index, group, lambda batch: as_vectors(batch.x, width))

    @torch.no_grad()
    def _mean(self, batch: ValidBatch, group: Any) -> Tensor:
        x = batch.x.detach()
        sums, weight = self.sums.to(x.dtype), self.weight.to(x.dtype)
        if self.training:
            there = x.new_ones(len(x)) if batch.ignored is None else (~batch.ignored).to(x.dtype)
            total, count = (x * there[:, None]).sum(0), there.sum()  # a product would be rounded under autocast
            if group is not None:
                from .._kernels.distributed import add_up

                total, count = add_up((total, count), group)
            some = count > 0
            sums = torch.where(some, self.momentum * sums + (1 - self.momentum) * total / count.clamp(min=1), sums)
            weight = torch.where(some, self.momentum * weight + (1 - self.momentum), weight)
            # not in place, because a compiled backward pass would read the new values
            self.sums, self.weight = sums.to(self.sums.dtype), weight.to(self.weight.dtype)
        return sums / weight.where(weight > 0, 1)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"feature_dim={len(self.sums)}, momentum={self.momentum}"
