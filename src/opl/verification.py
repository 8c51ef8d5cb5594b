"""Compare any implementation of OPL with the definition, on batches that tell implementations apart."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .errors import OptionError
from .functional import FORM, GAMMA, IGNORE_INDEX, Form, check_options, orthogonal_projection

TOLERANCE = 1e-4  # relative; implementations add small numbers to denominators


class Fault(NamedTuple):
    """A way in which an implementation may differ from the definition: one step of `_parts`, replaced."""

    name: str
    step: str
    choice: str


FAULTS = (
    Fault("signed d: the mean of the cosines, not of their absolute values", "other", "mean"),
    Fault("absolute value of the sum: |mean of cos| for d, not the mean of |cos|", "other", "abs_mean"),
    Fault("squared cosines in d", "other", "squared"),
    Fault("mean of |cos| in d", "other", "mean_abs"),
    Fault("negative cosines count as 0 in d", "other", "clamped"),
    Fault("no normalization: inner products, not cosines", "unit", "raw"),
    Fault("normalization over the batch, not over each feature vector", "unit", "columns"),
    Fault("a sample is its own positive", "itself", "same"),
    Fault("a sample is its own negative", "itself", "other"),
    Fault("mask by matrix product: the product of two labels, not their equality", "mask", "product"),
    Fault("sums over pairs, not means", "mean", "sums"),
    Fault("divided by the number of all pairs, not by the pairs of each kind", "mean", "all"),
    Fault("mean per sample first, then over samples", "mean", "rows"),
    Fault("absolute values of same-class cosines in s", "same", "absolute"),
    Fault("s with the wrong sign: the loss rises with s", "sign", "plus"),
    Fault("the 1 of 1 - s is missing", "sign", "shifted"),
    Fault("gamma weighs 1 - s, not d", "weight", "swapped"),
)


class Comparison(NamedTuple):
    """The loss of one batch, by the definition and by the implementation."""

    batch: str
    expected: float
    actual: float


class Verification(NamedTuple):
    """The result of `opl.verify`: `faults` is empty if the implementation equals the definition."""

    faults: tuple[str, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def equal(self) -> bool:
        """Whether the implementation equals the definition, in value and gradient."""
        return not self.faults

    def __str__(self) -> str:
        """Return what differs, with the numbers of all batches."""
        lines = [f"differs: {fault}" for fault in self.faults] or ["equal to the definition"]
        rows = [f"  {row.batch:<22}{row.expected:>12.6f}{row.actual:>12.6f}" for row in self.comparisons]
        return "\n".join([*lines, f"  {'batch':<22}{'definition':>12}{'given':>12}", *rows])


def verify(loss_function: Callable[..., Any], *, gamma: float = GAMMA, form: Form = FORM) -> Verification:
    """Compare a loss of features and labels with OPL, and name what differs.

    Args:
        loss_function: called with (B, D) features and (B,) class ids; returns the loss, or a tuple that begins with it.
        gamma: the weight of d that it should have.
        form: how it should compute d, see `opl.orthogonal_projection`.

    Example:
        >>> from opl import OrthogonalProjectionLoss
        >>> verify(OrthogonalProjectionLoss()).equal
        True
        >>> print(verify(OrthogonalProjectionLoss(form="mean")))
        differs: signed d: the mean of the cosines, not of their absolute values
          batch                   definition       given
          both signs                1.050027    0.954804
          no negative values        0.645515    0.645515
          opposite classes          0.647924   -0.083987
          unequal classes           0.956701    0.860249
          classes from 1            1.045850    1.008560
    """
    check_options(gamma, form, IGNORE_INDEX)
    batches = _batches()
    values = {name: _call(loss_function, *batch) for name, batch in batches.items()}
    exact = {name: orthogonal_projection(*batch, gamma=gamma, form=form).loss for name, batch in batches.items()}
    comparisons = tuple(Comparison(name, exact[name].item(), values[name].item()) for name in batches)
    actual = torch.stack([value.detach().double() for value in values.values()])
    faults = _explain(list(batches.values()), actual, gamma, form)
    if not faults:
        faults = _compare_gradients(values, exact, batches)
    return Verification(faults, comparisons)


def _batches() -> dict[str, tuple[Tensor, Tensor]]:
    """Small fp32 batches whose features want a gradient."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 5, generator=generator)
    x = x * (0.5 + torch.rand(12, 1, generator=generator))  # rows of different lengths
    thirds = torch.arange(12) % 3
    opposite = x.abs() * torch.where(thirds[:, None] % 2 == 0, 1.0, -1.0)
    given = {
        "both signs": (x, thirds),
        "no negative values": (x.abs(), thirds),
        "opposite classes": (opposite, thirds % 2),
        "unequal classes": (x.flip(0), torch.tensor([0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3])),
        "classes from 1": (x[:8] + 0.3, torch.tensor([1, 1, 2, 2, 3, 3, 4, 4])),
    }
    return {name: (features.clone().requires_grad_(), labels) for name, (features, labels) in given.items()}


