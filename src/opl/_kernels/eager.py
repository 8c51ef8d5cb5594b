"""Functions that stay out of compiled graphs, without importing torch's compiler where nothing is compiled."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch._compile import _disable_dynamo

P = ParamSpec("P")
T = TypeVar("T")


def outside_graphs(function: Callable[P, T]) -> Callable[P, T]:
    """Make a compiled graph end before a function and continue after it, as `torch.compiler.disable` does.

    The compiler takes a second to import. Imported after a process group was made, it also keeps that group alive (by
    default arguments of `torch.distributed.nn`), and the group's threads may abort the process when Python ends.
    """
    disabled = _disable_dynamo(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling():
            result: T = disabled(*args, **kwargs)
            return result
        return function(*args, **kwargs)

    return call
