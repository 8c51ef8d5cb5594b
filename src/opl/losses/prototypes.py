"""OPL against a memory of the classes: running class means instead of the other samples of the batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._kernels.class_sums import closest
from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_labeled_batch, as_vectors, check_ignore_index, check_positive, check_sizes, is_number
from ..errors import OptionError
from ..functional import IGNORE_INDEX, Projection
from ..schedules import AutoGamma, Ramp, gamma_rule
from .projection import Diagnosis, default_group

GAMMA = 1.0
TEMPERATURE = 0.1
MOMENTUM = 0.9
HIDDEN = -1e4  # the scaled cosine of what takes no part


def prototype_projection(
    features: Tensor,
    labels: Tensor,
    centers: Tensor,
    *,
    gamma: Tensor | float = GAMMA,
    temperature: float = TEMPERATURE,
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean of `1 - u_i v_y + gamma tau log mean_{k != y} exp(u_i v_k / tau)` over the samples.

    u_i are the unit features, v_k the unit centers and y the class of sample i. The logarithm is a smooth maximum: the
    nearest other classes count most. So every sample has a positive, and every class is a negative of every sample.
    Classes without a center, which is all zeros, are no negatives.

    Args:
        features: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) class ids.
        centers: (C, D), the direction of each class; the lengths do not matter.
        gamma: weight of the second part.
        temperature: tau; the smaller, the more the nearest class alone counts.
        ignore_index: rows with this label are excluded.

    Example:
        >>> prototype_projection(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        tensor(0.)
    """
    loss, _, _, rows = _sums(features, labels, centers, gamma, temperature, ignore_index)
    return loss / rows.clamp(min=1)


