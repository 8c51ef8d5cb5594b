"""`opl check DIR`: whether every file of every run below a folder is what the run wrote."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from ...errors import OplError, OptionError
from ..run_folder import RunFolder
from .flags import Flags


@dataclass(frozen=True)
class Check(Flags):
    """Verify every file of every run below a folder, weights and checkpoints included, by its SHA-256."""

    folder: Positional[Path]

    def run(self) -> int:
        """Print a line for each file that is not what its run wrote; 1 if there is one."""
        if not self.folder.is_dir():
            raise OptionError(
                f"there is no folder {self.folder}: give one that `opl train` or `opl reproduce` wrote to."
            )
        runs = RunFolder.below(self.folder)
        lines = [line for run in _with_progress(runs) for line in _describe(run)]
        print("\n".join([*lines, f"{len(runs)} runs, {len(lines)} files that are not what a run wrote"]))
        return 1 if lines else 0


def _describe(run: RunFolder) -> list[str]:
    try:
        return [f"{run.path}: {name} {fault}" for name, fault in run.faults().items()]
    except (OplError, OSError) as error:
        return [f"{run.path}: {error}"]


def _with_progress(runs: Sequence[RunFolder]) -> Iterable[RunFolder]:
    """The runs, with a bar on a terminal."""
    if not sys.stderr.isatty():
        return runs
    from rich.console import Console
    from rich.progress import track

    return track(runs, "verifying", console=Console(stderr=True), transient=True)
