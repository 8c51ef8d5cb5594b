"""The input of every section of the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..results.runs import Run
from .charts import Charts
from .groups import Group


@dataclass(frozen=True)
class Context:
    """The runs of a folder, the tables and figures they belong to, and the charts added to the page so far."""

    folder: str
    """Name of the folder."""
    runs: Sequence[Run]
    groups: Sequence[Group]
    charts: Charts
