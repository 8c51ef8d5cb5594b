"""`opl try FOLDER|HUB_ID`: train with and without OPL on your images and compare."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional

from ..._ranges import Range
from ...errors import OplError, StoppedError
from ..tryout.preferences import Preferences
from .flags import OUT, Flags

if TYPE_CHECKING:
    from ..data.user_images import ImageFacts
    from ..tryout.plan import Outcome
    from ..tryout.trial import Trial, TrialSettings

INTERRUPTED = 130  # the exit code of interrupted commands


@dataclass(frozen=True)
class Try(Flags):
    """Train with and without OPL on your images and compare: several seeds within a time budget, a table, a page."""

    target: Positional[str]
    """A folder of class folders, a CSV or Parquet file (or a folder of them), or a Hub id such as owner/name."""
    minutes: Annotated[float, Range(0, 100_000, above=True)] = 30.0
    """The time budget, in minutes."""
    settings: Annotated[Preferences, OmitArgPrefixes] = field(default_factory=Preferences)
    out: Path = OUT
    """Runs are written to OUT/try/NAME; the same command resumes them."""
    jobs: Annotated[int, Range(0, 1024)] = 0
    """Parallel runs; 0: one per accelerator; without an accelerator two, if there are two cores."""
    dry_run: bool = False
    """Decode the images, measure the speed and print the plan, without training."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        """Decode the images, train what fits into the time, and print the comparison."""
        import torch

        from ..data.user_images import short_name
        from ..run_folder import own
        from ..tryout.plan import Clock
        from ..tryout.trial import Trial

        clock = Clock(self.minutes)
        name = short_name(self.target)
        accelerators = torch.cuda.device_count()
        jobs = self.jobs or accelerators or min(2, os.cpu_count() or 1)
        trial = Trial(self.target, name, self.out / "try" / name, self.settings, jobs, clock)
        self._print(f"reading the images of {self.target} ...")
        facts = trial.prepare(accelerators > 0)
        with own(self.out, "try", name):
            trial.check_unchanged()
            return self._compare(trial, facts)

    def _compare(self, trial: "Trial", facts: "ImageFacts") -> int:
        """Choose all settings, train what fits into the time, and print the comparison."""
        from ..runner.placement import Placement

        self._list_left_out(trial.home, facts)
        with Placement(jobs=trial.jobs).executor(trial.home, short=False) as executor:
            measuring = "" if trial.earlier else "; measuring the speed of this machine ..."
            self._print(f"{sum(facts.sizes):,} images decoded{measuring}")
            chosen = trial.choose(facts, executor)
            self._show_choice(trial, facts, chosen)
            if self.dry_run:
                return 0
            try:
                outcome = trial.train(chosen, executor)
            except KeyboardInterrupt:
                seeds, planned = trial.finished_seeds(chosen), trial.planned_seeds(chosen)
                sentence = f"stopped after {len(seeds)} of {len(planned)} seeds, which are kept"
                raise StoppedError(f"{sentence}; resume with {self._command()}", INTERRUPTED) from None
        return self._finish(trial, facts, chosen, outcome)

    def _list_left_out(self, folder: Path, facts: "ImageFacts") -> None:
        from ..files import write_whole
        from ..tryout.overview import LEFT_OUT

        if facts.left_out:
            write_whole(folder / LEFT_OUT, "\n".join(facts.left_out) + "\n")
            self._print(f"{len(facts.left_out):,} unreadable images are listed in {folder / LEFT_OUT}")

    def _show_choice(self, trial: "Trial", facts: "ImageFacts", chosen: "TrialSettings") -> None:
        from ..tryout.overview import describe_images, print_choice, warnings_about
        from ..tryout.trial import BASELINE, METHOD

        choice, seeds = chosen.choice, trial.planned_seeds(chosen)
        rows = {name: (text, "") for name, text in describe_images(facts).items()}
        used = f" of {choice.train_images:,} training images (to fit the time)" if choice.train_images else ""
        more = "" if self.settings.seeds or trial.is_later else ", more if time is left"
        rows |= {
            "network": (
                f"{choice.network} on {choice.size} x {choice.size} pixels, {choice.describe_start()}",
                "--network --weights --size",
            ),
            "training": (
                f"{choice.epochs} epochs{used}, batch size {choice.batch_size}, {choice.describe_rates()}, random "
                f"crops, flips {choice.flip:g}, precision {choice.precision}",
                "--epochs --batch-size --lr --flip --precision",
            ),
            "methods": (
                f"{BASELINE}, and {METHOD} with weight {choice.weight:g}, gamma {choice.gamma:g}",
                "--weight --gamma",
            ),
            "seeds": (f"{len(seeds)} per method{more} ({trial.jobs} in parallel)", "--seeds --jobs"),
            "time": (
                f"about {trial.seconds(chosen, seeds) / 60:.1f} of {self.minutes:g} minutes, at "
                f"{chosen.images_per_second:,.0f} images/s per run",
                "--minutes",
            ),
        }
        print_choice(f"opl try {self.target}", rows, [*facts.notes, *warnings_about(facts)])

    def _finish(self, trial: "Trial", facts: "ImageFacts", chosen: "TrialSettings", outcome: "Outcome") -> int:
        """Write and print the comparison, the verdict last; return 1 if a run failed."""
        from ..paper import ITEMS
        from ..results.tables import as_json
        from ..tryout.overview import describe_data, is_imbalanced
        from ..tryout.verdict import build_item, judge, show_box, show_tables, write_results

        seeds, planned = trial.finished_seeds(chosen), len(trial.planned_seeds(chosen))
        if not seeds:
            reason = f" (first failure: {outcome.failed[0].describe()})" if outcome.failed else ""
            raise OplError(
                f"no seed finished with all methods in {self.minutes:g} minutes{reason}; resume with {self._command()}"
            )
        arms = [(arm.label, arm.recipe.name) for arm in trial.all_arms(chosen.choice)]
        current = trial.arms(chosen.choice)[-1].recipe.name
        item = build_item(trial.name, arms, current, is_imbalanced(facts), describe_data(facts), self._command())
        stopped = f"time was up after {len(seeds)} of {planned} seeds" if outcome.late or outcome.skipped else ""
        verdict = judge(trial.home, item, ITEMS.values(), stopped)
        flags = verdict.step.flags
        command = verdict.step.code if flags is None else self._next(trial, chosen, flags)
        page = write_results(trial.home, item, verdict, command, ITEMS)
        if self.json:
            print(json.dumps(as_json(verdict.table), indent=1))
        else:
            show_tables(item, verdict)
        show_box(verdict, command, self.out / "try" / trial.home.name / page.name, stderr=self.json)
        return 1 if outcome.failed else 0

    def _next(self, trial: "Trial", chosen: "TrialSettings", flags: Mapping[str, float]) -> str:
        """Return the next command, with the time that it needs."""
        from ..tryout.plan import MARGIN, PAGE_SECONDS

        if not flags:
            return self._command()
        seconds = trial.seconds_of_next(chosen, int(flags.get("seeds", 0)))
        return self._command(flags, max(1.0, ceil((MARGIN * seconds + 2 * PAGE_SECONDS) / 60)))

    def _command(self, changes: Mapping[str, Any] | None = None, minutes: float | None = None) -> str:
        from ..tryout.overview import command

        return command(self.target, self.out, minutes or self.minutes, replace(self.settings, **(changes or {})))

    def _print(self, text: str) -> None:
        print(f"opl: {text}", file=sys.stderr, flush=True)
