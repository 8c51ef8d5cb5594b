"""The study's variants of OPL vs loops in float64: values, gradients, state, and several processes."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from _free_features import LABELS, PLACES, change, features_with
from _gloo import together
from _loss_features import (
    CLASSES,
    DIM,
    batch,
    compare_with_one_process,
    cosine,
    gradient_of,
    pairs_by_loops,
    same_by_value_and_gradient,
)
from opl import OrthogonalProjectionLoss, Ramp, errors, orthogonal_projection
from opl.experiments.methods import variants
from opl.experiments.methods.variants import (
    CenteredProjectionLoss,
    GradientBalance,
    LogRatioLoss,
    PrototypeProjectionLoss,
    entropy_gradient,
    log_ratio,
)
from opl.schedules import MOMENTUM


def prototypes_by_loops(features, labels, centers, gamma, temperature):
    total = 0.0
    for i, y in enumerate(labels.tolist()):
        others = [cosine(features[i], v) for k, v in enumerate(centers) if k != y and v.any()]
        hard = temperature * torch.log(sum(torch.exp(c / temperature) for c in others) / len(others))
        total = total + 1 - cosine(features[i], centers[y]) + gamma * hard
    return total / len(labels)


def moved_by_loops(features, labels, centers, momentum):
    moved = centers.clone()
    for k in range(len(centers)):
        rows = [f / f.norm() for f, y in zip(features, labels, strict=True) if y == k]
        if rows:
            mean = sum(rows) / len(rows)
            moved[k] = momentum * centers[k] + (1 - momentum) * mean if centers[k].any() else mean
            moved[k] /= moved[k].norm()
    return moved


@pytest.mark.parametrize("readable", [True, False], ids=["numbers", "tensors"])
def test_the_log_ratio_equals_loops(readable, monkeypatch):
    monkeypatch.setattr(variants, "is_readable", lambda value: readable)
    features, labels = batch()

    def by_loops(x):
        s, d, _ = pairs_by_loops(x, labels)
        below = math.log(0.01) + s / 0.01  # the tangent, for s below 0
        return torch.log(d + 0.01) - (torch.log(s + 0.01) if s > 0 else below)

    for x in (features, features.abs()):
        same_by_value_and_gradient(LogRatioLoss(gamma=1.0).double(), by_loops, x, labels)


@pytest.mark.parametrize("point", PLACES, ids=str)
def test_the_log_ratio_lowers_d_and_raises_s_everywhere(point):
    x = features_with(*point)
    up, down = change(x, lambda x: log_ratio(*orthogonal_projection(x, LABELS)[1:]))
    assert up > 0 > down


def test_centered_opl_equals_loops_over_features_without_their_running_mean():
    loss = CenteredProjectionLoss(DIM, gamma=0.7, momentum=0.5).double()
    total, weight = 0.0, 0.0
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = batch()
        total, weight = 0.5 * total + 0.5 * features.mean(0), 0.5 * weight + 0.5
        mean = total / weight

        def by_loops(x, mean=mean, labels=labels):
            s, _, d = pairs_by_loops(x - mean, labels)
            return 1 - s + 0.7 * d

        same_by_value_and_gradient(loss, by_loops, features, labels)


def test_features_that_are_all_their_mean_have_no_direction():
    loss = CenteredProjectionLoss(DIM)
    x = torch.full((5, DIM), 1 / 3, requires_grad=True)
    loss(x, torch.arange(5) % 2).backward()
    assert not x.grad.any()


@pytest.mark.parametrize("gamma", [1.0, Ramp(0.3, 0.3, steps=2)])
def test_prototypes_equal_loops_over_samples_and_classes(gamma):
    loss = PrototypeProjectionLoss(DIM, num_classes=CLASSES, gamma=gamma, temperature=0.3, momentum=0.8).double()
    centers = torch.zeros(CLASSES, DIM, dtype=torch.float64)
    for seed in range(3):
        torch.manual_seed(seed)
        features, labels = batch(rows=6)
        centers = moved_by_loops(features, labels, centers, 0.8)
        value = gamma if isinstance(gamma, float) else 0.3
        same_by_value_and_gradient(
            loss,
            lambda x, c=centers, y=labels, g=value: prototypes_by_loops(x, y, c, g, 0.3),
            features,
            labels,
        )
        torch.testing.assert_close(loss.centers, centers, rtol=1e-12, atol=1e-12)
    left_out = labels.clone()
    left_out[::2] = -100
    loss.eval()
    torch.testing.assert_close(loss(features, left_out), loss(features[1::2], labels[1::2]))


VARIANTS = {
    "log-ratio": lambda many: LogRatioLoss(gamma=1.0, global_batch=many),
    "centered": lambda many: CenteredProjectionLoss(DIM, momentum=0.5, global_batch=many),
    "prototypes": lambda many: PrototypeProjectionLoss(DIM, num_classes=CLASSES, global_batch=many),
}


def refuse_together(rank: int, sizes: list[int]) -> None:
    compare_with_one_process(rank, sizes, VARIANTS)
    for build in (VARIANTS["prototypes"], VARIANTS["centered"]):
        loss = build(True)
        with pytest.raises((errors.OptionError, errors.DistributedError)):
            loss(torch.randn(4, DIM + (rank == 0)), torch.arange(4))
    with pytest.raises((errors.LabelError, errors.DistributedError)):
        VARIANTS["prototypes"](True)(torch.randn(4, DIM), torch.arange(4) + 100 * (rank == 0))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[8, 5], [5, 0, 8]], ids=str)
def test_several_processes_equal_one_in_value_gradient_and_state(tmp_path, sizes):
    together(refuse_together, len(sizes), tmp_path, sizes)


def test_the_balance_gives_opl_the_norm_of_the_other_gradient():
    labels = torch.tensor([0, 1, 2, 3, 0, -100])
    head, x = nn.Linear(5, 4, bias=False).double(), torch.randn(6, 5, dtype=torch.float64)
    for smoothing in (0.0, 0.2):
        slope = gradient_of(
            lambda x, e=smoothing: F.cross_entropy(head(x), labels, reduction="sum", label_smoothing=e), x
        )
        got = entropy_gradient(head(x), labels, head.weight, smoothing).double()
        torch.testing.assert_close(got, slope, rtol=1e-5, atol=1e-6)
    features = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    plain = OrthogonalProjectionLoss()(features, labels)
    balanced = GradientBalance()(plain, features, slope)
    assert balanced.item() == plain.item()
    (gradient,) = torch.autograd.grad(balanced, features)
    torch.testing.assert_close(gradient.norm(), slope.norm(), rtol=1e-6, atol=1e-9)


def balanced_by_loops(batches, slopes):
    """The gradients of OPL at the features of each batch, scaled by the mean norms over the batches so far."""
    sums, total, gradients = torch.zeros(2, dtype=torch.float64), 0.0, []
    for (x, labels), slope in zip(batches, slopes, strict=True):

        def opl_by_loops(x, labels=labels):
            s, d, _ = pairs_by_loops(x, labels)
            return 1 - s + 0.5 * d

        unscaled = gradient_of(opl_by_loops, x)
        norms = torch.stack([part.flatten().norm() for part in (slope, unscaled)])
        sums, total = MOMENTUM * sums + (1 - MOMENTUM) * norms, MOMENTUM * total + (1 - MOMENTUM)
        theirs, ours = sums / total
        gradients.append(theirs / ours * unscaled)
    return gradients


def three_batches(rows):
    torch.manual_seed(0)
    batches = [batch(rows=rows) for _ in range(3)]
    return batches, [torch.randn(rows, DIM, dtype=torch.float64) for _ in range(3)]


def compare_balance_with_loops(rank: int, world: int) -> None:
    many, mine = world > 1, slice(6 * rank, 6 * rank + 6)
    batches, slopes = three_batches(rows=6 * world)
    loss, balance = OrthogonalProjectionLoss(global_batch=many), GradientBalance(many).double()
    for (x, labels), slope, wanted in zip(batches, slopes, balanced_by_loops(batches, slopes), strict=True):
        x = x[mine].clone().requires_grad_()
        scaled = balance(loss(x, labels[mine]) / world, x, slope[mine])  # DDP takes the mean over the processes
        torch.testing.assert_close(torch.autograd.grad(scaled, x)[0], wanted[mine], rtol=1e-6, atol=1e-9)


def test_a_balanced_gradient_equals_loops_over_several_batches():
    compare_balance_with_loops(0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_a_balanced_gradient_of_several_processes_equals_loops_over_the_whole_batch(tmp_path, world):
    together(compare_balance_with_loops, world, tmp_path, world)