def _call(loss_function: Callable[..., Any], features: Tensor, labels: Tensor) -> Tensor:
    result = loss_function(features, labels)
    value = result[0] if isinstance(result, tuple) and result else result
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise OptionError(
            f"the value of the loss function has type {type(value).__name__}: return a tensor of one element, or a "
            "tuple that begins with it."
        )
    return value.reshape(())


def _explain(batches: list[tuple[Tensor, Tensor]], actual: Tensor, gamma: float, form: Form) -> tuple[str, ...]:
    """Return the smallest set of faults that gives these values; nothing if the definition gives them."""
    for faults in _combinations(form):
        parts = torch.stack([_parts(features.detach().double(), labels, form, faults) for features, labels in batches])
        names = tuple(fault.name for fault in faults)
        if _close(_weigh(parts, gamma, faults), actual):
            return names
        if len(faults) < 2 and not any(fault.step == "weight" for fault in faults):
            fitted = float(torch.linalg.lstsq(parts[:, 1:], (actual - parts[:, 0])[:, None]).solution)
            if _close(_weigh(parts, fitted, faults), actual):
                return (*names, f"gamma is {fitted:.3g}, not {gamma:g}")
    return ("another formula: no combination of two known faults gives these numbers",)


def _combinations(form: Form) -> Iterator[tuple[Fault, ...]]:
    known = [fault for fault in FAULTS if (fault.step, fault.choice) != ("other", form)]
    yield ()
    yield from ((fault,) for fault in known)
    yield from (pair for pair in combinations(known, 2) if pair[0].step != pair[1].step)


def _close(values: Tensor, actual: Tensor) -> bool:
    return torch.allclose(values, actual, rtol=TOLERANCE, atol=TOLERANCE)


def _weigh(parts: Tensor, gamma: float, faults: tuple[Fault, ...]) -> Tensor:
    apart, other = parts[:, 0], parts[:, 1]
    return gamma * apart + other if any(fault.step == "weight" for fault in faults) else apart + gamma * other


def _parts(x: Tensor, labels: Tensor, form: str, faults: tuple[Fault, ...]) -> Tensor:
    """Return 1 - s and d of a batch with some steps replaced, by the matrix of all cosines."""
    choice = {"other": form, **{fault.step: fault.choice for fault in faults}}
    dim = {"raw": None, "columns": 0}.get(choice.get("unit", ""), 1)
    unit = x if dim is None else F.normalize(x, dim=dim)
    cosines, itself = unit @ unit.T, torch.eye(len(x), dtype=torch.bool)
    products = labels[:, None] * labels != 0
    same = products if choice.get("mask") == "product" else labels[:, None] == labels
    other = ~same
    same = same | itself if choice.get("itself") == "same" else same & ~itself
    other = other | itself if choice.get("itself") == "other" else other
    kind = choice["other"]
    changed = {"mean_abs": cosines.abs(), "squared": cosines.square(), "clamped": cosines.clamp(min=0)}
    s = _mean(cosines.abs() if "same" in choice else cosines, same, choice.get("mean"))
    d = _mean(changed.get(kind, cosines), other, choice.get("mean"))
    apart = {"plus": 1 + s, "shifted": -s}.get(choice.get("sign", ""), 1 - s)
    return torch.stack([apart, d.abs() if kind == "abs_mean" else d])


def _mean(values: Tensor, mask: Tensor, how: str | None) -> Tensor:
    weights = mask.to(values.dtype)
    if how == "rows":
        return ((values * weights).sum(1) / weights.sum(1).clamp(min=1)).mean()
    total = (values * weights).sum()
    if how == "sums":
        return total
    return total / (values.numel() if how == "all" else weights.sum().clamp(min=1))


def _compare_gradients(
    values: dict[str, Tensor], exact: dict[str, Tensor], batches: dict[str, tuple[Tensor, Tensor]]
) -> tuple[str, ...]:
    for name, (features, _) in batches.items():
        (expected,) = torch.autograd.grad(exact[name], features)
        value = values[name]
        gradient = torch.autograd.grad(value, features, allow_unused=True)[0] if value.requires_grad else None
        if gradient is None:
            return ("no gradient: the value is right, but the features are detached",)
        if not torch.allclose(gradient, expected, rtol=1e-3, atol=1e-4):
            return (f"wrong gradient: the value is right, but its gradient differs in the batch '{name}'",)
    return ()
