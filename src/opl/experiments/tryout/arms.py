"""What is compared: one line for each arm. The first is the baseline of the others."""

from collections.abc import Callable
from dataclasses import dataclass

from ..methods import CrossEntropy, CrossEntropyOPL
from ..types import Method


@dataclass(frozen=True)
class Arm:
    """A way to train, beside which all else is equal."""

    label: str
    suffix: str
    """Ends the name of its recipe."""
    build: Callable[[float, float], Method]
    """Returns the method, given the weight and the gamma of OPL."""


ARMS = (
    Arm("CE", "ce", lambda weight, gamma: CrossEntropy()),
    Arm("CE+OPL", "opl", lambda weight, gamma: CrossEntropyOPL(weight=weight, gamma=gamma)),
)
