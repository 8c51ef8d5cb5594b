"""A weight of OPL relative to another loss: against loops in float64, and over several processes."""

import pytest
import torch
from _loss_features import CLASSES, DIM, batch, cosine, gradient_of
from torch import nn
from torch.nn import functional as F

from _gloo import together
from opl import OrthogonalProjectionLoss
from opl.losses._balance import GradientBalance, entropy_gradient

MOMENTUM = 0.99


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
    balanced = GradientBalance()(plain, (features,), (slope,))
    assert balanced.item() == plain.item()
    (gradient,) = torch.autograd.grad(balanced, features)
    torch.testing.assert_close(gradient.norm(), slope.norm(), rtol=1e-6, atol=1e-9)


def opl_by_loops(x, labels, gamma=0.5):
    same, other = [], []
    for i in range(len(labels)):
        for j in range(len(labels)):
            if i != j:
                (same if labels[i] == labels[j] else other).append(cosine(x[i], x[j]))
    return 1 - sum(same) / len(same) + gamma * sum(map(abs, other)) / len(other)


def entropy_by_loops(x, labels, weight):
    rows = [torch.log(torch.exp(row @ weight.T).sum()) - row @ weight[y] for row, y in zip(x, labels, strict=True)]
    return sum(rows) / len(rows)


def balanced_by_loops(batches, weight):
    """The gradients of CE + 2 OPL at the features of each batch, with a mean of the norms over the batches so far."""
    sums, total, found = torch.zeros(2, dtype=torch.float64), 0.0, []
    for x, labels in batches:
        base = gradient_of(lambda x, y=labels: entropy_by_loops(x, y, weight), x)
        own = gradient_of(lambda x, y=labels: opl_by_loops(x, y), x)
        norms = torch.stack([part.flatten().norm() for part in (base, own)])
        sums, total = MOMENTUM * sums + (1 - MOMENTUM) * norms, MOMENTUM * total + (1 - MOMENTUM)
        theirs, ours = sums / total
        found.append(base + 2 * theirs / ours * own)
    return found


def three_batches(rows):
    torch.manual_seed(0)
    return [batch(rows=rows) for _ in range(3)], torch.randn(CLASSES, DIM, dtype=torch.float64)


def balanced_criterion(weight, global_batch=False):
    """The gradient of cross-entropy plus 2 times OPL, balanced, at the features."""
    projection, balance = OrthogonalProjectionLoss(global_batch=global_batch), GradientBalance(global_batch).double()

    def loss(x, labels):
        base = F.cross_entropy(x @ weight.T, labels)
        slopes = torch.autograd.grad(base, (x,), retain_graph=True)
        return base + 2 * balance(projection(x, labels), (x,), slopes)

    return lambda x, labels: gradient_of(lambda x: loss(x, labels), x)


def test_a_balanced_criterion_equals_loops_over_several_batches():
    batches, weight = three_batches(rows=12)
    gradient = balanced_criterion(weight)
    for (x, labels), wanted in zip(batches, balanced_by_loops(batches, weight), strict=True):
        torch.testing.assert_close(gradient(x, labels), wanted, rtol=1e-6, atol=1e-9)


def compare_with_loops(rank: int, world: int) -> None:
    batches, weight = three_batches(rows=6 * world)
    gradient, mine = balanced_criterion(weight, global_batch=True), slice(6 * rank, 6 * rank + 6)
    for (x, labels), wanted in zip(batches, balanced_by_loops(batches, weight), strict=True):
        share = gradient(x[mine], labels[mine]) / world  # DDP takes the mean over the processes
        torch.testing.assert_close(share, wanted[mine], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("world", [2, 3])
def test_a_balanced_criterion_of_several_processes_equals_loops_over_the_whole_batch(tmp_path, world):
    together(compare_with_loops, world, tmp_path, world)
