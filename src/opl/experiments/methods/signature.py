"""Settings generated from the signature of the head or loss that they build, which defines keywords and defaults."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import nn

from ...errors import OptionError
from ..types import TaskShape
from .base import is_distributed

TASK = ("feature_dim", "num_classes", "counts", "global_batch", "reduction", "ignore_index")
"""Parameters that come from the task, not from the settings."""
SMALLEST = TaskShape(num_classes=2, feature_dim=2, counts=(1, 1))


class SignatureSettings:
    """Base class of settings whose fields are the keywords of what they build; see `from_signature`."""

    builds: ClassVar[Callable[..., nn.Module]]

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **settings: Any) -> None: ...

    def __post_init__(self) -> None:
        """Let the library check the values; values of a wrong type are left to `check_settings`, which names them."""
        try:
            with torch.random.fork_rng(devices=[]):
                self.construct(SMALLEST)
        except OptionError:
            raise
        except (TypeError, ValueError, OverflowError):
            return

    def construct(self, shape: TaskShape, **options: Any) -> Any:
        """Build the head or loss for a task; `options` replace arguments."""
        task = {
            "feature_dim": shape.feature_dim,
            "num_classes": shape.num_classes,
            "counts": shape.counts,
            "global_batch": is_distributed(),
        }
        names = inspect.signature(self.builds).parameters
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        arguments = {name: value for name, value in {**task, **settings}.items() if name in names}
        return self.builds(**{**arguments, **options})


S = TypeVar("S", bound=SignatureSettings)


def from_signature(builds: Callable[..., nn.Module], *, omit: tuple[str, ...] = ()) -> Callable[[type[S]], type[S]]:
    """Return a decorator that makes a frozen dataclass with the keywords of `builds`, their types and defaults.

    Fields in the class body come first, unless they have the name of a keyword: then they replace its type, and its
    default if they have one. Keywords that come from the task, such as `num_classes`, are not settings.

    Args:
        builds: a head or loss.
        omit: further keywords that are not settings.

    Example:
        >>> from opl.losses import FocalLoss
        >>> @from_signature(FocalLoss)
        ... class Focal(SignatureSettings):
        ...     weight: float = 1.0
        >>> Focal(gamma=0.5)
        Focal(weight=1.0, gamma=0.5, form='softmax')
    """

    def decorate(settings: type[S]) -> type[S]:
        parameters = inspect.signature(builds, eval_str=True).parameters
        keywords = [name for name in parameters if name not in (*TASK, *omit)]
        body = dict(settings.__annotations__)
        extra = {name: hint for name, hint in body.items() if name not in keywords}
        settings.__annotations__ = extra | {name: body.get(name, parameters[name].annotation) for name in keywords}
        for name in keywords:
            if name not in vars(settings):
                setattr(settings, name, parameters[name].default)
        settings.builds = staticmethod(builds)
        return dataclass(frozen=True)(settings)

    return decorate
