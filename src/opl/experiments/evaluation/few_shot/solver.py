"""Multinomial logistic regression of many small problems at once, on their Gram matrices.

The best weights are sums of the support's features, so a problem of n rows needs its n x n inner products and no
feature. A coefficient for each row and class (`duals`) and the logits of the rows move together: a step of conjugate
gradients costs one product with the Gram matrix, and the search along its direction costs none.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

SLOPE_LEFT = 0.25  # a step has the right length where it leaves at most this share of the slope
SEARCHES = 30


class Solution(NamedTuple):
    """Of E problems: `duals` (E, way, n), `intercepts` (E, way), `iterations` and `converged` (E,)."""

    duals: Tensor
    intercepts: Tensor
    iterations: Tensor
    converged: Tensor

    def put(self, where: Tensor, other: "Solution") -> None:
        """Write the answers of some problems into those of all; iterations add up."""
        other.iterations.add_(self.iterations[where])
        for mine, theirs in zip(self, other, strict=True):
            mine[where] = theirs


def empty_solution(targets: Tensor) -> Solution:
    """Zeros, of no iterations."""
    zeros = torch.zeros_like(targets)
    counts = torch.zeros(len(targets), dtype=torch.long, device=targets.device)
    return Solution(zeros, zeros[:, :, 0].clone(), counts, counts.bool())


def solve(gram: Tensor, targets: Tensor, C: float, tol: float, limit: int, newton: bool = False) -> Solution:
    """Minimize `½‖W‖² + C Σ cross-entropy` for each problem, to `‖gradient‖ <= tol ‖W‖` or to the last digits.

    The weights are `W = duals @ rows`. As the objective bends at least as `½‖W‖²` does, W is then within about
    `tol ‖W‖` of the best. An answer is kept when its own problem is done, so it does not depend on the others.

    Args:
        gram: (E, n, n), inner products of the rows, their mean taken off.
        targets: (E, way, n), 1 where the row is of the class and 0 elsewhere.
        C: what the cross-entropy counts.
        tol: share of ‖W‖ that may be wrong.
        limit: iterations at most; what is not done by then has `converged` False, and its last duals.
        newton: solve a system of `way (n + 1)` equations for each step, for problems on which gradients crawl.

    Example:
        >>> gram = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]], dtype=torch.float64)
        >>> solve(gram, torch.eye(2, dtype=torch.float64)[None], C=1.0, tol=1e-6, limit=50).duals
        tensor([[[ 0.2606, -0.2606],
                 [-0.2606,  0.2606]]], dtype=torch.float64)
    """
    search = (_Newton if newton else _Search).start(gram, targets, C)
    found = empty_solution(targets)
    for iteration in range(limit + 1):
        search.record(found, search.done(tol), iteration)
        live = found.converged[search.problem].logical_not()
        left = int(live.sum())
        if not left or iteration == limit:
            break
        if 2 * left <= len(live):
            search.keep(live)
            live = live[live]
        search.step(live)
    search.record(found, torch.ones_like(search.problem, dtype=torch.bool), limit, final=False)
    return found


@dataclass
class _Search:
    """Where every problem stands. Shapes are (E, way, n), (E, way, 1) for intercepts and (E, 1, 1) for numbers."""

    C: float
    problem: Tensor  # (E,), its place in the answer
    gram: Tensor
    targets: Tensor
    noise: Tensor  # what rounding alone can make of `size`
    duals: Tensor
    intercepts: Tensor
    logits: Tensor
    chances: Tensor
    residual: Tensor  # the gradient by W, as coefficients of the rows
    slack: Tensor  # the gradient by the intercepts
    size: Tensor  # squared length of the gradient
    direction: Tensor  # of the duals
    turn: Tensor  # of the intercepts
    along: Tensor  # direction @ gram
    slope: Tensor  # of the objective in the direction

    @classmethod
    def start(cls, gram: Tensor, targets: Tensor, C: float) -> "_Search":
        """All weights 0, looking downhill."""
        _, way, n = targets.shape
        zeros, chances = torch.zeros_like(targets), torch.full_like(targets, 1 / way)
        residual = C * (chances - targets)
        slack = residual.sum(2, keepdim=True)
        pulled, turn = torch.bmm(residual, gram), -slack * (way / (C * n))
        size = _inner(residual, pulled) - _inner(slack, turn)
        trace = gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        noise = 100 * torch.finfo(gram.dtype).eps ** 2 * (C**2 * way * trace + C * way**2)
        problem = torch.arange(len(gram), device=gram.device)
        at = (zeros, zeros[:, :, :1], zeros, chances, residual, slack, size)
        return cls(C, problem, gram, targets, noise, *at, -residual, turn, -pulled, -size)

    def keep(self, which: Tensor) -> None:
        """Drop the other problems."""
        for field in fields(self):
            if field.name != "C":
                setattr(self, field.name, getattr(self, field.name)[which])

    def done(self, tol: float) -> Tensor:
        """(E,) which problems are solved."""
        weights = _inner(self.duals, self.logits - self.intercepts)
        done = (self.size <= tol**2 * weights + self.noise)[:, 0, 0]
        if done.any():  # intercepts cost nothing, so where all chances are near 0 or 1 they need a smaller gradient
            bend = torch.addcmul(self.chances, self.chances, self.chances, value=-1).sum(2, keepdim=True)
            least = 10 * torch.finfo(bend.dtype).eps * self.targets.shape[2]
            done &= (self.slack.abs() <= self.C * (tol * bend + least)).all(1)[:, 0]
        return done

    def record(self, found: Solution, which: Tensor, iteration: int, final: bool = True) -> None:
        """Write down answers, of problems that had none."""
        which = which & found.converged[self.problem].logical_not()
        if which.any():
            at = self.problem[which]
            found.duals[at], found.intercepts[at] = self.duals[which], self.intercepts[which, :, 0]
            found.iterations[at], found.converged[at] = iteration, final

    def step(self, live: Tensor) -> None:
        """Go down in the direction, by Newton's steps between brackets, then choose the next one."""
        start, before = (self.duals, self.intercepts, self.logits), self.slope
        last = self.residual, self.slack
        shift = self.along + self.turn
        length = self._length(shift, self.slope)
        low, high = torch.zeros_like(length), torch.full_like(length, torch.inf)
        for _ in range(SEARCHES):
            self._move(start, length, shift)
            wrong = live[:, None, None] & (self.slope.abs() > SLOPE_LEFT * before.abs())
            if not wrong.any():
                break
            low = torch.where(self.slope < 0, length, low)
            high = torch.where(self.slope > 0, length, high)
            better = length + self._length(shift, self.slope)
            middle = torch.where(high.isinf(), 2 * low, (low + high) / 2)
            better = torch.where((better > low) & (better < high), better, middle)
            length = torch.where(wrong, better, length)
        self._aim(*last)

    def _length(self, shift: Tensor, slope: Tensor) -> Tensor:
        """Newton's step to where the slope is 0."""
        weighed = self.chances * shift
        spread = _inner(weighed, shift) - weighed.sum(1, keepdim=True).square().sum(2, keepdim=True)
        return -slope / (_inner(self.direction, self.along) + self.C * spread)

    def _move(self, start: tuple[Tensor, Tensor, Tensor], length: Tensor, shift: Tensor) -> None:
        duals, intercepts, logits = start
        self.duals = torch.addcmul(duals, length, self.direction)
        self.intercepts = torch.addcmul(intercepts, length, self.turn)
        self.logits = torch.addcmul(logits, length, shift)
        self.chances = self.logits.softmax(1)
        surprise = self.chances - self.targets
        self.residual = torch.add(self.duals, surprise, alpha=self.C)
        self.slack = self.C * surprise.sum(2, keepdim=True)
        self.slope = _inner(self.residual, self.along) + _inner(self.slack, self.turn)

    def _aim(self, residual: Tensor, slack: Tensor) -> None:
        """The next direction, by Polak and Ribière; straight down where that would not go down."""
        before = self.size
        pulled, eased = self._gradient()
        memory = ((self.size - _inner(residual, pulled) - _inner(slack, eased)) / before).clamp(min=0)
        slope = memory * self.slope - self.size
        down = slope < 0
        memory, self.slope = torch.where(down, memory, 0), torch.where(down, slope, -self.size)
        self.direction = torch.addcmul(-self.residual, memory, self.direction)
        self.along = torch.addcmul(-pulled, memory, self.along)
        self.turn = torch.addcmul(-eased, memory, self.turn)

    def _gradient(self) -> tuple[Tensor, Tensor]:
        """Residual @ gram, and the intercepts' part by how much it bends at first; their size is kept."""
        _, way, n = self.targets.shape
        pulled, eased = torch.bmm(self.residual, self.gram), self.slack * (way / (self.C * n))
        self.size = _inner(self.residual, pulled) + _inner(self.slack, eased)
        return pulled, eased


