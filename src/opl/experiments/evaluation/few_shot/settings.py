"""How few-shot episodes are drawn and answered: the settings, and the name of what comes out. No torch in here."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from ....errors import OptionError


@dataclass(frozen=True)
class FewShot:
    """The protocol of RFS: a classifier on frozen features, anew for every episode."""

    way: int = 5
    """Classes in an episode."""
    shot: int = 1
    """Images of each class to learn from."""
    queries: int = 15
    """Images of each class to be tested on."""
    episodes: int = 3000
    copies: int = 0
    """Augmented copies of each support image; 0 is the choice of the paper's scripts, 5 for one shot, 1 for more."""
    views: int = 5
    """Augmented views of an image that copies are chosen from, encoded once; 0 augments and encodes every copy anew."""
    view: Literal["training", "no-jitter", "plain"] = "training"
    """What is done to a copy: what training does, that without the jitter of colors (SKD), or nothing."""
    classifier: Literal["logistic", "prototypes", "nearest", "cosine", "ridge", "scikit-learn"] = "logistic"
    """scikit-learn is its logistic regression, one episode after another: the reference of `logistic`."""
    unit: bool = True
    """Divide features by their length."""
    noise: float = 0.0
    """Standard deviation of Gaussian noise on support and query images."""
    noise_unit: Literal["pixels", "normalized"] = "pixels"
    """Pixels from 0 to 1, or what the network sees after normalization."""
    clip: bool = True
    """Cut noisy pixels to 0 to 1; normalized ones never are."""
    part: Literal["test", "val"] = "test"
    """The novel classes for testing, or those for validation."""
    seed: int = 0
    """Of the episodes, views and noise; not that of the run."""

    def __post_init__(self) -> None:
        if self.noise < 0:
            raise OptionError(f"noise is {self.noise}: give a standard deviation from 0 up.")
        if self.copies < 0 or self.views < 0 or self.seed < 0:
            raise OptionError("copies, views and seed are whole numbers from 0 up.")

    @property
    def repeats(self) -> int:
        """Copies of each support image."""
        return self.copies or (5 if self.shot == 1 else 1)

    @property
    def images(self) -> tuple[Any, ...]:
        """What decides the pixels that the network sees."""
        return (self.views, self.view, self.unit, self.noise, self.noise_unit, self.clip, self.part, self.seed)

    @property
    def name(self) -> str:
        """What tells this protocol from others, as a name of a file.

        Example:
            >>> FewShot(shot=5, noise=0.1).name
            '5-way-5-shot-noise-0.1'
        """
        plain = FewShot(way=self.way, shot=self.shot)
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
