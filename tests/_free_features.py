"""Unit features with given s and d, and how a small step of gradient descent on them changes s and d."""

import torch

from opl import orthogonal_projection

CLASSES, EACH = 30, 6


def features_with(
    same: float, other: float, classes: int = CLASSES, each: int = EACH, signed: bool = True
) -> torch.Tensor:
    """Unit features, class by class, with all cosines `same` within a class and `other` between classes.

    They are sums of a direction of all samples, one per class and one per sample, at right angles; without `signed`
    these directions are axes, so that no feature is negative.
    """
    size = 1 + classes * (1 + each)
    basis = torch.eye(size, dtype=torch.float64)
    if signed:
        generator = torch.Generator().manual_seed(0)
        basis = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))[0]
    shared, of_class, noise = basis[0], basis[1 : classes + 1], basis[classes + 1 :]
    centers = other**0.5 * shared + (same - other) ** 0.5 * of_class
    return centers.repeat_interleave(each, 0) + (1 - same) ** 0.5 * noise


LABELS = torch.arange(CLASSES).repeat_interleave(EACH)
PLACES = [(0.3, 0.25), (0.6, 0.3), (0.8, 0.66), (0.94, 0.3), (0.5, 0.1)]


def change(features: torch.Tensor, step_of) -> tuple[float, float]:
    """How s and d change in a small step of gradient descent on the features themselves."""
    x = features.clone().requires_grad_()
    (slope,) = torch.autograd.grad(step_of(x), x)
    before = orthogonal_projection(features, LABELS)
    after = orthogonal_projection(features - 1e-4 * slope, LABELS)
    return float(after.same - before.same), float(after.other - before.other)
