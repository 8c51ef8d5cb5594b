"""All combinations of the values."""

import itertools
import math
from collections.abc import Sequence
from statistics import fmean, pvariance

from .space import Setting
from .trial import Goal, Trial


class Grid:
    """Proposes all combinations at once; of those that reach an epoch of pruning, the better half continues."""

    def __init__(self, space: Sequence[Setting], goal: Goal) -> None:
        self.goal, self.names = goal, [setting.name for setting in space]
        combinations = itertools.product(*(setting.grid() for setting in space))
        self.trials = [
            Trial(number, dict(zip(self.names, words, strict=True))) for number, words in enumerate(combinations)
        ]

    def propose(self) -> list[Trial]:
        """Return all combinations, the first time."""
        trials, self.trials = self.trials, []
        return trials

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return the worse half; of equal ones, the later."""
        order = sorted(trials, key=lambda trial: (-self.goal.sign * trial.early[epoch], trial.number))
        return order[math.ceil(len(order) / 2) :]

    def tell(self, trial: Trial) -> None:
        """A grid learns nothing from its trials."""

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return the variance of the means over each setting's values, as a share of the variance of all trials.

        On a full grid, these are the main effects of an analysis of variance. With pruning, trials are compared after
        the first epoch of it, which all of them reached.
        """
        first = min((epoch for trial in trials for epoch in trial.early), default=0)
        reached = [(trial, trial.early.get(first) if first else trial.value) for trial in trials]
        found = [(trial.words, value) for trial, value in reached if value is not None]
        spread = _variance([value for _, value in found])
        if not spread:
            return {}
        return {
            name: _variance(_means([(words[name], value) for words, value in found])) / spread for name in self.names
        }


def _means(pairs: Sequence[tuple[str, float]]) -> list[float]:
    """For each pair, the mean over all pairs with its word."""
    groups: dict[str, list[float]] = {}
    for word, value in pairs:
        groups.setdefault(word, []).append(value)
    return [fmean(groups[word]) for word, _ in pairs]


def _variance(values: Sequence[float]) -> float:
    return pvariance(values) if values else 0.0
