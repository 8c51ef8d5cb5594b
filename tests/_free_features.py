"""Unit features with given s and d, and how a small step of gradient descent on them changes s and d."""

import torch

from opl import orthogonal_projection

CLASSES, EACH, DIM = 30, 6, 256


def features_with(same: float, other: float) -> torch.Tensor:
    """Unit features, class by class, with mean cosines near `same` within a class and near `other` between classes."""
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(DIM, CLASSES * (EACH + 1) + 1, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(vectors)[0].T
    shared, own, noise = basis[0], basis[1 : CLASSES + 1], basis[CLASSES + 1 :]
    of_class = other**0.5 * shared + (same - other) ** 0.5 * own
    return of_class.repeat_interleave(EACH, 0) + (1 - same) ** 0.5 * noise


LABELS = torch.arange(CLASSES).repeat_interleave(EACH)
PLACES = [(0.3, 0.25), (0.6, 0.3), (0.8, 0.66), (0.94, 0.3), (0.5, 0.1)]


def change(features: torch.Tensor, step_of) -> tuple[float, float]:
    """How s and d change in a small step of gradient descent on the features themselves."""
    x = features.clone().requires_grad_()
    (slope,) = torch.autograd.grad(step_of(x), x)
    before = orthogonal_projection(features, LABELS)
    after = orthogonal_projection(features - 1e-4 * slope, LABELS)
    return float(after.same - before.same), float(after.other - before.other)
