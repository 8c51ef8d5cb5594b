"""The execution of a search: trials are runs without a test, which can be resumed; and their summary."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...errors import FolderError, OptionError
from ..files import read_json, write_whole
from ..run_folder import RunFolder
from ..runner.executor import Executor, Resources
from ..runner.jobs import Job, run_jobs
from ..settings import to_json
from .samplers import Goal, Sampler, Trial

if TYPE_CHECKING:
    from ..recipe import Recipe

DEFINITION = "search.json"


@dataclass(frozen=True)
class Execution:
    """A search: how it builds recipes, its folder, its metric, and when it prunes."""

    build: Callable[[list[str]], "Recipe"]
    """Return the recipe with the settings changed by flags."""
    folder: Path
    goal: Goal
    seeds: tuple[int, ...]
    prune_at: tuple[int, ...]

    def run(self, sampler: Sampler, executor: Executor, resources: Resources) -> list[Trial]:
        """Run all trials that the sampler proposes, and return them."""
        trials: list[Trial] = []
        while batch := sampler.propose():
            self._run_batch(batch, sampler, executor, resources)
            trials += batch
        return trials

    def _run_batch(self, batch: Sequence[Trial], sampler: Sampler, executor: Executor, resources: Resources) -> None:
        running = list(batch)
        for epoch in (*self.prune_at, 0):
            self._train(running, epoch, executor, resources)
            for trial in running:
                self._measure(trial, epoch)
            running = [trial for trial in running if not trial.outcome]
            for trial in sampler.prune(running, epoch) if epoch else []:
                trial.outcome = "pruned"
            running = [trial for trial in running if not trial.outcome]
        for trial in batch:
            sampler.tell(trial)

    def _train(self, trials: Sequence[Trial], until: int, executor: Executor, resources: Resources) -> None:
        """Train all runs to the end of an epoch, or of training."""
        jobs, commands = [], []
        for trial in trials:
            recipe = self.recipe_of(trial)
            file = self.folder / f"{trial.name}.json"
            write_whole(file, (json.dumps(to_json(recipe), indent=1) + "\n").encode())
            for seed in self.seeds:
                folder = self._folder(trial, seed)
                jobs.append(Job(recipe.name, seed, recipe.epochs, folder, until=until))
                stop = ("--until", str(until)) if until else ()
                out = ("--out", str(self.folder), "--no-test", "--wait", str(executor.patience))
                commands.append(("train", "--recipe", str(file), "--seed", str(seed), *out, *stop))
        run_jobs(jobs, commands, executor, resources)

    def _measure(self, trial: Trial, epoch: int) -> None:
        """Read the metric of a trial after an epoch, or at the end."""
        folders = [self._folder(trial, seed) for seed in self.seeds]
        numbers = [self._number(folder, epoch) for folder in folders]
        measured = [number for number in numbers if number is not None]
        if len(measured) < len(numbers):
            trial.outcome, trial.value = "failed", None
            return
        trial.value, trial.epochs = fmean(measured), epoch or self.recipe_of(trial).epochs
        if epoch:
            trial.early[epoch] = trial.value
        else:
            trial.outcome = "done"

    def _number(self, folder: RunFolder, epoch: int) -> float | None:
        if not epoch:
            return float(folder.result()[self.goal.metric]) if folder.done else None
        records = [record for record in folder.metrics() if record["epoch"] == epoch - 1]
        return float(records[0][self.goal.metric]) if records else None

    def _folder(self, trial: Trial, seed: int) -> RunFolder:
        return RunFolder.of(self.folder, self.recipe_of(trial).name, seed)

    def recipe_of(self, trial: Trial) -> "Recipe":
        """Return the recipe of a trial, named after it."""
        recipe = self.build(trial.flags)
        changes = (*recipe.changes, f"name {recipe.name}-{trial.name} (recipe: {recipe.name})")
        return replace(recipe, name=f"{recipe.name}-{trial.name}", scale="custom", changes=changes)


def check_recipe(recipe: "Recipe", prune_at: Sequence[int]) -> None:
    """Raise an error for a recipe that cannot be searched by validation alone."""
    if recipe.oracle:
        raise OptionError("--oracle uses the test set after every epoch, which a search must not do: omit it.")
    if recipe.after:
        raise OptionError(
            f"{recipe.name} needs a finished run of {recipe.after}, which a search does not train: search a "
            "recipe that needs no other run."
        )
    if to_json(recipe.data).get("val") == 0:
        raise OptionError(f"{recipe.name} has no validation images: hold some out with --data.val 200.")
    for epoch in prune_at:
        if not 0 < epoch < recipe.epochs or epoch % recipe.eval_every:
            raise OptionError(
                f"--prune-at is {epoch} but must be a multiple of {recipe.eval_every} (epochs between validations) "
                f"below {recipe.epochs} (all epochs)."
            )


def claim_folder(folder: Path, definition: dict[str, Any]) -> None:
    """Write the definition of the search into its folder; raise an error if it holds another search."""
    file = folder / DEFINITION
    try:
        if not file.exists():
            write_whole(file, (json.dumps(definition, indent=1) + "\n").encode())
        stored = read_json(file, links=False)
    except (OSError, ValueError) as error:
        raise FolderError(f"cannot use {file} ({error}): choose another folder with --out.") from error
    different = [name for name in definition if not isinstance(stored, dict) or stored.get(name) != definition[name]]
    if different:
        raise FolderError(
            f"{folder} holds a search with another {' and '.join(different)}: choose another --out, or delete it."
        )


def table_of(trials: Sequence[Trial], goal: Goal) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the rows: finished trials, best first, then the rest."""
    names = list(trials[0].settings) if trials else []
    best = goal.best(trials)
    rest = [trial for trial in trials if trial not in best]
    rows = [
        [str(trial.number), *trial.settings.values(), _number(trial.value), str(trial.epochs or "-"), trial.outcome]
        for trial in (*best, *rest)
    ]
    return ["trial", *names, f"{goal.metric} (mean of the seeds)", "epochs", "outcome"], rows


def markdown(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float], title: str) -> str:
    """Return the table and the importances as Markdown."""
    heading, rows = table_of(trials, goal)
    table = [f"| {' | '.join(cells)} |" for cells in (heading, ["---"] * len(heading), *rows)]
    lines = [f"# {title}", "", *table, ""]
    lines += [f"- {sentence}" for sentence in sentences(trials, goal, importance)]
    return "\n".join(lines) + "\n"


def sentences(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float]) -> list[str]:
    """Return the sentences below the table."""
    counts = [(outcome, sum(trial.outcome == outcome for trial in trials)) for outcome in ("done", "pruned", "failed")]
    lines = [f"{len(trials)} trials: " + ", ".join(f"{count} {outcome}" for outcome, count in counts if count)]
    best = goal.best(trials)
    if best:
        settings = ", ".join(f"{name} {value}" for name, value in best[0].settings.items())
        lines.append(f"winner: trial {best[0].number} ({settings}), {goal.metric} {_number(best[0].value)}")
    if importance:
        shares = ", ".join(
            f"{name} {share:.0%}" for name, share in sorted(importance.items(), key=lambda pair: -pair[1])
        )
        lines.append(f"importance (share of the variance between trials): {shares}")
    lines.append("the test images were not used")
    return lines


def as_json(trials: Sequence[Trial], goal: Goal, importance: Mapping[str, float]) -> dict[str, Any]:
    """Return the trials, the winner and the importances as plain values."""
    best = goal.best(trials)
    return {
        "metric": goal.metric,
        "winner": best[0].number if best else None,
        "importance": dict(importance),
        "trials": [asdict(trial) for trial in trials],
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
