"""A gradient that raises an error if it is differentiated again, instead of silently acting as a constant."""

from typing import Any

import torch
from torch import Tensor

from ..errors import DerivativeError


def first_derivative_only(gradient: Tensor, x: Tensor, sentence: str) -> Tensor:
    """Return the gradient unchanged; differentiating it again raises `DerivativeError` with this message."""
    if not torch.is_grad_enabled():
        return gradient
    guarded: Tensor = _FirstDerivativeOnly.apply(gradient, x, sentence)  # type: ignore[no-untyped-call]
    return guarded


class _FirstDerivativeOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, x: Tensor, sentence: str) -> Tensor:
        ctx.sentence = sentence
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor | None, ...]:
        raise DerivativeError(ctx.sentence)
