"""Features and labels to try a loss on; gradients, cosines and OPL by other means; several processes vs one."""

import copy

import torch
import torch.distributed as dist

CLASSES, DIM = 5, 6


def batch(rows=12, dim=DIM, classes=CLASSES):
    return torch.randn(rows, dim, dtype=torch.float64), torch.randint(0, classes, (rows,))


def gradient_of(loss, x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(x), x)[0]


def cosine(a, b):
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


def pairs_by_loops(features, labels):
    """s, d as the mean of |cos|, and d signed, over ordered pairs."""
    same, other = [], []
    for i in range(len(labels)):
        for j in range(len(labels)):
            if i != j:
                (same if labels[i] == labels[j] else other).append(cosine(features[i], features[j]))
    return sum(same) / len(same), sum(map(abs, other)) / len(other), sum(other) / len(other)


def same_by_value_and_gradient(loss, by_loops, features, labels):
    twin = copy.deepcopy(loss)
    torch.testing.assert_close(loss(features, labels), by_loops(features).detach(), rtol=1e-10, atol=1e-12)
    wanted = gradient_of(by_loops, features)
    torch.testing.assert_close(gradient_of(lambda x: twin(x, labels), features), wanted, rtol=1e-8, atol=1e-12)


def compare_with_one_process(rank: int, sizes: list[int], builders: dict) -> None:
    """Check value, gradient and state of losses over uneven processes, vs one process with the whole batch."""
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    for name, build in builders.items():
        alone, many = build(False).double(), build(True).double()
        for seed in range(3):
            torch.manual_seed(seed)
            x, labels = batch(rows=sum(sizes))
            labels[3] = -100
            whole, mine = x.clone().requires_grad_(), x[rows].clone().requires_grad_()
            wanted, got = alone.diagnose(whole, labels), many.diagnose(mine, labels[rows])
            for expected, actual in zip(wanted, got, strict=True):
                if expected is not None:
                    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12, equal_nan=True, msg=name)
            (gradient,) = torch.autograd.grad(wanted.loss, whole)
            (share,) = torch.autograd.grad(got.loss, mine)
            torch.testing.assert_close(share / len(sizes), gradient[rows], rtol=1e-9, atol=1e-12, msg=name)
        torch.testing.assert_close(many.state_dict(), alone.state_dict(), rtol=1e-12, atol=1e-14)
        for value in many.state_dict().values():
            copies = [torch.empty_like(value) for _ in sizes]
            dist.all_gather(copies, value)
            assert all(torch.equal(copies[0], twin) for twin in copies), name


CENTERS = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(3))
X, Y, MAPS = torch.randn(4, DIM), torch.tensor([0, 1, 0, 1]), torch.randn(4, CLASSES, 2, 2)
