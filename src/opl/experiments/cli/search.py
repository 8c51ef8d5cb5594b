"""`opl search RECIPE`: search any settings of a recipe by grid or Optuna, on validation only."""

import json
import shlex
import sys
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from ..._ranges import Range
from ...errors import OplError
from ..files import write_whole
from ..paper import check_recipe_name, cost_of, recipe
from ..run_folder import own
from ..runner.placement import HERE, Jobs, Placement
from ..scales import Scale
from ..search.execution import Execution, as_json, check_recipe, claim_folder, markdown, sentences, table_of
from ..search.samplers import Goal, Grid, Metric, OptunaSampler, Sampler, Setting, Trial, parse_space
from ..settings import to_json
from .flags import OUT, check_flags, read_flags, show_status

if TYPE_CHECKING:
    from ..recipe import Recipe

WINNER = "winner.json"


@dataclass(frozen=True)
class Search:
    """Search any settings of a recipe by grid or Optuna, on validation only; other flags are settings of all trials."""

    recipe: Positional[str]
    """A recipe, such as digits-opl; `opl recipes` lists them."""
    over: tuple[str, ...] = ()
    """Settings with their values: method.weight=0.1:2:log (a range), method.gamma=0.5,1,2 (a list)."""
    by: Literal["grid", "optuna"] = "grid"
    """All combinations (five points per range, or 7 with method.weight=0.1:2:log:7), or trials proposed by Optuna."""
    trials: Jobs = 20
    """Number of trials, for Optuna."""
    batch: Annotated[int, Range(0, 1024)] = 0
    """Trials that Optuna proposes together; 0 means as many as --jobs."""
    seeds: Jobs = 1
    """Runs per trial, which are averaged; the first has the recipe's seed."""
    prune_at: tuple[int, ...] = ()
    """Epochs after which bad trials stop: the worse half of a grid, or the trials below Optuna's median."""
    metric: Metric = "val/top1"
    """The metric to compare; val/loss is minimized."""
    scale: Scale = "small"
    out: Path = OUT
    placement: Annotated[Placement, OmitArgPrefixes] = HERE
    settings: tyro.conf.Suppress[tuple[str, ...]] = ()

    @classmethod
    def parse(cls, argv: list[str]) -> "Search":
        """Read the flags; flags of the recipe's settings are kept for `_build`."""
        job: Search
        job, rest = read_flags(cls, argv, prog="opl search", return_unknown_args=True)
        check_flags(job)
        check_recipe_name(job.recipe)
        return replace(job, settings=tuple(rest))

    def run(self) -> int:
        """Search, then print the table and write the figure and the winner."""
        with show_status(f"loading torch and the recipe {self.recipe}"):
            base = self._build([])
        check_recipe(base, self.prune_at)
        space, goal = parse_space(self.over), Goal(self.metric)
        folder = (self.out / "search" / base.name).absolute()
        seeds = tuple(base.seed + number for number in range(self.seeds))
        execution = Execution(self._build, folder, goal, seeds, tuple(sorted(self.prune_at)))
        for setting in space:  # a wrong name or value ends the search before anything is trained
            for value in setting.grid():
                check_recipe(self._build([f"--{setting.name}", value]), self.prune_at)
        with own(self.out.absolute(), "search", base.name):
            claim_folder(folder, self._definition(base))
            batch = self.batch or self.placement.jobs
            optuna = (space, goal, folder, self.trials, batch, base.seed)
            sampler: Sampler = OptunaSampler(*optuna) if self.by == "optuna" else Grid(space, goal)
            self._announce(space)
            with self.placement.executor(folder, self.scale == "tiny") as executor:
                trials = execution.run(sampler, executor, self.placement.resources)
            return self._finish(trials, sampler, space, goal, folder)

    def _announce(self, space: tuple[Setting, ...]) -> None:
        """Print the cost of the search before it starts."""
        from ..results.text import show_lines

        trials = self.trials if self.by == "optuna" else prod(len(setting.grid()) for setting in space)
        runs = f"{trials} trials, up to {trials * self.seeds} runs ({self.placement.jobs} in parallel)"
        show_lines([f"{runs}; a run: {cost_of(self.recipe) or 'not measured'}"], stderr=True)

    def _build(self, flags: list[str]) -> "Recipe":
        """Return the recipe with the settings of all trials and the flags of one trial."""
        from .flags import change_settings

        return change_settings(recipe(self.recipe, self.scale), [*self.settings, *flags], Search)

    def _definition(self, base: "Recipe") -> dict[str, Any]:
        """Return the settings that must be equal for a search to continue; the number of Optuna's trials may grow."""
        optuna = {"batch": self.batch or self.placement.jobs} if self.by == "optuna" else {}
        chosen = {"over": list(self.over), "by": self.by, "seeds": self.seeds, "prune_at": sorted(self.prune_at)}
        return {"recipe": to_json(base), **chosen, "metric": self.metric, **optuna}

    def _finish(
        self, trials: list[Trial], sampler: Sampler, space: tuple[Setting, ...], goal: Goal, folder: Path
    ) -> int:
        """Write and print the results."""
        from ..results.text import show_lines, show_rows

        best = goal.best(trials)
        importance = sampler.importance(trials)
        title = f"{self.recipe}, scale {self.scale}: search by {self.by}"
        write_whole(folder / "trials.md", markdown(trials, goal, importance, title))
        write_whole(folder / "trials.json", (json.dumps(as_json(trials, goal, importance), indent=1) + "\n").encode())
        show_rows(title, *table_of(trials, goal))
        show_lines(sentences(trials, goal, importance))
        if not best:
            raise OplError(f"no trial finished: check the logs in {folder}.")
        winner = self._build(best[0].flags)
        write_whole(folder / WINNER, (json.dumps(to_json(winner), indent=1) + "\n").encode())
        self._draw(best, importance, space, folder)
        print(f"written to {folder}: {WINNER}, trials.md, .json, .pdf and .png")
        print(f"next: opl train --recipe {shlex.quote(str(folder / WINNER))} tests the winner")
        failed = [trial for trial in trials if trial.outcome == "failed"]
        if failed:
            print(f"{len(failed)} trials failed; see the log of {failed[0].name}", file=sys.stderr)
        return 0

    def _draw(self, best: list[Trial], importance: dict[str, float], space: tuple[Setting, ...], folder: Path) -> None:
        from ..charts.figure import add_footer, describe_runs, save
        from ..charts.trials import draw
        from ..results.runs import read_runs

        settings = {setting.name: [trial.settings[setting.name] for trial in best] for setting in space}
        values = [trial.value for trial in best if trial.value is not None]
        log = [setting.name for setting in space if setting.log]
        figure = draw(settings, values, 0, self.metric, importance, log)
        add_footer(figure, describe_runs([run for run in read_runs(folder) if run.state == "done"]))
        save(figure, folder / "trials")
