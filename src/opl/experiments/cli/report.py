"""`opl report DIR`: the page of a folder of runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from ...errors import OptionError
from .flags import Flags

if TYPE_CHECKING:
    from ..results.conformity import Recipes


@dataclass(frozen=True)
class Report(Flags):
    """One self-contained HTML page from what is on disk."""

    folder: Positional[Path]

    def run(self) -> int:
        """Write it."""
        from ..paper import ITEMS
        from ..report.page import write_report
        from ..tryout.stored import read_items

        if not self.folder.is_dir():
            raise OptionError(
                f"there is no folder {self.folder}: give one that `opl train` or `opl reproduce` wrote to."
            )
        print(write_report(self.folder, {**ITEMS, **read_items(self.folder)}, recipes=_recipes()))
        return 0


def _recipes() -> "Recipes | None":
    """All recipes, if torch is there to build them; the page itself does not need it."""
    from ..paper import RECIPES

    try:
        import torch  # noqa: F401
    except ImportError:
        return None
    return RECIPES
