"""The settings to search with their values, trials, and the samplers that propose them: a grid and Optuna."""

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any, Literal, NamedTuple, Protocol

from ...errors import OplError, OptionError
from ..files import open_regular

POINTS = 5
"""The number of values of a range on a grid, unless the range sets it."""
HELP = "write NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:7 (points of a grid) or NAME=A,B,C"
FORBIDDEN = ("name", "seed", "scale", "changes", "oracle", "after", "inherit", "log", "devices", "nodes")
"""Settings that identify a run or its place of execution; they do not change how a network is trained."""


@dataclass(frozen=True)
class Setting:
    """One setting and its possible values: a list, or a range of numbers."""

    name: str
    choices: tuple[str, ...] = ()
    """Values as on the command line; empty for a range."""
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    """Whether a range has whole numbers only."""
    points: int = POINTS

    def grid(self) -> tuple[str, ...]:
        """Return its values on a grid, as on the command line.

        Example:
            >>> parse_setting("method.weight=0.1:10:log:3").grid()
            ('0.1', '1', '10')
        """
        if self.choices:
            return self.choices
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        steps = [low + (high - low) * index / max(1, self.points - 1) for index in range(self.points)]
        values = [math.exp(step) if self.log else step for step in steps]
        return tuple(dict.fromkeys(self.format(value) for value in values))

    def format(self, value: float) -> str:
        """Return a number of the range as on the command line, rounded to ten digits."""
        return str(round(value)) if self.whole else f"{value:.10g}"


def parse_setting(text: str) -> Setting:
    """Parse one setting with its values.

    Example:
        >>> parse_setting("method.gamma=0.5,1,2").choices
        ('0.5', '1', '2')
    """
    name, equals, values = text.partition("=")
    if not equals or not name or not values:
        raise OptionError(f"--over {text!r} has no name or no values: {HELP}.")
    if name in FORBIDDEN:
        raise OptionError(f"--over {name} cannot be searched, as it does not change training: name another setting.")
    if ":" not in values:
        choices = tuple(values.split(","))
        if "" in choices or len(set(choices)) < len(choices):
            raise OptionError(f"--over {text!r} has an empty or a repeated value: {HELP}.")
        return Setting(name, choices)
    low, high, *rest = values.split(":")
    points = [part for part in rest if part != "log"]
    try:
        setting = Setting(
            name,
            low=float(low),
            high=float(high),
            log="log" in rest,
            whole=low.lstrip("-").isdigit() and high.lstrip("-").isdigit(),
            points=int(points[0]) if points else POINTS,
        )
    except ValueError as error:
        raise OptionError(f"--over {text!r} is not a range of numbers: {HELP}.") from error
    if len(points) > 1 or setting.points < 2 or not -math.inf < setting.low < setting.high < math.inf:
        raise OptionError(f"--over {text!r} is not a range from a smaller to a larger number: {HELP}.")
    if setting.log and setting.low <= 0:
        raise OptionError(f"--over {text!r} is logarithmic and starts at {setting.low:g}: must start above 0.")
    return setting


def parse_space(texts: Sequence[str]) -> tuple[Setting, ...]:
    """Parse all settings, each with its values."""
    space = tuple(map(parse_setting, texts))
    if not space:
        raise OptionError("--over is empty; for example: --over method.weight=0.1:2:log method.gamma=0.5,1,2.")
    names = [setting.name for setting in space]
    if len(set(names)) < len(names):
        raise OptionError(f"--over names {max(names, key=names.count)} twice: name every setting once.")
    return space


Metric = Literal["val/top1", "val/top5", "val/loss"]
Outcome = Literal["", "done", "pruned", "failed"]


@dataclass
class Trial:
    """One choice of settings."""

    number: int
    settings: Mapping[str, str]
    """The value of each setting, as on the command line."""
    outcome: Outcome = ""
    """Empty while it is not finished."""
    value: float | None = None
    """The metric on the validation images, the mean over the seeds; None if the trial failed."""
    epochs: int = 0
    """The epochs that were trained."""
    early: dict[int, float] = field(default_factory=dict)
    """The metric after the epochs at which trials are pruned."""

    @property
    def name(self) -> str:
        """The name for folders and messages."""
        return f"trial-{self.number:03d}"

    @property
    def flags(self) -> list[str]:
        """The flags that change a recipe to these settings."""
        return [argument for name, value in self.settings.items() for argument in (f"--{name}", value)]


class Sampler(Protocol):
    """Proposes trials, and decides which are stopped early."""

    def propose(self) -> list[Trial]:
        """Return the trials to run next, unfinished trials of an earlier search first; empty if there are no more."""
        ...

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return the trials to stop after an epoch."""
        ...

    def tell(self, trial: Trial) -> None:
        """Learn from a finished trial."""
        ...

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return the share of the differences that each setting explains; empty if there are too few trials."""
        ...


