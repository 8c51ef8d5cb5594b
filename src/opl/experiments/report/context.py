"""What every section of the page is made from."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..results.runs import Run
from .charts import Charts
from .groups import Group


@dataclass(frozen=True)
class Context:
    """The runs of a folder, the tables and figures that they belong to, and the charts of the page so far."""

    folder: str
    """Its name."""
    runs: Sequence[Run]
    groups: Sequence[Group]
    charts: Charts
