"""Settings of few-shot evaluation, and the name of its result. Does not import torch."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from ...._ranges import LARGEST_COUNT, Count, CountOrZero, NotNegative, Range, Seed, check_settings


@dataclass(frozen=True)
class FewShot:
    """The protocol of RFS: a new classifier on frozen features for every episode."""

    way: Annotated[int, Range(2, LARGEST_COUNT)] = 5
    """Classes per episode."""
    shot: Count = 1
    """Support images per class."""
    queries: Count = 15
    """Query images per class."""
    episodes: Count = 3000
    copies: CountOrZero = 0
    """Augmented copies of each support image; 0 follows the paper's scripts: 5 for one shot, 1 for more."""
    views: CountOrZero = 5
    """Augmented views per image to choose copies from, encoded once; 0 augments and encodes every copy separately."""
    view: Literal["training", "no-jitter", "plain"] = "training"
    """How a copy is augmented: as in training, the same without color jitter (SKD), or not at all."""
    classifier: Literal["logistic", "prototypes", "nearest", "cosine", "ridge", "scikit-learn"] = "logistic"
    """`scikit-learn` is its logistic regression, one episode at a time: the reference for `logistic`."""
    unit: bool = True
    """Divide features by their norm."""
    noise: NotNegative = 0.0
    """Standard deviation of Gaussian noise on support and query images."""
    noise_unit: Literal["pixels", "normalized"] = "pixels"
    """Whether noise is added to pixels in [0, 1], or to images after normalization."""
    clip: bool = True
    """Clamp noisy pixels to [0, 1]; normalized images are never clamped."""
    part: Literal["test", "val"] = "test"
    """The novel classes for testing, or those for validation."""
    seed: Seed = 0
    """Random seed of the episodes, views and noise; not the seed of the run."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def repeats(self) -> int:
        """Copies of each support image."""
        return self.copies or (5 if self.shot == 1 else 1)

    @property
    def images(self) -> tuple[Any, ...]:
        """The settings that determine the encoded images."""
        return (self.views, self.view, self.unit, self.noise, self.noise_unit, self.clip, self.part, self.seed)

    @property
    def name(self) -> str:
        """A file name that identifies this protocol; it does not include the number of episodes.

        Example:
            >>> FewShot(shot=5, noise=0.1).name
            '5-way-5-shot-noise-0.1'
        """
        plain = FewShot(way=self.way, shot=self.shot, episodes=self.episodes)
        other = [each.name for each in fields(self) if getattr(self, each.name) != getattr(plain, each.name)]
        return "-".join(
            [f"{self.way}-way-{self.shot}-shot", *(f"{name}-{_word(getattr(self, name))}" for name in other)]
        )

    @property
    def metric(self) -> str:
        """The name of the mean accuracy among the numbers of a run."""
        return f"episodes/{self.name}"


def _word(value: Any) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
