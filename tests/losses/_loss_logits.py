"""Logits and labels to try a loss on, the focal loss by its definition, and calls yet to be made."""

import torch

GAMMAS = (0.5, 1.0, 2.0, 5.0)
FORMS = ("softmax", "sigmoid")


def batch(seed: int = 0, rows: int = 20, classes: int = 6):
    chance = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, dtype=torch.float64, generator=chance)
    return logits.requires_grad_(), torch.randint(classes, (rows,), generator=chance)


def assert_same(got, expected, at, rtol=1e-10):
    """The same values, and the same gradient of a sum that tells samples apart."""
    torch.testing.assert_close(got, expected, rtol=rtol, atol=1e-14)
    weights = torch.arange(1, got.numel() + 1, dtype=got.dtype).view(got.shape)
    gradients = [torch.autograd.grad((weights * values).sum(), at, retain_graph=True)[0] for values in (got, expected)]
    torch.testing.assert_close(*gradients, rtol=rtol, atol=1e-12)


def focal_by_definition(logits, labels, gamma, form):
    """(B,) losses, a sample and a class at a time."""
    values = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        if form == "softmax":
            right = [row.exp()[label] / row.exp().sum()]
        else:
            p = 1 / (1 + (-row).exp())
            right = [p[j] if j == label else 1 - p[j] for j in range(len(row))]
        values.append(sum(-((1 - q) ** gamma) * q.log() for q in right))
    return torch.stack(values)


Z, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])


def build(kind, *arguments, **options):
    return lambda: kind(*arguments, **options)


def call(loss, *arguments, **options):
    return lambda: loss(*arguments, **options)
