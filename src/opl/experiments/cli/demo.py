"""`opl demo`: the first thing to run."""

from dataclasses import dataclass
from pathlib import Path

from ..paper import item
from ..runner.placement import Jobs, Placement
from .flags import OUT, Flags, Seeds
from .reproduce import Reproduce

ITEM = "demo"


@dataclass(frozen=True)
class Demo(Flags):
    """CE against CE+OPL on scikit-learn's digits, three seeds: a table, a page, a picture, and what they show."""

    seeds: Seeds = item(ITEM).seeds
    out: Path = OUT
    jobs: Jobs = 2

    def run(self) -> int:
        """Reproduce the demo's table, then say what happened and what to try next."""
        job = Reproduce(ITEM, seeds=self.seeds, out=self.out, place=Placement(jobs=self.jobs))
        outcome = job.run()
        if outcome == 0:
            folder = self.out / job.scale / ITEM
            print("\n".join(("", *_story(folder, job.scale), "", *_next_steps(folder))))
        return outcome


def _story(folder: Path, scale: str) -> list[str]:
    """What the runs show, in plain words."""
    from ..paper import ITEMS, RECIPES
    from ..report.glossary import TERMS
    from ..results.conformity import screen
    from ..results.runs import read_runs
    from ..results.text import describe_effect

    runs = screen(read_runs(folder), ITEMS.values(), RECIPES)
    return [describe_effect(item(ITEM), runs, scale), f"(d: {TERMS['d']}.)"]


def _next_steps(folder: Path) -> list[str]:
    return [
        f"Look:  {folder / 'report.html'} (the page), {folder / f'{ITEM}.png'} (the features of both)",
        "Next:  opl try FOLDER                          does OPL help on your images? a folder per class",
        "       opl reproduce table-1 --scale small     the paper's first table, on CIFAR-100",
    ]
