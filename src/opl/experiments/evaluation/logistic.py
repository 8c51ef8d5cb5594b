"""Multinomial logistic regression of many small problems at once, on their Gram matrices.

The optimal weights are linear combinations of the support features, so a problem with n rows needs only their n x n
inner products, not the features. The coefficients of each row and class (`duals`) and the logits of the rows are
updated together: a conjugate-gradient step costs one product with the Gram matrix, and its line search costs none.

`fit` computes in the precision that the features require: float32 where its rounding is negligible, otherwise float64.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import FeatureError

QUICK_LIMIT, LIMIT = 50, 2000  # iterations in float32 and in float64
ROUNDING = 2e-5  # allowed change of a logit by float32 rounding
SLOPE_LEFT = 0.25  # the line search ends when at most this fraction of the slope is left
SEARCHES = 30


class Fit(NamedTuple):
    """The logistic regressions of E episodes: logits are `queries @ weights.mT + intercepts[:, None]`."""

    weights: Tensor
    """(E, way, D); while a problem is solved, the coefficients of its rows (`duals`), (E, way, n)."""
    intercepts: Tensor
    """(E, way)."""
    iterations: Tensor
    """(E,)."""
    converged: Tensor
    """(E,)."""

    def put(self, rows: Tensor, update: "Fit") -> None:
        """Replace the fits of some problems; iteration counts are added."""
        update.iterations.add_(self.iterations[rows])
        for values, replacement in zip(self, update, strict=True):
            values[rows] = replacement.to(values)


def fit(support: Tensor, labels: Tensor, way: int, C: float = 1.0, tol: float = 1e-5) -> Fit:
    """Minimize `½‖W‖² + C Σ cross-entropy` in each episode; the intercepts are not penalized and sum to 0.

    For two classes scikit-learn penalizes the difference w of the weights, `½‖w‖²`, and so does this function: W is
    ±w/2. Float32 features are processed in float32 if its rounding is negligible and the problem converges quickly,
    otherwise in float64. `tol` is the allowed relative error of the weights.

    Example:
        >>> result = fit(torch.tensor([[[0.0], [1.0]]]), torch.tensor([[0, 1]]), way=2)
        >>> result.weights.flatten(), result.intercepts
        (tensor([-0.2223,  0.2223]), tensor([[ 0.1112, -0.1112]]))
    """
    penalized = C / (2 if way == 2 else 1)  # relative to `½‖W‖²`: for two classes, `½‖w‖²` equals `‖W‖²`
    mean, centered, gram = inner_products(support)
    targets = one_hot(labels, way, support.dtype)
    double = support.dtype == torch.float64
    precise = torch.ones_like(mean[:, 0, 0], dtype=torch.bool) if double else float32_suffices(gram, penalized)
    solution = empty_solution(targets)
    solution.put(precise, solve(gram[precise], targets[precise], penalized, tol, LIMIT if double else QUICK_LIMIT))
    weights = torch.bmm(solution.weights, centered)
    intercepts = solution.intercepts - torch.bmm(weights, mean.mT).squeeze(2)
    result = Fit(weights, intercepts, solution.iterations, solution.converged)
    unsolved = solution.converged.logical_not()
    if not double and unsolved.any():
        result.put(unsolved, fit(support[unsolved].double(), labels[unsolved], way, C, tol))
    return result


def inner_products(support: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of the rows (E, 1, D), the centered rows, and their inner products (E, n, n).

    Raises:
        FeatureError: an inner product is not finite, which is cheaper to check than every feature.
    """
    mean = support.mean(1, keepdim=True)
    centered = support - mean
    gram = torch.bmm(centered, centered.mT)
    if not gram.isfinite().all():
        raise not_finite_error(support)
    return mean, centered, gram


def not_finite_error(support: Tensor, queries: Tensor | None = None) -> FeatureError:
    """Return the error for features with a sum that is not finite."""
    for name, features in (("the support", support), ("the queries", queries)):
        if features is not None and not features.isfinite().all():
            return FeatureError(f"{name} contains a value that is not finite: check the model that made the features.")
    return FeatureError("the features are too large to be multiplied: divide them by their norm, or pass float64.")


