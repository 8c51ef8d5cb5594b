"""A weight of OPL relative to another loss: against loops in float64, and over several processes."""

import pytest
import torch
from _loss_features import CLASSES, DIM, batch, cosine, gradient_of
from torch import nn
from torch.nn import functional as F

import opl
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


def test_a_balanced_criterion_adds_a_gradient_as_large_as_its_own():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    x, y = torch.randn(12, 6), torch.arange(12) % 3
    gradients = []
    for weight, balanced in ((0.0, False), (2.0, True)):
        criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=weight, balanced=balanced)
        features = model[:2](x).detach().requires_grad_()
        hidden = model[2](features)
        gradients.append(torch.autograd.grad(criterion(hidden, y), features)[0])
    base, both = gradients
    torch.testing.assert_close((both - base).norm(), 2 * base.norm(), rtol=1e-4, atol=1e-7)


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


def balanced_criterion(weight, **options):
    model = nn.Linear(DIM, CLASSES, bias=False).double()
    model.weight.data.copy_(weight)
    criterion = opl.regularize(nn.CrossEntropyLoss(), model, weight=2.0, balanced=True, **options).double()
    return lambda x, labels: gradient_of(lambda x: criterion(model(x), labels), x)


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


def test_fabric_in_mixed_precision_allows_no_balance_and_a_sentence_says_so():
    fabric = pytest.importorskip("lightning_fabric").Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    criterion = opl.regularize(nn.CrossEntropyLoss(), net, balanced=True)
    logits = fabric.setup_module(net)(torch.randn(12, 6))
    with pytest.raises(opl.errors.OptionError, match=r"balanced=True .*fabric\.backward.*give a weight"):
        criterion(logits, torch.arange(12) % 3)
