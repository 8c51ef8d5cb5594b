"""All combinations of the values."""

import itertools
import math
from collections.abc import Sequence
from statistics import fmean

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

        On a full grid, these are the main effects of an analysis of variance.
        """
        values = [trial.value for trial in trials if trial.value is not None]
        spread = _variance(values)
        if not spread:
            return {}
        return {name: _variance(_means(trials, name)) / spread for name in self.names}


def _means(trials: Sequence[Trial], name: str) -> list[float]:
    """For each trial, the mean over all trials with its value of a setting."""
    groups: dict[str, list[float]] = {}
    for trial in trials:
        if trial.value is not None:
            groups.setdefault(trial.words[name], []).append(trial.value)
    return [fmean(group) for group in groups.values() for _ in group]


def _variance(values: Sequence[float]) -> float:
    middle = fmean(values) if values else 0.0
    return fmean([(value - middle) ** 2 for value in values]) if values else 0.0