def one_hot(labels: Tensor, way: int, dtype: torch.dtype) -> Tensor:
    """Return (E, way, n), 1 where the row belongs to the class, from labels (E, n)."""
    return (labels[:, None] == torch.arange(way, device=labels.device)[:, None]).to(dtype)


def float32_suffices(gram: Tensor, C: float) -> Tensor:
    """Return (E,): whether inner products in this precision change no logit by more than `ROUNDING`."""
    return C * gram.diagonal(dim1=1, dim2=2).sum(1) * torch.finfo(gram.dtype).eps <= ROUNDING


def empty_solution(targets: Tensor) -> Fit:
    """Return zero solutions with zero iterations."""
    zeros = torch.zeros_like(targets)
    counts = torch.zeros(len(targets), dtype=torch.long, device=targets.device)
    return Fit(zeros, zeros[:, :, 0].clone(), counts, counts.bool())


def solve(gram: Tensor, targets: Tensor, C: float, tol: float, limit: int) -> Fit:
    """Minimize `½‖W‖² + C Σ cross-entropy` for each problem, until `‖gradient‖ <= tol ‖W‖` or rounding dominates.

    The weights are `W = duals @ rows`. The objective is at least as convex as `½‖W‖²`, so W is then within about
    `tol ‖W‖` of the optimum. Each solution is stored when its problem converges, so it does not depend on the other
    problems.

    Args:
        gram: (E, n, n), inner products of the centered rows.
        targets: (E, way, n), 1 where the row belongs to the class and 0 elsewhere.
        C: weight of the cross-entropy.
        tol: allowed error as a fraction of ‖W‖.
        limit: maximum number of iterations; unfinished problems have `converged` False, and their last duals.

    Example:
        >>> gram = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]], dtype=torch.float64)
        >>> solve(gram, torch.eye(2, dtype=torch.float64)[None], C=1.0, tol=1e-6, limit=50).weights
        tensor([[[ 0.2606, -0.2606],
                 [-0.2606,  0.2606]]], dtype=torch.float64)
    """
    search = _Search.start(gram, targets, C)
    solution = empty_solution(targets)
    for iteration in range(limit + 1):
        search.record(solution, search.done(tol), iteration)
        live = solution.converged[search.problem].logical_not()
        left = int(live.sum())
        if not left or iteration == limit:
            break
        if 2 * left <= len(live):
            search.keep(live)
            live = live[live]
        search.step(live)
    search.record(solution, torch.ones_like(search.problem, dtype=torch.bool), limit, final=False)
    return solution