def _sums(
    features: Tensor, labels: Tensor, centers: Tensor, gamma: Tensor | float, temperature: float, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sums over samples: of the loss, of the cosine to the own center and to others; and their number."""
    centers = as_vectors(centers, name="centers")
    x = as_vectors(features, centers.shape[1])
    x, ids, kept = as_labeled_batch(x, labels, len(centers), ignore_index)
    with full_precision(x):
        v = unit_rows(centers.to(x.dtype))
        cosines = unit_rows(x) @ v.T
        own = cosines.gather(1, ids[:, None]).squeeze(1)
        others = (v != 0).any(1).expand_as(cosines).scatter(1, ids[:, None], False)
        count = others.sum(1)
        hard = (
            torch.logsumexp((cosines / temperature).masked_fill(~others, HIDDEN), 1)
            - count.clamp(min=1).to(x.dtype).log()
        )
        hard = temperature * hard.where(count > 0, 0)
        there = torch.ones_like(own) if kept is None else kept.to(own.dtype)
        mean = (cosines * others).sum(1) / count.clamp(min=1)
        return ((1 - own + gamma * hard) * there).sum(), own @ there, mean @ there, there.sum()


@torch.no_grad()
def update_prototypes(
    features: Tensor,
    labels: Tensor,
    centers: Tensor,
    *,
    momentum: float = MOMENTUM,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
) -> Tensor:
    """Return (C, D) unit centers, moved towards the mean unit feature of each class in the batch.

    A class that is there for the first time gets the direction of its mean; a class that is absent stays.

    Args:
        features: (B, D).
        labels: (B,) class ids.
        centers: (C, D), zeros for a class without a center.
        momentum: how much of the old center is kept.
        ignore_index: rows with this label are excluded.
        group: a process group, the batch being the combined one of its processes.
    """
    x, ids, kept = as_labeled_batch(as_vectors(features, centers.shape[1]), labels, len(centers), ignore_index)
    with full_precision(x):
        there = x.new_ones(len(x)) if kept is None else kept.to(x.dtype)
        old = centers.to(x.dtype)
        sums = torch.zeros_like(old).index_add(0, ids, unit_rows(x) * there[:, None])
        counts = x.new_zeros(len(centers)).index_add(0, ids, there)
        if group is not None:
            from .._kernels.distributed import add_up

            sums, counts = add_up((sums, counts), group)
        means = sums / counts.clamp(min=1)[:, None]
        known = (old != 0).any(1)[:, None]
        moved = torch.where(known, momentum * old + (1 - momentum) * means, means)
        return torch.where(counts[:, None] > 0, unit_rows(moved), old)


class PrototypeProjectionLoss(nn.Module):
    """OPL with a memory of the classes and hard negatives: see `prototype_projection`.

    The memory is the buffer `centers`, the running mean of the unit features of each class. In training mode it takes
    up each batch before the loss is computed, so that every sample has a positive from the start.

    There is no `reduction`, as in OPL: with several processes, the value is that of the global batch.

    Args:
        feature_dim: D.
        num_classes: C.
        gamma: weight of the part about other classes, a number or a `Ramp`.
        temperature: tau of the smooth maximum over other classes.
        momentum: how much of a center is kept at each step.
        ignore_index: rows with this label are excluded.
        global_batch: use the combined batch of all processes; their memories are then equal. Requires
            `init_process_group`.

    Example:
        >>> loss = PrototypeProjectionLoss(64, num_classes=10)
        >>> loss(torch.randn(8, 64), torch.arange(8)) < 0.5
        tensor(True)
    """

    centers: Tensor

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        gamma: float | Ramp = GAMMA,
        temperature: float = TEMPERATURE,
        momentum: float = MOMENTUM,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(feature_dim, num_classes)
        check_positive("temperature", temperature)
        check_ignore_index(ignore_index)
        if not is_number(momentum) or not 0 <= momentum < 1:
            raise OptionError(f"momentum is {momentum!r}: give a number from 0 to below 1, such as 0.9.")
        if isinstance(gamma, str | AutoGamma):
            raise OptionError("an automatic gamma follows s and d of pairs, and prototypes have none: give a number.")
        self.gamma, self.temperature, self.momentum = gamma, temperature, momentum
        self.ignore_index, self.global_batch = ignore_index, global_batch
        self.rule = gamma_rule(gamma)
        self.register_buffer("centers", torch.zeros(num_classes, feature_dim))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.project(features, labels).loss

    def project(self, features: Tensor, labels: Tensor) -> Projection:
        """Return the loss with the mean cosines to the own center and to those of other classes."""
        group = default_group() if self.global_batch else None
        if group is not None:
            self._agree(features, labels, group)
        centers = self.centers
        if self.training:
            centers = update_prototypes(
                features, labels, centers, momentum=self.momentum, ignore_index=self.ignore_index, group=group
            )
            self.centers = centers.to(self.centers.dtype)
        gamma = self.rule(centers, centers)
        loss, same, other, rows = _sums(features, labels, centers, gamma, self.temperature, self.ignore_index)
        if group is None:
            return Projection(*(value / rows.clamp(min=1) for value in (loss, same, other)))
        from .._kernels.distributed import add_up

        values = torch.stack([value.detach() for value in (loss, same, other, rows)])
        (totals,) = add_up((values,), group)
        means = totals[:3] / totals[3].clamp(min=1)
        share = loss * (dist.get_world_size(group) / totals[3].clamp(min=1))  # DDP divides by the number of processes
        return Projection(means[0] + (share - share.detach()), means[1], means[2])

    def _agree(self, features: Tensor, labels: Tensor, group: Any) -> None:
        """Raise an error on every process if one has an invalid batch."""
        from .._kernels.distributed import check_and_agree

        num_classes, feature_dim = self.centers.shape

        def check(batch: Any) -> None:
            x = as_vectors(batch.x, feature_dim)
            as_labeled_batch(x, labels, num_classes, self.ignore_index)

        check_and_agree(features, labels, self.ignore_index, group, check)

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it; the rule for gamma is about pairs and does not apply."""
        found = self.project(features, labels)
        with torch.no_grad(), full_precision(features):
            known = (self.centers != 0).any(1)
            nearest = closest(self.centers.to(found.same.dtype), known)
        return Diagnosis(*found, None, None, torch.zeros_like(found.same), nearest)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        num_classes, feature_dim = self.centers.shape
        return (
            f"feature_dim={feature_dim}, num_classes={num_classes}, gamma={self.gamma}, "
            f"temperature={self.temperature}, momentum={self.momentum}, global_batch={self.global_batch}"
        )
