"""`opl demo`: the first thing to run."""

from dataclasses import dataclass
from pathlib import Path

from ..cluster.placement import Jobs, Placement
from ..tables import item
from .flags import OUT, Flags, Seeds
from .reproduce import Reproduce

ITEM = "demo"


@dataclass(frozen=True)
class Demo(Flags):
    """CE against CE+OPL on scikit-learn's digits, three seeds: a table with intervals and a page."""

    seeds: Seeds = item(ITEM).seeds
    out: Path = OUT
    jobs: Jobs = 2

    def run(self) -> int:
        """Reproduce the demo's table."""
        return Reproduce(ITEM, seeds=self.seeds, out=self.out, place=Placement(jobs=self.jobs)).run()
