"""A trial: one choice of settings, and how it went."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

Metric = Literal["val/top1", "val/top5", "val/loss"]
Outcome = Literal["", "done", "pruned", "failed"]


@dataclass
class Trial:
    """One choice of settings."""

    number: int
    words: Mapping[str, str]
    """The value of each setting, as a word for the command line."""
    outcome: Outcome = ""
    """Empty while it is not finished."""
    value: float | None = None
    """What was measured on the validation images, the mean over the seeds; None if the trial failed."""
    epochs: int = 0
    """After how many epochs."""
    early: dict[int, float] = field(default_factory=dict)
    """What was measured after the epochs at which trials are pruned."""

    @property
    def name(self) -> str:
        """For folders and the screen."""
        return f"trial-{self.number:03d}"

    @property
    def flags(self) -> list[str]:
        """The words that change a recipe to these settings."""
        return [word for name, value in self.words.items() for word in (f"--{name}", value)]


class Sampler(Protocol):
    """Proposes trials, and decides which are stopped early."""

    def propose(self) -> list[Trial]:
        """Return the trials to run next, unfinished ones of an earlier search first; none if there are no more."""
        ...

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return those trials that are not worth continuing after an epoch."""
        ...

    def tell(self, trial: Trial) -> None:
        """Take note of a finished trial."""
        ...

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return which share of the differences each setting explains; empty if there are too few trials."""
        ...


class Goal(NamedTuple):
    """What is searched for."""

    metric: Metric

    @property
    def sign(self) -> int:
        """1 if larger is better, else -1."""
        return -1 if self.metric == "val/loss" else 1

    def best(self, trials: Sequence[Trial]) -> list[Trial]:
        """The finished trials, best first; of equal ones, the earlier first."""
        done = [trial for trial in trials if trial.outcome == "done" and trial.value is not None]
        return sorted(done, key=lambda trial: (-self.sign * (trial.value or 0.0), trial.number))
