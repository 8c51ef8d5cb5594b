"""Settings of SUR's evaluation, and the names of its results. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from ...._ranges import Count, CountOrZero, Name, Positive, Seed, check_settings
from ...settings import to_json

AVERAGE, BASE = "average", "base"
BASE_METRIC = "selection/base"
"""The name of the accuracy of the first network of a family on held-out images of its own training classes."""


@dataclass(frozen=True)
class Selection:
    """The protocol of SUR: weights of the domains are fitted on the support set of every episode."""

    target: Name = "omniglot"
    """The source whose classes are tested."""
    episodes: Count = 600
    steps: CountOrZero = 40
    """Steps of Adadelta; 0 leaves all domains at the same weight."""
    rate: Positive = 3000.0
    """Learning rate, divided by the number of classes of an episode."""
    scale: Positive = 10.0
    """Factor of the cosines in the loss."""
    part: Literal["test", "val"] = "test"
    """The test classes of the target, or those for validation."""
    seed: Seed = 0
    """Random seed of the episodes; not the seed of the run."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """A file name that identifies this protocol; it does not include the number of episodes.

        Example:
            >>> Selection(target="mnist", steps=0).name
            'mnist-steps-0'
        """
        plain = Selection(target=self.target, episodes=self.episodes)
        other = [each.name for each in fields(self) if getattr(self, each.name) != getattr(plain, each.name)]
        return "-".join([self.target, *(f"{name}-{getattr(self, name)}" for name in other)])

    @property
    def metric(self) -> str:
        """The name of the mean accuracy among the numbers of a run."""
        return f"selection/{self.name}"


def average_metric(settings: Sequence[Selection]) -> str:
    """The name of the mean over several targets.

    Example:
        >>> average_metric([Selection(target="mnist"), Selection(target="omniglot")])
        'selection/average-of-2'
    """
    return replace(settings[0], target=f"{AVERAGE}-of-{len(settings)}").metric


def base_settings(source: str) -> dict[str, Any]:
    """Whose held-out images the first network of a family was tested on, as it is written to disk."""
    return {BASE: source}


def average_settings(settings: Sequence[Selection]) -> dict[str, Any]:
    """What the mean over several targets is made of, as it is written to disk."""
    return {AVERAGE: [to_json(each) for each in settings]}
