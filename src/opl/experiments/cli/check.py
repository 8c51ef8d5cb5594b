"""`opl check DIR`: verify the files of all runs below a folder."""

import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from ...errors import OplError
from ..run_folder import RunFolder
from ..terminal import make_console
from .flags import Flags, existing_runs


@dataclass(frozen=True)
class Check(Flags):
    """Verify every file of every run below a folder, weights and checkpoints included, by its SHA-256."""

    folder: Positional[Path]
    """A folder of runs, such as runs/small/table-1."""

    def run(self) -> int:
        """Print one line per damaged file; return 1 if there is any."""
        from rich.progress import Progress

        runs = existing_runs(self.folder)
        lines = []
        with Progress(console=make_console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            for run in bar.track(runs, description="verifying"):
                lines += _describe(run)
        checked = f"{len(runs)} run{'' if len(runs) == 1 else 's'} checked"
        damaged = f"{len(lines)} damaged file{'' if len(lines) == 1 else 's'}" if lines else "all files intact"
        print("\n".join([*lines, f"{checked}, {damaged}"]))
        return 1 if lines else 0


def _describe(run: RunFolder) -> list[str]:
    try:
        return [f"{run.path}: {name} {fault}" for name, fault in run.faults().items()]
    except (OplError, OSError) as error:
        return [f"{run.path}: {error}"]
