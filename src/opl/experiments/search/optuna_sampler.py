"""Trials that Optuna proposes from those before, with its journal in the folder of the search."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import OplError
from .space import Setting
from .trial import Goal, Trial

JOURNAL = "optuna.log"
STARTUP = 3  # finished trials before one is compared with their median


class OptunaSampler:
    """Proposes trials by Optuna's tree-structured Parzen estimator, `batch` at a time.

    All of a batch are told to Optuna before the next is proposed, and its random numbers are a function of the seed and
    of the number of trials, so a search that was stopped continues as one that was not.
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
        self.study = optuna.create_study(
            study_name="opl",
            storage=JournalStorage(JournalFileBackend(str(folder / JOURNAL))),
            direction="maximize" if goal.sign > 0 else "minimize",
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
            load_if_exists=True,
        )
        self.known: set[int] = set()

    def propose(self) -> list[Trial]:
        """Return a batch, first of what is in the journal."""
        from optuna.samplers import TPESampler

        old = [trial for trial in self.study.get_trials(deepcopy=False) if trial.number not in self.known]
        if not old:
            made = len(self.study.get_trials(deepcopy=False))
            self.study.sampler = TPESampler(seed=self.seed + made, n_startup_trials=max(5, self.batch))
            asked = [self.study.ask() for _ in range(min(self.batch, self.count - made))]
            for trial in asked:
                for setting in self.space:
                    _suggest(trial, setting)
            old = [trial for trial in self.study.get_trials(deepcopy=False) if trial.number not in self.known]
        self.known |= {trial.number for trial in old}
        return [Trial(trial.number, {each.name: _word(each, trial.params) for each in self.space}) for trial in old]

    def prune(self, trials: Sequence[Trial], epoch: int) -> list[Trial]:
        """Return those below the median of earlier trials at the same epoch."""
        pruned = []
        for trial in trials:
            own = self._own(trial)
            if own is not None:
                own.report(trial.early[epoch], epoch)
                pruned += [trial] if own.should_prune() else []
        return pruned

    def tell(self, trial: Trial) -> None:
        """Tell Optuna of a finished trial, unless the journal has it."""
        from optuna.trial import TrialState

        if self._own(trial) is not None:
            state = {"done": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}[trial.outcome]
            self.study.tell(trial.number, trial.value if trial.outcome == "done" else None, state)

    def importance(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Return Optuna's importances (functional analysis of variance)."""
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        done = [trial.value for trial in trials if trial.outcome == "done"]
        if len(set(done)) < 2:
            return {}
        return dict(get_param_importances(self.study, evaluator=FanovaImportanceEvaluator(seed=self.seed)))

    def _own(self, trial: Trial) -> Any:
        """Optuna's own trial, if it is not finished."""
        import optuna

        known = self.study.get_trials(deepcopy=False)[trial.number]
        return None if known.state.is_finished() else optuna.trial.Trial(self.study, known._trial_id)


def _suggest(trial: Any, setting: Setting) -> None:
    if setting.choices:
        trial.suggest_categorical(setting.name, setting.choices)
    elif setting.whole:
        trial.suggest_int(setting.name, int(setting.low), int(setting.high), log=setting.log)
    else:
        trial.suggest_float(setting.name, setting.low, setting.high, log=setting.log)


def _word(setting: Setting, values: dict[str, Any]) -> str:
    value = values[setting.name]
    return str(value) if setting.choices else setting.word(value)
