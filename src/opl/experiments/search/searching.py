"""The search itself: trials are runs without a test, executed anywhere, resumed from what is on disk."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...errors import FolderError, OptionError
from ..files import write_whole
from ..run_folder import RunFolder
from ..runner.executor import Executor, Resources
from ..runner.jobs import Job, run_jobs
from ..settings import to_json
from .trial import Goal, Sampler, Trial

if TYPE_CHECKING:
    from ..recipe import Recipe

DEFINITION = "search.json"


@dataclass(frozen=True)
class Search:
    """What is searched, where."""

    build: Callable[[list[str]], "Recipe"]
    """Returns the recipe with the settings that flags change."""
    folder: Path
    goal: Goal
    seeds: tuple[int, ...]
    prune_at: tuple[int, ...]

    def run(self, sampler: Sampler, executor: Executor, resources: Resources) -> list[Trial]:
        """Run all trials that the sampler proposes; returns them."""
        trials: list[Trial] = []
        while batch := sampler.propose():
            self._run_batch(batch, sampler, executor, resources)
            trials += batch
        return trials

    def _run_batch(self, batch: Sequence[Trial], sampler: Sampler, executor: Executor, resources: Resources) -> None:
        alive = list(batch)
        for epoch in (*self.prune_at, 0):
            self._train(alive, epoch, executor, resources)
            for trial in alive:
                self._measure(trial, epoch)
            alive = [trial for trial in alive if not trial.outcome]
            for trial in sampler.prune(alive, epoch) if epoch else []:
                trial.outcome = "pruned"
            alive = [trial for trial in alive if not trial.outcome]
        for trial in batch:
            sampler.tell(trial)

    def _train(self, trials: Sequence[Trial], until: int, executor: Executor, resources: Resources) -> None:
        """Train all runs to the end of an epoch, or of training."""
        jobs, words = [], []
        for trial in trials:
            recipe = self.recipe_of(trial)
            file = self.folder / f"{trial.name}.json"
            write_whole(file, (json.dumps(to_json(recipe), indent=1) + "\n").encode())
            for seed in self.seeds:
                folder = self._folder(trial, seed)
                jobs.append(Job(recipe.name, seed, recipe.epochs, folder, until=until))
                stop = ("--until", str(until)) if until else ()
                words.append(
                    (
                        "train",
                        "--recipe",
                        str(file),
                        "--seed",
                        str(seed),
                        "--out",
                        str(self.folder),
                        "--no-test",
                        "--wait",
                        str(executor.patience),
                        *stop,
                    )
                )
        run_jobs(jobs, words, executor, resources)

    def _measure(self, trial: Trial, epoch: int) -> None:
        """Read what a trial reached: after an epoch, or at the end."""
        folders = [self._folder(trial, seed) for seed in self.seeds]
        numbers = [self._number(folder, epoch) for folder in folders]
        found = [number for number in numbers if number is not None]
        if len(found) < len(numbers):
            trial.outcome, trial.value = "failed", None
            return
        trial.value, trial.epochs = fmean(found), epoch or self.recipe_of(trial).epochs
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
        """The recipe of a trial, under a name of its own."""
        recipe = self.build(trial.flags)
        changes = (*recipe.changes, f"name {recipe.name}-{trial.name} (recipe: {recipe.name})")
        return replace(recipe, name=f"{recipe.name}-{trial.name}", scale="custom", changes=changes)


def check_recipe(recipe: "Recipe", prune_at: Sequence[int]) -> None:
    """Raise an error for a recipe that cannot be searched by validation alone."""
    if recipe.oracle:
        raise OptionError("oracle looks at the test set after every epoch, and a search must not: leave it out.")
    if recipe.after:
        raise OptionError(
            f"{recipe.name} comes after a run of {recipe.after}, which a search does not train: search the settings of "
            "a recipe that starts by itself."
        )
    if to_json(recipe.data).get("val") == 0:
        raise OptionError(f"{recipe.name} holds out no images to judge by: hold some out, with --data.val 200.")
    for epoch in prune_at:
        if not 0 < epoch < recipe.epochs or epoch % recipe.eval_every:
            raise OptionError(
                f"--prune-at {epoch} is no epoch before the last ({recipe.epochs}) that ends with a validation (every "
                f"{recipe.eval_every}): give other epochs."
            )


def claim_folder(folder: Path, definition: dict[str, Any]) -> None:
    """Write what is searched into the folder; raise an error if it holds another search."""
    file = folder / DEFINITION
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            write_whole(file, (json.dumps(definition, indent=1) + "\n").encode())
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise FolderError(f"cannot use {file} ({error}): give another folder with --out.") from error
    different = [name for name in definition if found.get(name) != definition[name]]
    if different:
        raise FolderError(
            f"{folder} holds another search ({', '.join(different)} differ): give another --out, or delete that folder."
        )
