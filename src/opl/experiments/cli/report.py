"""`opl report DIR`: the page of a folder of runs."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from .flags import Flags, existing_runs


@dataclass(frozen=True)
class Report(Flags):
    """Write one self-contained HTML page about the runs in a folder."""

    folder: Positional[Path]
    """A folder of runs, such as runs/small/demo; the page is written into it."""

    def run(self) -> int:
        """Write the page; it needs neither torch nor recipes."""
        from ..paper import items_of
        from ..report.page import write_report
        from ..results.conformity import screen
        from ..results.runs import read_runs
        from ..tryout.verdict import read_items

        existing_runs(self.folder)
        runs = read_runs(self.folder)
        items = {**items_of(run.name for run in runs), **read_items(self.folder)}
        print(write_report(self.folder, items, runs=screen(runs, items.values())))
        return 0
