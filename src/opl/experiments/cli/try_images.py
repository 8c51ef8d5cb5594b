"""`opl try FOLDER|HUB_ID`: does OPL help on these images?"""

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
    from ..data.read.pack import PackFacts
    from ..item import Item
    from ..tryout.experiment import Chosen, Experiment
    from ..tryout.rounds import Outcome

INTERRUPTED = 130  # the exit code that says so to the shell


@dataclass(frozen=True)
class Try(Flags):
    """CE against CE+OPL on your own images, several seeds within a time: a table with intervals, a verdict, a page."""

    target: Positional[str]
    """A folder of class folders, a CSV or Parquet file (or a folder of them), or a Hub id such as owner/name."""
    minutes: Annotated[float, Range(0, 100_000, above=True)] = 30.0
    """The time for all of it."""
    settings: Annotated[Preferences, OmitArgPrefixes] = field(default_factory=Preferences)
    out: Path = OUT
    """The runs go to OUT/try/NAME; the same command resumes them."""
    jobs: Annotated[int, Range(0, 1024)] = 0
    """Runs at a time; 0: one for each accelerator, or without one two if there are two cores."""
    dry_run: bool = False
    """Look at the images, measure and plan, and train nothing."""
    json: bool = False
    """Print the table as JSON."""

    def run(self) -> int:
        """Look at the images, train what fits into the time, and tell what was found."""
        from ..runner.executor import Placement
        from ..tryout.experiment import Experiment
        from ..tryout.location import short_name
        from ..tryout.rounds import Clock

        clock = Clock(self.minutes)
        name = short_name(self.target)
        folder = self.out / "try" / name
        accelerators = _accelerators()
        jobs = self.jobs or accelerators or min(2, os.cpu_count() or 1)
        experiment = Experiment(self.target, name, folder, self.settings, jobs, clock)
        self._say(f"reading the pictures of {self.target} ...")
        facts = experiment.prepare(accelerators > 0)
        self._list_left_out(folder, facts)
        with Placement(jobs=jobs).executor(experiment.folder, short=False) as executor:
            self._say(f"{sum(facts.sizes):,} images are decoded; measuring the speed of this machine ...")
            chosen = experiment.choose(facts, executor)
            self._show_choice(experiment, facts, chosen)
            if self.dry_run:
                return 0
            item = self._item(experiment, facts)
            try:
                outcome = experiment.train(chosen, facts, executor)
            except KeyboardInterrupt:
                raise self._stopped(experiment, facts, chosen) from None
        return self._finish(experiment, facts, chosen, item, outcome)

    def _list_left_out(self, folder: Path, facts: "PackFacts") -> None:
        from ..tryout.words import LEFT_OUT

        if facts.left_out:
            (folder / LEFT_OUT).write_text("\n".join(facts.left_out) + "\n", errors="backslashreplace")
            self._say(f"{folder / LEFT_OUT} lists all {len(facts.left_out):,} pictures that cannot be read")

    def _show_choice(self, experiment: "Experiment", facts: "PackFacts", chosen: "Chosen") -> None:
        from ..tryout.arms import ARMS
        from ..tryout.words import describe_images, print_choice, warnings_about

        choice = chosen.choice
        rows = {name: (text, "") for name, text in describe_images(facts).items()}
        start = f", from {choice.pretrained}" if choice.pretrained else ""
        used = f" of {choice.train_images:,} training images, to fit the time" if choice.train_images else ""
        rows |= {
            "network": (f"{choice.network} on {choice.size} x {choice.size} pixels{start}", "--network --size"),
            "training": (
                f"{choice.epochs} epochs{used}, batches of {choice.batch_size}, SGD with learning rate {choice.lr:g} "
                f"and a cosine, random crops, flips {choice.flip:g}, precision {choice.precision}",
                "--epochs --batch-size --lr --flip --precision",
            ),
            "methods": (
                f"{', '.join(arm.label for arm in ARMS)} (weight {choice.weight:g}, gamma {choice.gamma:g})",
                "--weight --gamma",
            ),
            "seeds": (self._describe_seeds(experiment, chosen), "--seeds --jobs"),
            "time": (
                f"about {chosen.seconds / 60:.1f} minutes at {chosen.images_per_second:,.0f} images/s a run, of "
                f"{self.minutes:g} minutes",
                "--minutes",
            ),
        }
        print_choice(f"opl try {self.target}", rows, [*facts.notes, *warnings_about(facts)])

    def _describe_seeds(self, experiment: "Experiment", chosen: "Chosen") -> str:
        more = "" if self.settings.seeds else ", more if there is time left"
        return f"{chosen.seeds} of each method{more}, {experiment.jobs} at a time"

    def _item(self, experiment: "Experiment", facts: "PackFacts") -> "Item":
        """The table of the folder, which is kept there for its page."""
        from ..tryout.arms import ARMS
        from ..tryout.stored import build_item, write_item
        from ..tryout.words import describe_data, is_imbalanced

        arms = [(arm.label, f"{experiment.name}-{arm.suffix}") for arm in ARMS]
        item = build_item(experiment.name, arms, is_imbalanced(facts), describe_data(facts), self._command())
        write_item(experiment.folder, item)
        return item

    def _finish(
        self, experiment: "Experiment", facts: "PackFacts", chosen: "Chosen", item: "Item", outcome: "Outcome"
    ) -> int:
        """Write and print what was found; 1 if a run failed."""
        from ..paper import ITEMS
        from ..results.tables import as_json
        from ..results.text import show
        from ..tryout.words import write_results

        seeds = experiment.finished_seeds(facts, chosen)
        if not seeds:
            why = f"; the first that failed: {outcome.failed[0].describe()}" if outcome.failed else ""
            raise OplError(
                f"no seed was finished with all methods in {self.minutes:g} minutes{why}: resume with {self._command()}"
            )
        table, effect, page = write_results(experiment.folder, item, ITEMS)
        if self.json:
            print(json.dumps(as_json(table), indent=1))
        else:
            show(table)
            print(effect)
            print(f"table.md, table.json and report.html are in {page.parent}")
        self._say(self._next(chosen, seeds, outcome))
        return 1 if outcome.failed else 0

    def _next(self, chosen: "Chosen", seeds: list[int], outcome: "Outcome") -> str:
        """What was done, and what to do next."""
        if outcome.late or outcome.skipped:
            words = f"the time was over after {len(seeds)} of {chosen.seeds} seeds"
            return f"{words}; this does the others: {self._command()}"
        more = self._command({"seeds": 2 * max(len(seeds), chosen.seeds)})
        return f"{len(seeds)} of each method are finished; more seeds make the interval narrower: {more}"

    def _stopped(self, experiment: "Experiment", facts: "PackFacts", chosen: "Chosen") -> StoppedError:
        seeds = experiment.finished_seeds(facts, chosen)
        return StoppedError(
            f"stopped; {len(seeds)} of {chosen.seeds} seeds are finished and kept, and this resumes: {self._command()}",
            INTERRUPTED,
        )

    def _command(self, changes: dict[str, Any] | None = None) -> str:
        from dataclasses import replace

        from ..tryout.words import command

        return command(self.target, self.out, self.minutes, replace(self.settings, **(changes or {})))

    def _say(self, words: str) -> None:
        print(f"opl: {words}", file=sys.stderr, flush=True)


def _accelerators() -> int:
    import torch

    return torch.cuda.device_count()