class _Newton(_Search):
    """The same search, in directions that solve the problem as if it were quadratic."""

    def _aim(self, residual: Tensor, slack: Tensor) -> None:
        pulled, eased = self._gradient()
        step = self._solution()
        direction, turn = step[..., :-1], step[..., -1:]
        along = torch.bmm(direction, self.gram)
        slope = _inner(self.residual, along) + _inner(self.slack, turn)
        down = slope < 0
        self.direction = torch.where(down, direction, -self.residual)
        self.along, self.turn = torch.where(down, along, -pulled), torch.where(down, turn, -eased)
        self.slope = torch.where(down, slope, -self.size)

    def _solution(self) -> Tensor:
        """(E, way, n + 1): the steps of duals and intercepts after which residual and sum of duals would be 0."""
        E, way, n = self.targets.shape
        same = torch.eye(way, dtype=self.gram.dtype, device=self.gram.device)
        chances = self.chances.mT
        bend = self.C * (torch.diag_embed(chances) - chances[..., None] * chances[..., None, :])  # (E, n, way, way)
        rows = torch.cat([self.gram, torch.ones_like(self.gram[..., :1])], dim=2)
        system = self.gram.new_zeros(E, way, n + 1, way, n + 1)
        system[:, :, :n] = bend.transpose(1, 2)[..., None] * rows[:, None, :, None]
        system[:, :, :n, :, :n] += same[:, None, :, None] * torch.eye(n).to(same)[:, None]
        system[:, :, n, :, :n] = same[:, :, None]
        system[:, :, n, :, n] = 1  # intercepts that add up to 0: a shift of all of them changes nothing
        wanted = -torch.cat([self.residual, self.duals.sum(2, keepdim=True)], dim=2)
        size = way * (n + 1)
        step: Tensor = torch.linalg.solve_ex(system.view(E, size, size), wanted.reshape(E, size))[0]
        return step.view(E, way, n + 1)


def _inner(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((1, 2), keepdim=True)