class Goal(NamedTuple):
    """The metric to optimize."""

    metric: Metric

    @property
    def sign(self) -> int:
        """1 if larger is better, else -1."""
        return -1 if self.metric == "val/loss" else 1

    def best(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the finished trials, best first; ties in order of their numbers."""
        done = [trial for trial in trials if trial.outcome == "done" and trial.value is not None]
        return sorted(done, key=lambda trial: (-self.sign * (trial.value or 0.0), trial.number))


class Grid:
    """Proposes all combinations at once; of the trials that reach an epoch of pruning, the better half continues."""

    def __init__(self, space: Sequence[Setting], goal: Goal) -> None:
        self.goal, self.names = goal, [setting.name for setting in space]
        combinations = itertools.product(*(setting.grid() for setting in space))
        self.trials = [
            Trial(number, dict(zip(self.names, values, strict=True))) for number, values in enumerate(combinations)
        ]

    def propose(self) -> list[Trial]:
        """Return all combinations, the first time."""
        trials, self.trials = self.trials, []
        return trials

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return the worse half; of tied trials, the higher numbers."""
        order = sorted(trials, key=lambda trial: (-self.goal.sign * trial.early[epoch], trial.number))
        return order[math.ceil(len(order) / 2) :]

    def tell(self, trial: Trial) -> None:
        """Ignore a finished trial: a grid learns nothing."""

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return the variance of the means over each setting's values, as a share of the variance of all trials.

        On a full grid, these are the main effects of an analysis of variance. With pruning, trials are compared at
        the first epoch of pruning, which all of them reached.
        """
        first = min((epoch for trial in trials for epoch in trial.early), default=0)
        reached = [(trial, trial.early.get(first) if first else trial.value) for trial in trials]
        measured = [(trial.settings, value) for trial, value in reached if value is not None]
        spread = pvariance([value for _, value in measured]) if measured else 0.0
        shares = {}
        for name in self.names if spread else ():
            groups: dict[str, list[float]] = {}
            for settings, value in measured:
                groups.setdefault(settings[name], []).append(value)
            shares[name] = pvariance([fmean(groups[settings[name]]) for settings, _ in measured]) / spread
        return shares


JOURNAL = "optuna.log"
STARTUP = 3  # finished trials before one is compared with their median


class OptunaSampler:
    """Proposes trials by Optuna's tree-structured Parzen estimator, `batch` at a time.

    Optuna learns all results of a batch before it proposes the next batch, and its random numbers are a function of the
    seed and of the number of trials, so a resumed search proposes the same trials as an uninterrupted search.
    """

    def __init__(self, space: Sequence[Setting], goal: Goal, folder: Path, trials: int, batch: int, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise OplError(
                "Optuna is not installed: pip install 'orthogonal-projection-loss[search]', or search with --by grid."
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self.space, self.count, self.batch, self.seed = space, trials, batch, seed
        with contextlib.suppress(FileNotFoundError), open_regular(folder / JOURNAL, links=False):
            pass  # Optuna would follow a link, and wait for a pipe
        self.study = optuna.create_study(
            study_name="opl",
            storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL))),
            direction="maximize" if goal.sign > 0 else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
            load_if_exists=True,
        )
        self.known: set[int] = set()

    def propose(self) -> list[Trial]:
        """Return a batch, unfinished trials of the journal first."""
        from optuna.samplers import TPESampler

        pending = [trial for trial in self.study.get_trials(deepcopy=False) if trial.number not in self.known]
        if not pending:
            total = len(self.study.get_trials(deepcopy=False))
            self.study.sampler = TPESampler(seed=self.seed + total, n_startup_trials=max(5, self.batch))
            proposed = [self.study.ask() for _ in range(min(self.batch, self.count - total))]
            for trial, setting in itertools.product(proposed, self.space):
                if setting.choices:
                    trial.suggest_categorical(setting.name, setting.choices)
                elif setting.whole:
                    trial.suggest_int(setting.name, int(setting.low), int(setting.high), log=setting.log)
                else:
                    trial.suggest_float(setting.name, setting.low, setting.high, log=setting.log)
            pending = [trial for trial in self.study.get_trials(deepcopy=False) if trial.number not in self.known]
        self.known |= {trial.number for trial in pending}
        return [
            Trial(trial.number, {setting.name: _value(setting, trial.params) for setting in self.space})
            for trial in pending
        ]

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return the trials below the median of earlier trials at the same epoch."""
        pruned = []
        for trial in trials:
            running = self._running(trial)
            if running is not None:
                running.report(trial.early[epoch], epoch)
                pruned += [trial] if running.should_prune() else []
        return pruned

    def tell(self, trial: Trial) -> None:
        """Report a finished trial to Optuna, unless the journal has it."""
        from optuna.trial import TrialState

        if self._running(trial) is not None:
            state = {"done": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}[trial.outcome]
            self.study.tell(trial.number, trial.value if trial.outcome == "done" else None, state)

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return Optuna's importances (functional analysis of variance)."""
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        done = [trial.value for trial in trials if trial.outcome == "done"]
        if len(set(done)) < 2:
            return {}
        return dict(get_param_importances(self.study, evaluator=FanovaImportanceEvaluator(seed=self.seed)))

    def _running(self, trial: Trial) -> Any:
        """Return the trial of Optuna, or None if it is finished."""
        import optuna

        known = self.study.get_trials(deepcopy=False)[trial.number]
        return None if known.state.is_finished() else optuna.trial.Trial(self.study, known._trial_id)


def _value(setting: Setting, values: dict[str, Any]) -> str:
    value = values[setting.name]
    return str(value) if setting.choices else setting.format(value)
