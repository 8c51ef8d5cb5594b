"""Features and labels to try a loss on, and gradients and cosines by another way."""

import torch

CLASSES, DIM = 5, 6


def batch(rows=12, dim=DIM, classes=CLASSES):
    return torch.randn(rows, dim, dtype=torch.float64), torch.randint(0, classes, (rows,))


def gradient_of(loss, x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(x), x)[0]


def cosine(a, b):
    return (a * b).sum() / (a.square().sum().sqrt() * b.square().sum().sqrt())


CENTERS = torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(3))
X, Y, MAPS = torch.randn(4, DIM), torch.tensor([0, 1, 0, 1]), torch.randn(4, CLASSES, 2, 2)
