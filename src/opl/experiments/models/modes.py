"""Context managers for evaluation mode and frozen parameters, and access to the network inside a wrapper."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode inside the block; on exit, also after an exception, restore the mode of every submodule.

    A submodule that was in evaluation mode before, such as a frozen batch norm, stays in it.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2).eval())
        >>> with evaluation_mode(model):
        ...     model.training
        False
        >>> model.training, model[1].training
        (True, False)
    """
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


@contextmanager
def frozen_parameters(model: nn.Module) -> Iterator[None]:
    """Set `requires_grad` to false for all parameters inside the block, which is also faster; on exit, restore it.

    Existing gradients are not changed.
    """
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, requires_grad in before:
            parameter.requires_grad_(requires_grad)


@runtime_checkable
class Wrapper(Protocol):
    """A wrapper around a network, such as DDP: the network is its `module`."""

    module: nn.Module


def unwrap(model: nn.Module) -> nn.Module:
    """Return the network inside its wrapper, if there is one."""
    return model.module if isinstance(model, Wrapper) else model
