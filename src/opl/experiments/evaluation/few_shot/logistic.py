"""Logistic regressions of many episodes: from features to weights, in the precision that the features require."""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from ....errors import OplWarning
from .checks import check_finite
from .chunks import WORK_BYTES, WORKERS, one_hot, slices
from .solver import Solution, empty_solution, solve

QUICK_LIMIT, LIMIT, NEWTON_LIMIT = 50, 500, 100  # iterations
NEWTON_SIZE = 1000  # equations; with more, a Newton step takes seconds
ROUNDING = 2e-5  # allowed change of a logit by float32 rounding


class Fit(NamedTuple):
    """The logistic regressions of E episodes: logits are `queries @ weights.mT + intercepts[:, None]`."""

    weights: Tensor
    """(E, way, D)."""
    intercepts: Tensor
    """(E, way)."""
    iterations: Tensor
    """(E,)."""
    converged: Tensor
    """(E,)."""


def fit(support: Tensor, labels: Tensor, way: int, C: float, tol: float) -> Fit:
    """Fit one chunk of episodes: in float32 if the features are float32 and it is precise enough, otherwise in float64.

    Args:
        support: (E, n, D), float32 or float64.
        labels: (E, n).
        way: number of classes.
        C: weight of the cross-entropy relative to the penalty.
        tol: allowed relative error of the weights.

    Example:
        >>> fit(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0, 1]]), way=3, C=1.0, tol=1e-5).weights.shape
        torch.Size([1, 3, 1])
    """
    mean, centered, gram = inner_products(support)
    check_finite(gram, support)
    targets = one_hot(labels, way, support.dtype)
    double = support.dtype == torch.float64
    solution = (_careful if double else _quick)(gram, targets, C, tol)
    weights = torch.bmm(solution.duals, centered)
    intercepts = solution.intercepts - torch.bmm(weights, mean.mT).squeeze(2)
    result = Fit(weights, intercepts, solution.iterations, solution.converged)
    rest = solution.converged.logical_not()
    if not double and rest.any():
        better = fit(support[rest].double(), labels[rest], way, C, tol)
        better.iterations.add_(result.iterations[rest])
        for mine, values in zip(result, better, strict=True):
            mine[rest] = values.to(mine)
    return result


def warn_unconverged(left: int) -> None:
    """Warn if some regressions did not converge."""
    if left:
        warnings.warn(
            f"{left} logistic regressions did not converge, and their predictions may be wrong: divide the features by "
            "their norm, or give a smaller C.",
            OplWarning,
            stacklevel=3,
        )


def inner_products(support: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of the rows (E, 1, D), the centered rows, and their inner products (E, n, n)."""
    mean = support.mean(1, keepdim=True)
    centered = support - mean
    return mean, centered, torch.bmm(centered, centered.mT)


def float32_suffices(gram: Tensor, C: float) -> Tensor:
    """Return (E,): whether inner products in this precision change no logit by more than `ROUNDING`."""
    return C * gram.diagonal(dim1=1, dim2=2).sum(1) * torch.finfo(gram.dtype).eps <= ROUNDING


def _quick(gram: Tensor, targets: Tensor, C: float, tol: float) -> Solution:
    """Solve the problems that low precision and few iterations suffice for."""
    which = float32_suffices(gram, C)
    if which.all():
        return solve(gram, targets, C, tol, QUICK_LIMIT)
    solution = empty_solution(targets)
    solution.put(which, solve(gram[which], targets[which], C, tol, QUICK_LIMIT))
    return solution


def _careful(gram: Tensor, targets: Tensor, C: float, tol: float) -> Solution:
    """Solve by conjugate gradients, then by Newton's method for the problems that did not converge."""
    solution = solve(gram, targets, C, tol, LIMIT)
    size = targets.shape[1] * (targets.shape[2] + 1)
    if size <= NEWTON_SIZE:
        rest = solution.converged.logical_not().nonzero().squeeze(1)
        for part in slices(len(rest), WORK_BYTES // WORKERS // (8 * size**2)):
            at = rest[part]
            solution.put(at, solve(gram[at], targets[at], C, tol, NEWTON_LIMIT, newton=True))
    return solution
