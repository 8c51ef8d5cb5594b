"""Variants of OPL that the study compares with it: log-ratio, centered features, prototypes, a balanced weight.

They are losses of features and labels like `opl.OrthogonalProjectionLoss`, with the same `diagnose`. The study did not
favor any of them, so they are not part of the library: see docs/variants.md.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from ..._kernels.class_sums import closest
from ..._kernels.distributed import add_up, check_and_agree
from ..._kernels.normalize import accumulation_dtype, full_precision, unit_rows
from ..._kernels.validate import ValidBatch, as_labeled_batch, as_vectors, is_readable, validate
from ...functional import IGNORE_INDEX, Form, Similarities
from ...losses.projection import Diagnosis, OrthogonalProjectionLoss, default_group
from ...schedules import MOMENTUM, Gamma, Ramp, gamma_rule

EPSILON = 0.01  # added to s and d before a logarithm
CENTERED_FORM: Form = "mean"  # linear in time for signed features too
NEGLIGIBLE = 1e-5  # a centered feature this short, relative to the mean, is rounding error alone
TEMPERATURE = 0.1
PROTOTYPE_MOMENTUM = 0.9
HIDDEN = -1e4  # the scaled cosine of an excluded class
_TINY = 1e-30  # the weight of the initial values of a running mean, compared with 1 - momentum for a number


def log_ratio(same: Tensor, other: Tensor, gamma: Tensor | float = 1.0) -> Tensor:
    """Return `gamma * log(d + epsilon) - log(s + epsilon)`: OPL as a ratio instead of a sum.

    Its gradient is that of OPL with gamma (s + epsilon) / (d + epsilon), up to a factor. For gamma 1 this lies between
    the gamma that lowers d and the gamma that lowers s wherever s > d: d always falls and s always rises. Below s = 0
    the logarithm continues along its tangent.

    Example:
        >>> log_ratio(torch.tensor(0.9), torch.tensor(0.9))
        tensor(0.)
    """
    log_other = (other + EPSILON).log()
    weighted = log_other if isinstance(gamma, float) and gamma == 1 else gamma * log_other
    if is_readable(same) and same.item() > 0:  # the tangent below s = 0 is not needed
        return weighted - (same + EPSILON).log()
    clamped = same.clamp(min=0)
    return torch.add(weighted - (clamped + EPSILON).log(), same - clamped, alpha=-1 / EPSILON)


class LogRatioLoss(OrthogonalProjectionLoss):
    """The logarithm of d / s, with d the mean of |cos|: see `log_ratio`."""

    def combine(self, parts: Similarities) -> tuple[Tensor, Tensor | float]:
        """Return the loss, and the gamma of the OPL that has the same gradient up to a factor."""
        gamma = self.gamma_of(parts)
        s, d = parts.same.detach(), parts.other.detach()
        return log_ratio(parts.same, parts.other, gamma), gamma * (s.clamp(min=0) + EPSILON) / (d + EPSILON)


class CenteredProjectionLoss(nn.Module):
    """OPL of `f - m`, m being the running mean of all features, which gets no gradient.

    Without centering, the mean direction of all samples is a part of every pull, which gamma must outweigh before d
    falls. Centered features have no such part: their classes spread around the mean for any gamma. In training mode the
    batch is added to the mean before the loss is computed.

    Args:
        feature_dim: D.
        gamma: as in `OrthogonalProjectionLoss`.
        momentum: how much of the mean is kept at each step.
        global_batch: use the combined batch of all processes; requires `init_process_group`.

    Example:
        >>> loss = CenteredProjectionLoss(2)
        >>> loss(torch.tensor([[3.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 1]))  # s is 0, as no pair is alike; d is -1
        tensor(0.5000)
    """

    sums: Tensor
    weight: Tensor

    def __init__(
        self, feature_dim: int, *, gamma: Gamma = 0.5, momentum: float = MOMENTUM, global_batch: bool = False
    ) -> None:
        super().__init__()
        self.momentum, self.global_batch = momentum, global_batch
        self.projection = OrthogonalProjectionLoss(gamma=gamma, form=CENTERED_FORM, global_batch=global_batch)
        self.register_buffer("sums", torch.zeros(feature_dim))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.diagnose(features, labels).loss

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it, computed on the centered features."""
        return self.projection.diagnose(self.center(features, labels), labels)

    def center(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the features without the running mean, which includes the batch in training mode."""
        group = default_group() if self.global_batch else None
        batch = self._validate(features, labels, group)
        mean = self._mean(batch, group)
        rest = batch.x - mean
        with torch.no_grad():
            lost = rest.square().sum(1) <= NEGLIGIBLE**2 * mean.square().sum()
        return rest.masked_fill(lost[:, None], 0)

    def _validate(self, features: Tensor, labels: Tensor, group: Any) -> ValidBatch:
        width = len(self.sums)
        if group is None:
            as_vectors(features, width)
            return validate(features, labels, IGNORE_INDEX)
        return check_and_agree(features, labels, IGNORE_INDEX, group, lambda batch: as_vectors(batch.x, width))

    @torch.no_grad()
    def _mean(self, batch: ValidBatch, group: Any) -> Tensor:
        x = batch.x.detach()
        sums, weight = self.sums.to(x.dtype), self.weight.to(x.dtype)
        if self.training:
            kept = x.new_ones(len(x)) if batch.ignored is None else (~batch.ignored).to(x.dtype)
            total, count = (x * kept[:, None]).sum(0), kept.sum()  # a product would be rounded under autocast
            if group is not None:
                total, count = add_up((total, count), group)
            present = count > 0
            sums = torch.where(present, self.momentum * sums + (1 - self.momentum) * total / count.clamp(min=1), sums)
            weight = torch.where(present, self.momentum * weight + (1 - self.momentum), weight)
            # not in place, because a compiled backward pass would read the new values
            self.sums, self.weight = sums.to(self.sums.dtype), weight.to(self.weight.dtype)
        return sums / weight.where(weight > 0, 1)


def _prototype_sums(
    features: Tensor, labels: Tensor, centers: Tensor, gamma: Tensor | float, temperature: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sums over samples of the loss, the cosine to its class center and to the rest; and the sample count."""
    x = as_vectors(features, centers.shape[1])
    x, ids, kept = as_labeled_batch(x, labels, len(centers), IGNORE_INDEX)
    with full_precision(x):
        v = unit_rows(centers.to(x.dtype))
        cosines = unit_rows(x) @ v.T
        same = cosines.gather(1, ids[:, None]).squeeze(1)
        negatives = (v != 0).any(1).expand_as(cosines).scatter(1, ids[:, None], False)
        count = negatives.sum(1)
        hard = (
            torch.logsumexp((cosines / temperature).masked_fill(~negatives, HIDDEN), 1)
            - count.clamp(min=1).to(x.dtype).log()
        )
        hard = temperature * hard.where(count > 0, 0)
        counted = torch.ones_like(same) if kept is None else kept.to(same.dtype)
        other = (cosines * negatives).sum(1) / count.clamp(min=1)
        return ((1 - same + gamma * hard) * counted).sum(), same @ counted, other @ counted, counted.sum()


@torch.no_grad()
def update_prototypes(
    features: Tensor, labels: Tensor, centers: Tensor, *, momentum: float = PROTOTYPE_MOMENTUM, group: Any = None
) -> Tensor:
    """Return (C, D) unit centers, moved towards the mean unit feature of each class in the batch.

    A class that appears for the first time gets the direction of its mean; an absent class keeps its center.

    Args:
        features: (B, D).
        labels: (B,) class ids; rows with -100 are excluded.
        centers: (C, D), zeros for a class without a center.
        momentum: how much of the old center is kept.
        group: a process group, whose combined batch is used.
    """
    x, ids, kept = as_labeled_batch(as_vectors(features, centers.shape[1]), labels, len(centers), IGNORE_INDEX)
    with full_precision(x):
        counted = x.new_ones(len(x)) if kept is None else kept.to(x.dtype)
        old = centers.to(x.dtype)
        sums = torch.zeros_like(old).index_add(0, ids, unit_rows(x) * counted[:, None])
        counts = x.new_zeros(len(centers)).index_add(0, ids, counted)
        if group is not None:
            sums, counts = add_up((sums, counts), group)
        means = sums / counts.clamp(min=1)[:, None]
        known = (old != 0).any(1)[:, None]
        moved = torch.where(known, momentum * old + (1 - momentum) * means, means)
        return torch.where(counts[:, None] > 0, unit_rows(moved), old)


class PrototypeProjectionLoss(nn.Module):
    """OPL with a memory of the classes and hard negatives.

    It is the mean over samples i of `1 - u_i v_y + gamma tau log mean_{k != y} exp(u_i v_k / tau)`, where u_i are the
    unit features, v_k the unit centers and y is the class of sample i. The logarithm is a smooth maximum: the nearest
    other classes count most. So every sample has a positive, and every class is a negative of every sample. Classes
    without a center, which is all zeros, are not negatives.

    The memory is the buffer `centers`, the running mean of the unit features of each class. In training mode the batch
    is added to it before the loss is computed, so that every sample has a positive from the start.

    Args:
        feature_dim: D.
        num_classes: C.
        gamma: weight of the part about other classes, a number or a `Ramp`.
        temperature: tau of the smooth maximum over other classes.
        momentum: how much of a center is kept at each step.
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
        gamma: float | Ramp = 1.0,
        temperature: float = TEMPERATURE,
        momentum: float = PROTOTYPE_MOMENTUM,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        self.gamma, self.temperature, self.momentum, self.global_batch = gamma, temperature, momentum, global_batch
        self.rule = gamma_rule(gamma)
        self.register_buffer("centers", torch.zeros(num_classes, feature_dim))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.diagnose(features, labels).loss

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it; the rule for gamma is about pairs and does not apply."""
        loss, same, other = self._project(features, labels)
        with torch.no_grad(), full_precision(features):
            nearest = closest(self.centers.to(same.dtype), (self.centers != 0).any(1))
        return Diagnosis(loss, same, other, None, None, torch.zeros_like(same), nearest)

    def _project(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss and the mean cosines to the center of the same class and to the other centers."""
        group = default_group() if self.global_batch else None
        if group is not None:
            self._agree(features, labels, group)
        centers = self.centers
        if self.training:
            centers = update_prototypes(features, labels, centers, momentum=self.momentum, group=group)
            self.centers = centers.to(self.centers.dtype)
        gamma = self.rule(centers)
        loss, same, other, rows = _prototype_sums(features, labels, centers, gamma, self.temperature)
        if group is None:
            count = rows.clamp(min=1)
            return loss / count, same / count, other / count
        (totals,) = add_up((torch.stack([value.detach() for value in (loss, same, other, rows)]),), group)
        means = totals[:3] / totals[3].clamp(min=1)
        share = loss * (dist.get_world_size(group) / totals[3].clamp(min=1))  # DDP divides by the number of processes
        return means[0] + (share - share.detach()), means[1], means[2]

    def _agree(self, features: Tensor, labels: Tensor, group: Any) -> None:
        """Raise an error on every process if any process has an invalid batch."""
        num_classes, feature_dim = self.centers.shape

        def check(batch: Any) -> None:
            as_labeled_batch(as_vectors(batch.x, feature_dim), labels, num_classes, IGNORE_INDEX)

        check_and_agree(features, labels, IGNORE_INDEX, group, check)


class RunningMean(nn.Module):
    """Exponential means of some numbers, without the bias of the first calls.

    It changes only in training mode. An exact 0 is a mean over nothing, such as s of a batch without a pair, and does
    not count. Before the first number, a mean is its `initial` value.
    """

    sums: Tensor
    weights: Tensor

    def __init__(self, initial: tuple[float, ...], momentum: float = MOMENTUM) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("sums", _TINY * torch.tensor(initial))
        self.register_buffer("weights", torch.full((len(initial),), _TINY))

    @torch.no_grad()
    def forward(self, *values: Tensor) -> Tensor:
        """Add numbers, in training mode, and return the (N,) means."""
        latest = torch.stack(values)
        sums, weights = self.sums.to(latest), self.weights.to(latest)
        if self.training:
            share = latest.ne(0).to(latest.dtype) * (1 - self.momentum)
            sums, weights = sums.lerp(latest, share), torch.addcmul(weights, 1 - weights, share)
            # not in place, because a compiled backward pass would read the new values
            self.sums, self.weights = sums.to(self.sums.dtype), weights.to(self.weights.dtype)
        return sums / weights


def entropy_gradient(logits: Tensor, labels: Tensor, weight: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Return the (B, D) gradient of the sum of softmax cross-entropies at the input of a linear classifier.

    In closed form, `(p - y) W`, so that it is available for a compiled model too.

    Args:
        logits: (B, C).
        labels: (B,) class ids; rows with -100 have gradient 0.
        weight: (C, D) of the classifier.
        label_smoothing: as in `torch.nn.functional.cross_entropy`.
    """
    with torch.no_grad(), full_precision(logits):
        p, kept = logits.detach().float().softmax(1), labels != IGNORE_INDEX
        y = F.one_hot(labels.where(kept, 0), logits.shape[1]).to(p.dtype)
        y = y * (1 - label_smoothing) + label_smoothing / logits.shape[1]
        return ((p - y) * kept[:, None]) @ weight.detach().float()


class GradientBalance(nn.Module):
    """Scales the gradient of OPL to the norm of another gradient at the features; the value of the loss is unchanged.

    Both norms are running means, the module's state. With `global_batch` they are norms of the combined batch of all
    processes, and equal on all of them.
    """

    def __init__(self, global_batch: bool = False) -> None:
        super().__init__()
        self.global_batch = global_batch
        self.norms = RunningMean((1.0, 1.0))

    def forward(self, loss: Tensor, features: Tensor, slope: Tensor) -> Tensor:
        """Return the loss, with a gradient that is as large as `slope` on average.

        Args:
            loss: OPL, a function of the features.
            features: (B, D).
            slope: (B, D), the gradient of the other loss at the features.
        """
        (gradient,) = torch.autograd.grad(loss, features, retain_graph=True)
        squares = torch.stack([_square(slope), _square(gradient)])
        if self.global_batch:
            dist.all_reduce(squares)
        theirs, ours = self.norms(*squares.sqrt().to(loss.dtype))
        ratio: Tensor = theirs / ours.clamp(min=torch.finfo(loss.dtype).eps)
        return loss.detach() + ratio * (loss - loss.detach())


def _square(gradient: Tensor) -> Tensor:
    return gradient.detach().to(accumulation_dtype(gradient)).square().sum()


ProjectionLoss = OrthogonalProjectionLoss | CenteredProjectionLoss | PrototypeProjectionLoss
"""OPL or one of its variants."""
