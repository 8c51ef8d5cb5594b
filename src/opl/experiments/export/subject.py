"""The run to export, its numbers, and the comparable runs of its recipe and baseline; unsuitable runs are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from ...errors import FolderError, OptionError
from ..item import Item, Row
from ..paper import ITEMS
from ..results.comparisons import measured_result, range_of
from ..results.conformity import screen
from ..results.records import TINY
from ..results.runs import REFUSED, Run, inner, number, read_runs, select_runs
from ..run_folder import RunFolder
from ..statistics import Decision, Interval, decide, interval

SYNTHETIC = ("Synthetic", "SyntheticDomains")  # data of tiny runs, including custom runs


@dataclass(frozen=True)
class Subject:
    """A finished run with its table and the comparable runs of its recipe and baseline."""

    run: Run
    """The run; its state says whether it is comparable."""
    seeds: Sequence[Run]
    """The comparable runs of its recipe and scale, by seed; only the run if it is not comparable."""
    baseline: Sequence[Run]
    """The comparable runs of its baseline at the same scale, by seed."""
    item: Item | None
    """The first table or figure with its recipe."""
    row: Row | None
    caveat: str
    """Why the run is not comparable, and therefore in no table; empty if it is comparable."""

    @property
    def label(self) -> str:
        """The method, as named in its table."""
        return self.row.label if self.row else str(self.run.method.get("kind", "?"))

    @property
    def baseline_label(self) -> str:
        """The baseline, as named in its table; empty if there is none."""
        rows = self.item.rows if self.item else ()
        return next((row.label for row in rows if self.row and row.recipe == self.row.baseline), "")


def read_subject(path: Path) -> Subject:
    """Read a run to export; raise if it is unfinished, tiny or damaged."""
    folder = RunFolder(path.resolve())
    if not folder.begun:
        raise FolderError(
            f"{path} is not a run: pass the folder of a finished run, for example runs/digits-opl/seed-0."
        )
    name, scale = str(folder.recipe().get("name", "")), str(folder.recipe().get("scale", ""))
    item, row = _row(name, scale)
    in_place = folder.path.parent.name == name  # a folder that was moved is read alone
    runs = read_runs(folder.path.parent if in_place else folder.path)
    _check(next(run for run in runs if run.folder.path == folder.path), path)
    if in_place and row is not None and row.baseline:
        runs += read_runs(folder.beside(row.baseline).path.parent)
    screened = screen(runs, ITEMS.values())
    run = next(run for run in screened if run.folder.path == folder.path)
    if run.state == REFUSED:
        return Subject(run, (run,), (), item, row, run.sentence)
    baseline = select_runs(screened, row.baseline, scale) if row else ()
    return Subject(run, select_runs(screened, name, scale), baseline, item, row, "")


def _row(name: str, scale: str) -> tuple[Item | None, Row | None]:
    """Return the first row with this recipe and its table; at a custom scale, a row of any scale."""
    for item in ITEMS.values():
        for row in item.rows:
            if row.recipe == name and (scale in row.scales or scale == "custom"):
                return item, row
    return None, None


def _check(run: Run, path: Path) -> None:
    if run.state == "damaged":
        raise FolderError(f"{path} is damaged: {run.sentence}. Restore the file, or train the run again.")
    if run.state != "done":
        raise FolderError(f"{path} is not a finished run ({run.sentence.rstrip('.')}): finish it with opl train first.")
    if run.scale == "tiny" or str(inner(run.recipe, "data").get("kind")) in SYNTHETIC:
        raise OptionError(f"{path} is not exported, {TINY.rstrip('.')}: train at --scale small or paper.")


METRICS = {"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"}
"""The metrics shown for every run that has them; a table may add more."""


@dataclass(frozen=True)
class Measurement:
    """One metric of an exported run."""

    metric: str
    title: str
    value: float
    """The number of the exported weights."""
    seeds: tuple[int, ...]
    mean: Interval
    """The mean over the seeds, with its interval."""
    paired: Mapping[int, float]
    """The difference from the baseline, by seed, for the seeds of both."""
    decision: Decision | None = None
    """The verdict on the difference, for the metrics that the table compares."""

    @property
    def difference(self) -> Interval:
        """The mean difference from the baseline."""
        return interval(list(self.paired.values()), within=range_of(self.metric, self.title).of_differences)


def measure(subject: Subject) -> list[Measurement]:
    """Return every metric for which the run has a finite number."""
    titles = {**METRICS, **(subject.item.metrics if subject.item else {})}
    measured = []
    for metric, title in titles.items():
        values, base = (_values(subject, runs, metric) for runs in (subject.seeds, subject.baseline))
        if subject.run.seed in values:
            paired = {seed: value - base[seed] for seed, value in values.items() if seed in base}
            mean = interval(list(values.values()), within=range_of(metric, title))
            measured.append(Measurement(metric, title, values[subject.run.seed], tuple(values), mean, paired))
    return _decide(measured, subject.item.main if subject.item else ())


def _values(subject: Subject, runs: Sequence[Run], metric: str) -> dict[int, float]:
    """Return a metric by seed, if it was measured with the settings of the table."""
    item, scale = subject.item, subject.run.scale
    results = {run.seed: measured_result(run, item, scale)[0] if item else run.result for run in runs}
    values = {seed: number(result.get(metric)) for seed, result in results.items()}
    return {seed: value for seed, value in values.items() if isfinite(value)}


def _decide(measured: Sequence[Measurement], compared: Sequence[str]) -> list[Measurement]:
    """Add the decisions about the differences in the compared metrics, adjusted for their number."""
    chosen = [entry for entry in measured if entry.metric in compared and entry.paired]
    differences, pairs = [entry.difference for entry in chosen], [list(entry.paired.values()) for entry in chosen]
    by_metric = {entry.metric: decision for entry, decision in zip(chosen, decide(differences, pairs), strict=True)}
    return [replace(entry, decision=by_metric.get(entry.metric)) for entry in measured]
