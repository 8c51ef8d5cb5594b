"""Modes of a network that end with their block: evaluation, and frozen parameters; and the network inside a wrapper."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from torch import nn


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards each part has the mode that it had, whatever happened inside.

    A part that was in evaluation mode before, such as a frozen batch norm, stays so.

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
    """Parameters that get no gradient, which is also faster; afterwards each is what it was, its gradient too."""
    before = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        yield
    finally:
        for parameter, wanted in before:
            parameter.requires_grad_(wanted)


@runtime_checkable
class Wrapper(Protocol):
    """What an engine puts around a network, such as DDP: the network is its `module`."""

    module: nn.Module


def unwrap(model: nn.Module) -> nn.Module:
    """The network itself, without what the engine put around it."""
    return model.module if isinstance(model, Wrapper) else model
