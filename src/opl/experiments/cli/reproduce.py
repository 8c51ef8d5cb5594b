"""`opl reproduce ITEM`: all runs of a table or figure, then the paper's numbers and ours side by side."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from tyro.conf import OmitArgPrefixes, Positional

from ..._ranges import check_settings
from ...errors import FolderError, OptionError
from ..charts.rendering import Order
from ..item import Item
from ..paper import ITEMS, RECIPES, item, recipe
from ..results.text import show_lines
from ..runner.jobs import Job, jobs_of, run_all
from ..runner.measures import measure_all
from ..runner.placement import HERE, Placement
from ..scales import Scale
from . import plan
from .flags import OUT, Flags, Seeds, read_flags
from .waiting import waiting

if TYPE_CHECKING:
    from ..results.runs import Run


@dataclass(frozen=True)
class Reproduce(Flags):
    """All runs of a table or figure, then the paper's numbers and ours side by side."""

    item: Positional[str]
    """For instance table-s1; `opl recipes` lists them."""
    scale: Scale = "small"
    seeds: Seeds = 0
    """Runs of each row; 0 takes the table's own number, at the tiny scale at most two."""
    out: Path = OUT
    place: Annotated[Placement, OmitArgPrefixes] = HERE
    json: bool = False
    """Print the table as JSON."""
    order: Order = "class"
    """Of the classes in a similarity matrix (figures 4 and s3); the other items have none."""
    dry_run: bool = False
    """Print the runs, which of them are done, which data sets are here and the expected time, and train nothing."""

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read the flags, and check them; those of the placement are named as they are given."""
        job: Self = read_flags(cls, words, prog="opl reproduce")
        for flags in (job.place, job):
            check_settings(flags, "--")
        return job

    def run(self) -> int:
        """Run what is not finished, then print the table, or draw the figure."""
        chosen = self._choose()
        with waiting(f"loading the recipes of {chosen.name}"):
            recipe(chosen.at(self.scale)[0].recipe, self.scale)
        if self.dry_run:
            jobs = self._jobs(self._with_data(chosen), self._folder(chosen))
            plan.show(chosen, jobs, self.scale, self.place)
            return 0
        present = self._with_data(chosen)
        folder = self._make_folder(chosen)
        self._refuse_other_settings(chosen, folder)
        failed = self._run_all(present, folder)
        runs = _comparable_runs(folder)
        self._report(chosen, runs, folder)
        if chosen.figure and not failed:
            self._draw(present, runs, folder)
        return 1 if failed else 0

    def _choose(self) -> Item:
        """The item, where all flags fit it."""
        chosen = item(self.item)
        if not chosen.rows:
            raise OptionError(f"{chosen.name} cannot be drawn yet: {chosen.note}")
        if not chosen.at(self.scale):
            raise OptionError(f"{chosen.name} has no runs at scale {self.scale}: give another --scale.")
        return chosen

    def _folder(self, chosen: Item) -> Path:
        """The folder of its runs, absolute since on a cluster processes start elsewhere."""
        return (self.out / self.scale / (chosen.home or chosen.name)).absolute()

    def _jobs(self, chosen: Item, folder: Path) -> list[Job]:
        """All runs of an item, done or not."""
        seeds = self.seeds or chosen.seeds_at(self.scale)
        return jobs_of(chosen, self.scale, seeds, folder, lambda name: recipe(name, self.scale))

    def _make_folder(self, chosen: Item) -> Path:
        """The folder of its runs, which is made."""
        folder = self.out / self.scale / (chosen.home or chosen.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(
                f"cannot write to {folder} ({error.strerror}): give another folder with --out."
            ) from error
        return folder

    def _refuse_other_settings(self, chosen: Item, folder: Path) -> None:
        """Stop before anything is trained if a run of these rows, or one that they come after, cannot be compared."""
        from ..results.runs import DAMAGED, REFUSED

        names = {job.recipe for job in self._jobs(chosen, folder)}
        wrong = [run for run in _comparable_runs(folder) if run.state in (REFUSED, DAMAGED) and run.name in names]
        if wrong:
            more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
            raise FolderError(
                f"{wrong[0].folder.path} cannot be compared: {wrong[0].sentence}{more}; move it elsewhere or delete "
                "it, or give another --out."
            )

    def _with_data(self, chosen: Item) -> Item:
        """The item without the rows whose data set is not here, at the small scale; says which, unless it is all."""
        needed = dict.fromkeys(row.needs for row in chosen.at("small") if row.needs and self.scale == "small")
        if not needed:
            return chosen
        from ..data import find, is_here

        absent = [name for name in needed if not is_here(name)]
        present = replace(chosen, rows=tuple(row for row in chosen.rows if row.needs not in absent))
        if not present.at("small"):
            for name in absent if not self.dry_run else ():
                find(name)  # from the network, or with the error that says how to get it
            return chosen
        for name in absent:
            count = sum(row.needs == name for row in chosen.at("small"))
            show_lines([f"left out: {count} rows that need {name}, which is not here: see opl data"], stderr=True)
        return present

    def _run_all(self, chosen: Item, folder: Path) -> list[Job]:
        """Train and measure what is not there yet; the runs that failed."""
        folder = folder.absolute()  # on a cluster, processes start elsewhere
        jobs = self._jobs(chosen, folder)
        self._find_data(jobs)
        show_lines(plan.announce(jobs, self.place), stderr=True)
        with self.place.executor(folder, self.scale == "tiny") as executor:
            return run_all(jobs, self.scale, folder, executor, self.place.resources) or measure_all(
                chosen, jobs, self.scale, folder, executor, self.place.resources
            )

    def _find_data(self, jobs: list[Job]) -> None:
        """Stop before anything is started if the data set of a run is nowhere; on a cluster, only its machines know."""
        if self.scale == "tiny" or self.place.on != "local":
            return
        from ..data import find

        for name in plan.data_sets([job for job in jobs if not job.folder.done], self.scale):
            find(name)

    def _report(self, chosen: Item, runs: "list[Run]", folder: Path) -> None:
        """Write the table and the page, and print the table."""
        from ..report.page import write_report
        from ..results.tables import as_json, build_table
        from ..results.text import document, show

        table = build_table(chosen, runs, self.scale)
        data = json.dumps(as_json(table), indent=1)
        stem = chosen.name if chosen.home else "table"  # the runs of another item keep their own table
        (folder / f"{stem}.md").write_text(document(table) + "\n")
        (folder / f"{stem}.json").write_text(data + "\n")
        page = write_report(folder, ITEMS, runs=runs)
        if self.json:
            print(data)
            return
        show(table)
        show_lines([f"{stem}.md, {stem}.json and report.html are in {page.parent}"])

    def _draw(self, chosen: Item, runs: "list[Run]", folder: Path) -> None:
        """Draw the figure, and print what it says."""
        from ..charts.paper import draw

        files, words = draw(chosen, runs, folder, self.scale, self.order)
        if not self.json:
            show_lines([*words, f"{', '.join(file.name for file in files)} are there too"])


def _comparable_runs(folder: Path) -> "list[Run]":
    """The runs of a folder; those that may not be compared say so."""
    from ..results.conformity import screen
    from ..results.runs import read_runs

    return screen(read_runs(folder), ITEMS.values(), RECIPES)