@dataclass
class _Search:
    """The state of all problems. Shapes are (E, way, n), (E, way, 1) for intercepts and (E, 1, 1) for scalars."""

    C: float
    problem: Tensor  # (E,), index of the problem in the solution
    gram: Tensor
    targets: Tensor
    noise: Tensor  # the value of `size` that rounding errors alone can cause
    duals: Tensor
    intercepts: Tensor
    logits: Tensor
    probabilities: Tensor
    residual: Tensor  # gradient with respect to W, as coefficients of the rows
    slack: Tensor  # gradient with respect to the intercepts
    size: Tensor  # squared norm of the gradient
    direction: Tensor  # search direction of the duals
    intercept_direction: Tensor  # search direction of the intercepts
    logit_direction: Tensor  # direction @ gram
    slope: Tensor  # derivative of the objective along the direction

    @classmethod
    def start(cls, gram: Tensor, targets: Tensor, C: float) -> "_Search":
        """Start at zero weights, in the direction of steepest descent."""
        _, way, n = targets.shape
        zeros, probabilities = torch.zeros_like(targets), torch.full_like(targets, 1 / way)
        residual = C * (probabilities - targets)
        slack = residual.sum(2, keepdim=True)
        residual_gram, intercept_direction = torch.bmm(residual, gram), -slack * (way / (C * n))
        size = _inner(residual, residual_gram) - _inner(slack, intercept_direction)
        trace = gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        noise = 100 * torch.finfo(gram.dtype).eps ** 2 * (C**2 * way * trace + C * way**2)
        problem = torch.arange(len(gram), device=gram.device)
        point = (zeros, zeros[:, :, :1], zeros, probabilities, residual, slack, size)
        return cls(C, problem, gram, targets, noise, *point, -residual, intercept_direction, -residual_gram, -size)

    def keep(self, selected: Tensor) -> None:
        """Keep only the selected problems."""
        for field in fields(self):
            if field.name != "C":
                setattr(self, field.name, getattr(self, field.name)[selected])

    def done(self, tol: float) -> Tensor:
        """Return (E,): which problems are solved."""
        weights = _inner(self.duals, self.logits - self.intercepts)
        done = (self.size <= tol**2 * weights + self.noise)[:, 0, 0]
        if done.any():  # intercepts are not penalized: if all probabilities are near 0 or 1, require a smaller gradient
            p = self.probabilities
            curvature = torch.addcmul(p, p, p, value=-1).sum(2, keepdim=True)
            least = 10 * torch.finfo(curvature.dtype).eps * self.targets.shape[2]
            done &= (self.slack.abs() <= self.C * (tol * curvature + least)).all(1)[:, 0]
        return done

    def record(self, solution: Fit, selected: Tensor, iteration: int, final: bool = True) -> None:
        """Store the selected solutions, for problems that have none yet."""
        selected = selected & solution.converged[self.problem].logical_not()
        if selected.any():
            rows = self.problem[selected]
            solution.weights[rows], solution.intercepts[rows] = self.duals[selected], self.intercepts[selected, :, 0]
            solution.iterations[rows], solution.converged[rows] = iteration, final

    def step(self, live: Tensor) -> None:
        """Minimize along the direction by bracketed Newton steps, then choose the next direction."""
        start, before = (self.duals, self.intercepts, self.logits), self.slope
        last = self.residual, self.slack
        shift = self.logit_direction + self.intercept_direction
        length = self._length(shift, self.slope)
        low, high = torch.zeros_like(length), torch.full_like(length, torch.inf)
        for _ in range(SEARCHES):
            self._move(start, length, shift)
            unfinished = live[:, None, None] & (self.slope.abs() > SLOPE_LEFT * before.abs())
            if not unfinished.any():
                break
            low = torch.where(self.slope < 0, length, low)
            high = torch.where(self.slope > 0, length, high)
            better = length + self._length(shift, self.slope)
            middle = torch.where(high.isinf(), 2 * low, (low + high) / 2)
            better = torch.where((better > low) & (better < high), better, middle)
            length = torch.where(unfinished, better, length)
        self._aim(*last)

    def _length(self, shift: Tensor, slope: Tensor) -> Tensor:
        """Return the Newton step to where the slope is 0."""
        weighted = self.probabilities * shift
        spread = _inner(weighted, shift) - weighted.sum(1, keepdim=True).square().sum(2, keepdim=True)
        return -slope / (_inner(self.direction, self.logit_direction) + self.C * spread)

    def _move(self, start: tuple[Tensor, Tensor, Tensor], length: Tensor, shift: Tensor) -> None:
        duals, intercepts, logits = start
        self.duals = torch.addcmul(duals, length, self.direction)
        self.intercepts = torch.addcmul(intercepts, length, self.intercept_direction)
        self.logits = torch.addcmul(logits, length, shift)
        self.probabilities = self.logits.softmax(1)
        error = self.probabilities - self.targets
        self.residual = torch.add(self.duals, error, alpha=self.C)
        self.slack = self.C * error.sum(2, keepdim=True)
        self.slope = _inner(self.residual, self.logit_direction) + _inner(self.slack, self.intercept_direction)

    def _aim(self, residual: Tensor, slack: Tensor) -> None:
        """Choose the next direction by Polak-Ribière; use steepest descent if that is no descent direction."""
        before, (_, way, n) = self.size, self.targets.shape
        residual_gram, scaled_slack = torch.bmm(self.residual, self.gram), self.slack * (way / (self.C * n))
        self.size = _inner(self.residual, residual_gram) + _inner(self.slack, scaled_slack)
        overlap = _inner(residual, residual_gram) + _inner(slack, scaled_slack)
        memory = ((self.size - overlap) / before).clamp(min=0)
        slope = memory * self.slope - self.size
        down = slope < 0
        memory, self.slope = torch.where(down, memory, 0), torch.where(down, slope, -self.size)
        self.direction = torch.addcmul(-self.residual, memory, self.direction)
        self.logit_direction = torch.addcmul(-residual_gram, memory, self.logit_direction)
        self.intercept_direction = torch.addcmul(-scaled_slack, memory, self.intercept_direction)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((1, 2), keepdim=True)
