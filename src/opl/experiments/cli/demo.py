"""`opl demo`: train CE and CE+OPL on scikit-learn's digits and compare; the first command to run."""

from dataclasses import dataclass
from pathlib import Path

from ..paper import item, recipe
from ..runner.placement import Jobs, Placement
from ..scales import Scale
from .flags import OUT, Flags, Seeds
from .reproduce import Reproduce

ITEM = "demo"


@dataclass(frozen=True)
class Demo(Flags):
    """Train CE and CE+OPL on scikit-learn's digits, in under a minute, and compare: a table, a page and a figure."""

    seeds: Seeds = item(ITEM).seeds
    out: Path = OUT
    jobs: Jobs = 2
    gif: bool = False
    """Also write demo.gif: the features and their cosines after every epoch. Trains both rows once more."""

    def run(self) -> int:
        """Reproduce the demo's table, then print a summary and the next steps."""
        job = Reproduce(ITEM, seeds=self.seeds, out=self.out, placement=Placement(jobs=self.jobs))
        outcome = job.run()
        if outcome == 0:
            folder = self.out / job.scale / ITEM
            if self.gif:
                _animate(folder, job.scale)
            print("\n".join(("", *_summary(folder, job.scale), "", *_next_steps(folder))))
        return outcome


def _animate(folder: Path, scale: Scale) -> None:
    """Write the animation of the first seed."""
    from ..charts.animation import animate
    from ..charts.points import Space
    from ..evaluation.epochs import features_by_epoch

    models = []
    for row in item(ITEM).rows:
        features, labels, names = features_by_epoch(recipe(row.recipe, scale))
        models.append([Space(row.label, epoch, labels, names) for epoch in features])
    animate(models, folder / f"{ITEM}.gif")


def _summary(folder: Path, scale: str) -> list[str]:
    """Summarize the runs: their effect on accuracy and d, and the two measures that changed most."""
    from ..paper import ITEMS
    from ..report.glossary import TERMS
    from ..results.conformity import screen
    from ..results.measures import changes, describe_largest
    from ..results.runs import read_runs, select_runs
    from ..results.text import describe_effect

    runs = screen(read_runs(folder), ITEMS.values())
    before, after = (select_runs(runs, row.recipe, scale) for row in item(ITEM).rows[:2])
    largest = describe_largest(changes(before, after))
    return [describe_effect(item(ITEM), runs, scale), f"(d: {TERMS['d']}.)", *([largest] if largest else [])]


def _next_steps(folder: Path) -> list[str]:
    animation = folder / f"{ITEM}.gif"
    return [
        f"Open:  {folder / 'report.html'} (the page)",
        f"       {folder / f'{ITEM}.png'} (the features of both)",
        *([f"       {animation} (the features, epoch by epoch)"] if animation.exists() else []),
        "Next:  opl try FOLDER                          compare on your images, one folder per class",
        "       opl reproduce table-1 --scale small     table 1 of the paper, on CIFAR-100",
    ]
