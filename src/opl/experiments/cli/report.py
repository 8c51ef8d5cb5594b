"""`opl report DIR`: the page of a folder of runs."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from ...errors import OptionError
from .flags import Flags


@dataclass(frozen=True)
class Report(Flags):
    """One self-contained HTML page from what is on disk."""

    folder: Positional[Path]

    def run(self) -> int:
        """Write it."""
        from ..report.page import write_report
        from ..tables import ITEMS

        if not self.folder.is_dir():
            raise OptionError(
                f"there is no folder {self.folder}: give one that `opl train` or `opl reproduce` wrote to."
            )
        print(write_report(self.folder, ITEMS))
        return 0
