"""`opl try FOLDER|HUB_ID`: train with and without OPL on your images and compare."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional

from ..._ranges import Range
from ...errors import OplError, StoppedError
from ..tryout.preferences import Preferences
from .flags import OUT, Flags

if TYPE_CHECKING:
    from ..data.user_images import ImageFacts
    from ..item import Item
    from ..tryout.plan import Outcome
    from ..tryout.trial import Chosen, Trial

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
    """The runs go to OUT/try/NAME; the same command resumes them."""
    jobs: Annotated[int, Range(0, 1024)] = 0
    """Parallel runs; 0: one per accelerator; without an accelerator two, if there are two cores."""
    dry_run: bool = False
    """Decode the images, measure the speed and print the plan, without training."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        """Decode the images, train what fits into the time, and print the comparison."""
        from ..data.user_images import short_name
        from ..runner.placement import Placement
        from ..tryout.plan import Clock
        from ..tryout.trial import Trial

        clock = Clock(self.minutes)
        name = short_name(self.target)
        folder = self.out / "try" / name
        accelerators = _accelerators()
        jobs = self.jobs or accelerators or min(2, os.cpu_count() or 1)
        trial = Trial(self.target, name, folder, self.settings, jobs, clock)
        self._say(f"reading the images of {self.target} ...")
        facts = trial.prepare(accelerators > 0)
        self._list_left_out(folder, facts)
        with Placement(jobs=jobs).executor(trial.folder, short=False) as executor:
            self._say(f"{sum(facts.sizes):,} images decoded; measuring the speed of this machine ...")
            chosen = trial.choose(facts, executor)
            self._show_choice(trial, facts, chosen)
            if self.dry_run:
                return 0
            item = self._item(trial, facts)
            try:
                outcome = trial.train(chosen, facts, executor)
            except KeyboardInterrupt:
                raise self._stopped(trial, chosen) from None
        return self._finish(trial, chosen, item, outcome)

    def _list_left_out(self, folder: Path, facts: "ImageFacts") -> None:
        from ..files import write_whole
        from ..tryout.advice import LEFT_OUT

        if facts.left_out:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / LEFT_OUT, ("\n".join(facts.left_out) + "\n").encode(errors="backslashreplace"))
            self._say(f"{len(facts.left_out):,} unreadable images are listed in {folder / LEFT_OUT}")

    def _show_choice(self, trial: "Trial", facts: "ImageFacts", chosen: "Chosen") -> None:
        from ..tryout.advice import describe_images, print_choice, warnings_about
        from ..tryout.choice import ARMS

        choice = chosen.choice
        rows = {name: (text, "") for name, text in describe_images(facts).items()}
        start = f", from {choice.pretrained}" if choice.pretrained else ""
        used = f" of {choice.train_images:,} training images (to fit the time)" if choice.train_images else ""
        rows |= {
            "network": (f"{choice.network} on {choice.size} x {choice.size} pixels{start}", "--network --size"),
            "training": (
                f"{choice.epochs} epochs{used}, batch size {choice.batch_size}, SGD with learning rate {choice.lr:g} "
                f"(cosine), random crops, flips {choice.flip:g}, precision {choice.precision}",
                "--epochs --batch-size --lr --flip --precision",
            ),
            "methods": (
                f"{', '.join(arm.label for arm in ARMS)} (weight {choice.weight:g}, gamma {choice.gamma:g})",
                "--weight --gamma",
            ),
            "seeds": (self._describe_seeds(trial, chosen), "--seeds --jobs"),
            "time": (
                f"about {chosen.seconds / 60:.1f} of {self.minutes:g} minutes, at {chosen.images_per_second:,.0f} "
                "images/s per run",
                "--minutes",
            ),
        }
        print_choice(f"opl try {self.target}", rows, [*facts.notes, *warnings_about(facts)])

    def _describe_seeds(self, trial: "Trial", chosen: "Chosen") -> str:
        more = "" if self.settings.seeds else ", more if time is left"
        return f"{chosen.seeds} per method{more} ({trial.jobs} in parallel)"

    def _item(self, trial: "Trial", facts: "ImageFacts") -> "Item":
        """Return the table of the folder, which is kept there for its page."""
        from ..tryout.advice import build_item, describe_data, is_imbalanced, write_item
        from ..tryout.choice import ARMS

        arms = [(arm.label, f"{trial.name}-{arm.suffix}") for arm in ARMS]
        item = build_item(trial.name, arms, is_imbalanced(facts), describe_data(facts), self._command())
        write_item(trial.folder, item)
        return item

    def _finish(self, trial: "Trial", chosen: "Chosen", item: "Item", outcome: "Outcome") -> int:
        """Write and print the comparison; return 1 if a run failed."""
        from ..paper import ITEMS
        from ..results.tables import as_json
        from ..results.text import show, show_rows
        from ..tryout.advice import write_results

        seeds = trial.finished_seeds(chosen)
        if not seeds:
            why = f" (first failure: {outcome.failed[0].describe()})" if outcome.failed else ""
            raise OplError(
                f"no seed finished with all methods in {self.minutes:g} minutes{why}; resume with {self._command()}"
            )
        results = write_results(trial.folder, item, ITEMS)
        if self.json:
            print(json.dumps(as_json(results.table), indent=1))
        else:
            show(results.table)
            title = f"What else changed: {item.rows[1].label} vs {item.rows[0].label} (arrow: better)"
            show_rows(title, ("measure", "before → after", "difference"), results.measures)
            print("\n".join(line for line in (results.effect, results.moved) if line))
            print(f"table.md, table.json and report.html are in {results.page.parent}")
        self._say(self._next(chosen, seeds, outcome))
        return 1 if outcome.failed else 0

    def _next(self, chosen: "Chosen", seeds: list[int], outcome: "Outcome") -> str:
        """Return what was done, and the next command."""
        if outcome.late or outcome.skipped:
            return f"time is up after {len(seeds)} of {chosen.seeds} seeds; continue with {self._command()}"
        more = self._command({"seeds": 2 * max(len(seeds), chosen.seeds)})
        finished = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'} per method finished"
        return f"{finished}; narrow the interval with more seeds: {more}"

    def _stopped(self, trial: "Trial", chosen: "Chosen") -> StoppedError:
        seeds = trial.finished_seeds(chosen)
        return StoppedError(
            f"stopped after {len(seeds)} of {chosen.seeds} seeds, which are kept; resume with {self._command()}",
            INTERRUPTED,
        )

    def _command(self, changes: dict[str, Any] | None = None) -> str:
        from dataclasses import replace

        from ..tryout.advice import command

        return command(self.target, self.out, self.minutes, replace(self.settings, **(changes or {})))

    def _say(self, text: str) -> None:
        print(f"opl: {text}", file=sys.stderr, flush=True)


def _accelerators() -> int:
    import torch

    return torch.cuda.device_count()
