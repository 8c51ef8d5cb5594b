"""The run to export, the comparable runs beside it, and why some runs are not exported."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import FolderError, OptionError
from ..item import Item, Row
from ..paper import ITEMS, RECIPES
from ..results.conformity import screen
from ..results.records import TINY
from ..results.runs import REFUSED, Run, inner, read_runs, select_runs
from ..run_folder import RunFolder

SYNTHETIC = ("Synthetic", "SyntheticDomains")  # data of tiny runs, also of those with settings of their own


@dataclass(frozen=True)
class Subject:
    """A finished run with what is known of its recipe."""

    run: Run
    """The run itself; its state says whether it may be compared."""
    seeds: Sequence[Run]
    """The runs of its recipe and scale that may be compared, by seed; the run alone if it may not be compared."""
    baseline: Sequence[Run]
    """The comparable runs of its baseline at the same scale, by seed."""
    item: Item | None
    """The first table or figure with its recipe."""
    row: Row | None
    caveat: str
    """Why it may not be compared, and so is in no table; empty if it may."""

    @property
    def label(self) -> str:
        """The method as its table calls it."""
        return self.row.label if self.row else str(self.run.method.get("kind", "?"))

    @property
    def baseline_label(self) -> str:
        """The baseline as its table calls it; empty if there is none."""
        rows = self.item.rows if self.item else ()
        return next((each.label for each in rows if self.row and each.recipe == self.row.baseline), "")


def read_subject(path: Path) -> Subject:
    """Read a run that can be exported; an unfinished, tiny or edited one is an error."""
    folder = RunFolder(path.resolve())
    if not folder.begun:
        raise FolderError(f"{path} is no run: give the folder of a finished one, for instance runs/digits-opl/seed-0.")
    name, scale = str(folder.recipe().get("name", "")), str(folder.recipe().get("scale", ""))
    item, row = _row(name, scale)
    at_home = folder.path.parent.name == name  # a folder that was moved is read alone
    runs = read_runs(folder.path.parent if at_home else folder.path)
    own = next(run for run in runs if run.folder.path == folder.path)
    _check(own, path)
    if at_home and row is not None and row.baseline:
        runs += read_runs(folder.beside(row.baseline).path.parent)
    screened = screen(runs, ITEMS.values(), RECIPES)
    run = next(each for each in screened if each.folder.path == folder.path)
    if run.state == REFUSED:
        return Subject(run, (run,), (), item, row, run.sentence)
    baseline = select_runs(screened, row.baseline, scale) if row else ()
    return Subject(run, select_runs(screened, name, scale), baseline, item, row, "")


def _row(name: str, scale: str) -> tuple[Item | None, Row | None]:
    """The first row of a table with this recipe; at a custom scale, of any scale."""
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
        raise OptionError(f"{path} is not exported, {TINY.rstrip('.')}; train at --scale small or paper.")
