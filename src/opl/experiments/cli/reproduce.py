"""`opl reproduce ITEM`: train all runs of a table or figure, then compare with the paper."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional

from ...errors import FolderError, OptionError
from ..charts.figure import Order
from ..files import make_folder, write_whole
from ..item import Item
from ..paper import ITEMS, item, recipe
from ..results.text import show_lines
from ..run_folder import unwritable
from ..runner.display import format_seconds
from ..runner.jobs import Job, jobs_of, measure_all, run_all, seconds_left
from ..runner.placement import HERE, Placement
from ..scales import Scale
from ..settings import FREE, describe_changes, to_json
from .flags import OUT, Flags, Seeds, show_status

if TYPE_CHECKING:
    from ..results.runs import Run


@dataclass(frozen=True)
class Reproduce(Flags):
    """Train all runs of a table or figure, then compare with the paper."""

    item: Positional[str]
    """A table or figure, such as table-s1; `opl recipes` lists them."""
    scale: Scale = "small"
    seeds: Seeds = 0
    """Seeds per row; 0 uses the number of the table, at most two at the tiny scale."""
    out: Path = OUT
    placement: Annotated[Placement, OmitArgPrefixes] = HERE
    json: bool = False
    """Print the table as JSON."""
    order: Order = "class"
    """The order of classes in the similarity matrices of figures 4 and s3; other items ignore it."""
    dry_run: bool = False
    """Print the runs, their progress, the data sets and the expected time, and train nothing."""

    def run(self) -> int:
        """Train and measure unfinished runs, then print the table or draw the figure."""
        chosen = item(self.item)
        if not chosen.rows:
            raise OptionError(f"{chosen.name} cannot be drawn yet: {chosen.note}")
        if not chosen.at(self.scale):
            raise OptionError(f"{chosen.name} has no runs at scale {self.scale}: choose another --scale.")
        with show_status(f"loading the recipes of {chosen.name}"):
            recipe(chosen.at(self.scale)[0].recipe, self.scale)
        present = self._with_data(chosen)
        names = self.scale, chosen.home or chosen.name
        folder = self.out.joinpath(*names)
        if self.dry_run:
            _show_plan(chosen, self._jobs(present, folder), self.scale, self.placement)
            return 0
        try:
            make_folder(self.out, *names)
        except OSError as error:
            raise unwritable(folder, error) from error
        self._refuse_other_settings(chosen, folder)
        failed = self._run_all(present, folder.absolute())  # processes on a cluster start in other folders
        runs = _comparable_runs(folder)
        self._report(chosen, runs, folder)
        if chosen.figure and not failed:
            self._draw(present, runs, folder)
        return 1 if failed else 0

    def _jobs(self, chosen: Item, folder: Path) -> list[Job]:
        """Return all runs of an item, finished or not."""
        seeds = self.seeds or chosen.seeds_at(self.scale)
        return jobs_of(chosen, self.scale, seeds, folder, lambda name: recipe(name, self.scale))

    def _refuse_other_settings(self, chosen: Item, folder: Path) -> None:
        """Raise an error before anything is trained if an existing run of the item is incomparable or damaged."""
        from ..results.runs import DAMAGED, REFUSED

        names = {job.recipe for job in self._jobs(chosen, folder)}
        faults = {
            run.folder.path: self._changes_since(run) if run.state == "done" else run.sentence
            for run in _comparable_runs(folder)
            if run.name in names and run.state in ("done", REFUSED, DAMAGED)
        }
        wrong = [(path, sentence) for path, sentence in faults.items() if sentence]
        if wrong:
            path, sentence = wrong[0]
            more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
            raise FolderError(
                f"{path} cannot be compared: {sentence}{more}; move or delete it, or choose another --out."
            )

    def _changes_since(self, run: "Run") -> str:
        """Describe how the settings of a run, or of its `after` run, differ from the recipes; empty if equal."""
        from ..results.runs import inner
        from ..training.build import complete_settings

        def changes(settings: dict[str, Any]) -> str:
            current = to_json(recipe(str(settings["name"]), self.scale))
            return ", ".join(describe_changes(complete_settings(settings), current, FREE))

        if changed := changes(run.recipe):
            return f"other settings: {changed}"
        teacher = inner(inner(run.result, "after"), "recipe")
        changed = changes(teacher) if teacher else ""
        return f"it came after {teacher['name']} with other settings: {changed}" if changed else ""

    def _with_data(self, chosen: Item) -> Item:
        """Return the item without rows whose data set is missing at the small scale; print which, unless all are."""
        needed = dict.fromkeys(row.needs for row in chosen.at("small") if row.needs and self.scale == "small")
        if not needed:
            return chosen
        from ..data import find, is_here

        absent = [name for name in needed if not is_here(name)]
        present = replace(chosen, rows=tuple(row for row in chosen.rows if row.needs not in absent))
        if not present.at("small"):
            for name in absent if not self.dry_run else ():
                find(name)  # downloads it, or raises an error that explains how to get it
            return chosen
        for name in absent:
            count = sum(row.needs == name for row in chosen.at("small"))
            show_lines([f"left out: {count} rows that need {name}, which is missing (see opl data)"], stderr=True)
        return present

    def _run_all(self, chosen: Item, folder: Path) -> list[Job]:
        """Train and measure unfinished runs; return the runs that failed."""
        jobs = self._jobs(chosen, folder)
        if self.scale != "tiny" and self.placement.on == "local":  # on a cluster, only its machines know
            from ..data import find

            for name in _data_sets([job for job in jobs if not job.folder.done], self.scale):
                find(name)  # raises an error before anything starts if a data set is missing
        show_lines(announce(jobs, self.placement), stderr=True)
        with self.placement.executor(folder, self.scale == "tiny") as executor:
            return run_all(jobs, self.scale, folder, executor, self.placement.resources) or measure_all(
                chosen, jobs, self.scale, folder, executor, self.placement.resources
            )

    def _report(self, chosen: Item, runs: "list[Run]", folder: Path) -> None:
        """Write the table and the page, and print the table."""
        from ..report.page import write_report
        from ..results.tables import as_json, build_table
        from ..results.text import document, show

        table = build_table(chosen, runs, self.scale)
        data = json.dumps(as_json(table), indent=1)
        stem = chosen.name if chosen.home else "table"  # so that the table of the other item is kept
        write_whole(folder / f"{stem}.md", document(table) + "\n")
        write_whole(folder / f"{stem}.json", data + "\n")
        page = write_report(folder, ITEMS, runs=runs)
        if self.json:
            print(data)
            return
        show(table)
        show_lines([f"{stem}.md, {stem}.json and report.html are in {page.parent}"])

    def _draw(self, chosen: Item, runs: "list[Run]", folder: Path) -> None:
        """Draw the figure, and print its description."""
        from ..charts.figure import draw_item

        files, lines = draw_item(chosen, runs, folder, self.scale, self.order)
        if not self.json:
            show_lines([*lines, f"figure: {', '.join(file.name for file in files)}"])


def _comparable_runs(folder: Path) -> "list[Run]":
    """Read the runs of a folder; incomparable runs are marked, with the reason."""
    from ..results.conformity import screen
    from ..results.runs import read_runs

    return screen(read_runs(folder), ITEMS.values())


# The plan: what would be trained, and how long it takes.


def announce(jobs: Sequence[Job], placement: Placement) -> list[str]:
    """Describe the number of runs and the expected time in a line to print before they start; none if all are done."""
    _mark_done(jobs)
    remaining = sum(not job.ended for job in jobs)
    if not remaining:
        return []
    count = f"{remaining} run{'s' if remaining > 1 else ''}"
    done = f" left ({len(jobs) - remaining} of {len(jobs)} done)" if remaining < len(jobs) else ""
    return [f"{count}{done}, {_expected_time(jobs, placement)}"]


def _show_plan(item: Item, jobs: Sequence[Job], scale: Scale, placement: Placement) -> None:
    """Print all runs with their progress, the data sets, and the expected time."""
    from ..results.text import show_columns

    _mark_done(jobs)
    names = list(dict.fromkeys(job.recipe for job in jobs))
    show_lines([f"{item.name}: {item.title}, scale {scale}", ""])
    show_columns([(name, ", ".join(_progress(job) for job in jobs if job.recipe == name)) for name in names])
    done = sum(job.ended for job in jobs)
    time = f"{len(jobs) - done} to train: {_expected_time(jobs, placement)}" if done < len(jobs) else "nothing to train"
    show_lines(["", f"{done}/{len(jobs)} runs done, {time}", _describe_data(item, jobs, scale)])
    if item.cost:
        show_lines([f"cost per run: {item.cost}"])
    if any(scale in measure.scales for measure in item.measures):
        show_lines(["after training, opl evaluate measures each run, which takes more time"])


def _data_sets(jobs: Sequence[Job], scale: Scale) -> list[str]:
    """Return the known data sets that runs need."""
    from ..data import CATALOG

    return sorted({recipe(job.recipe, scale).data.name for job in jobs} & CATALOG.keys())


def _mark_done(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.state = "done" if job.complete else job.state


def _progress(job: Job) -> str:
    epochs = job.reached().epochs
    return f"seed {job.seed} {'done' if job.ended else f'epoch {epochs}/{job.epochs}' if epochs else 'to train'}"


def _expected_time(jobs: Sequence[Job], placement: Placement) -> str:
    """Describe the expected time, and how many runs are assumed to run in parallel."""
    seconds = seconds_left(jobs, placement.jobs)
    if seconds is None:
        return "time unknown"
    assumed = f"{placement.jobs} in parallel" if placement.on == "local" else f"less if {placement.on} runs several"
    return f"about {format_seconds(seconds)} ({assumed})"


def _describe_data(item: Item, jobs: Sequence[Job], scale: Scale) -> str:
    from ..data import is_here

    if scale == "tiny":
        return "data: synthetic"
    needed = {row.needs for row in item.at(scale) if row.needs and scale == "small"}
    present = {name: is_here(name) for name in sorted({*_data_sets(jobs, scale), *needed})}
    missing = "missing (opl data NAME explains how to get it)"
    return "data: " + (", ".join(f"{name} {'present' if present[name] else missing}" for name in present) or "built in")
