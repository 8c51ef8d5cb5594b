"""A table or figure of the paper as a value: its rows, their recipes, and the paper's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .run_folder import measure_name
from .scales import SCALES, RunScale, Scale

MINUTE, HOUR = 60.0, 3600.0
"""In seconds, for costs."""
UNITS = (("h", HOUR), ("min", MINUTE), ("s", 1.0))


@dataclass(frozen=True)
class Cost:
    """The measured time of the longest run of an item at a scale, and the cores it had."""

    seconds: float
    cores: int = 1

    @property
    def time(self) -> str:
        """The time in the largest unit that fits.

        Example:
            >>> Cost(480).time, Cost(100).time, Cost(22 * HOUR).time
            ('8 min', '100 s', '22 h')
        """
        unit, size = next(((unit, size) for unit, size in UNITS if self.seconds >= 2 * size), UNITS[-1])
        return f"{self.seconds / size:g} {unit}"


def describe_costs(costs: Mapping[Scale, Cost]) -> str:
    """Describe the cost of one run at each scale; empty if none was measured.

    Example:
        >>> describe_costs({"small": Cost(480), "paper": Cost(22 * HOUR, cores=2)})
        'small: up to 8 min on 1 core; paper: up to 22 h on 2 cores'
    """
    return "; ".join(
        f"{scale}: up to {cost.time} on {cost.cores} core{'s' if cost.cores > 1 else ''}"
        for scale, cost in costs.items()
    )


@dataclass(frozen=True)
class Row:
    """One row of a table: its label, its recipe, and the numbers that the paper reports."""

    label: str
    recipe: str
    paper: dict[str, float]
    baseline: str = ""
    """The recipe that this one is compared with, seed by seed; empty for the baseline itself."""
    scales: tuple[RunScale, ...] = SCALES
    """The scales at which the row is run; a row that would only add cost at a small scale is omitted there."""
    needs: str = ""
    """A data set without which the row is left out at the small scale, if the table has other rows."""
    seeds: int = 0
    """The number of its runs if the table has more, beginning with the same seed; 0 for as many as the table."""
    paper_margins: dict[str, float] = field(default_factory=dict)
    """The ± of the paper's numbers, where it reports them: half-widths of 95 % intervals over episodes."""
    group: str = ""
    """The heading of its group, such as a network; its label may begin with the same words."""
    task: str = ""
    """The kind of task, if it differs from the table's."""

    @property
    def left_out(self) -> str:
        """What the table shows if the row has no runs."""
        return f"no runs; needs {self.needs} (opl data)"


@dataclass(frozen=True)
class Quoted:
    """A reference line: the numbers that the paper quotes for a method that is not run here."""

    label: str
    paper: dict[str, float]


@dataclass(frozen=True)
class Average:
    """A row below the others: the mean of several rows, computed seed by seed so that it has its own interval."""

    row: Row
    """Label and paper's number; `recipe` is an identifier, `baseline` the identifier of the average to compare with."""
    of: tuple[str, ...]
    """The recipes to average."""


@dataclass(frozen=True)
class Measure:
    """A measure of finished runs: the arguments of `opl evaluate RUN`, and the names of the measures it writes."""

    argv: tuple[str, ...]
    names: tuple[str, ...]
    scales: tuple[Scale, ...] = SCALES
    """The scales that use these arguments; a small scale may use fewer images, for instance."""
    settings: tuple[dict[str, Any], ...] = ()
    """The settings of each measure in `names`, as written to disk; empty for measures without settings."""


@dataclass(frozen=True)
class Revision:
    """A change of some recipes or of how their numbers are computed; runs from before it are marked as stale."""

    since: str
    """When it was made, in UTC, as runs record their start: `2026-11-18T05:00:00Z`."""
    what: str
    """What differs in runs from before it."""
    recipes: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    """The numbers that it changes; empty for all."""


@dataclass(frozen=True)
class Item:
    """A table or figure, as in `opl reproduce NAME`."""

    name: str
    title: str
    dataset: str
    metrics: dict[str, str]
    """The numbers of a result to show, and their column headings."""
    rows: tuple[Row, ...]
    what: str = "loss"
    """What a row stands for; the heading of the first column."""
    seeds: int = 3
    """Runs of each row at the small and paper scales; at the tiny scale there are at most two."""
    first_seed: int = 0
    """The seed of the first run: not 0 where earlier seeds were used to choose what is run here."""
    costs: dict[Scale, Cost] = field(default_factory=dict)
    """The measured cost of one run, by scale."""
    note: str = ""
    setting: str = ""
    """What the paper's numbers were measured with, such as `ResNet-56, 100 classes, 200 epochs`; a column heading."""
    quoted: tuple[Quoted, ...] = ()
    """Reference lines below the rows."""
    compared: tuple[str, ...] = ()
    """The numbers to compare with the baseline and the paper; if empty, the first number shown."""
    aggregates: tuple[str, ...] = ()
    """Compared numbers that are means of other compared numbers, so they do not count as further comparisons."""
    task: str = "classification"
    """The kind of task, over which effects are summarized."""
    measures: tuple[Measure, ...] = ()
    """The measures to take of every row's runs after all of them are finished."""
    unit: str = "episodes"
    """The unit that a measure has one value per, so that runs can be compared unit by unit."""
    figure: str = ""
    """For a figure: the module of `opl.experiments.charts` that draws it."""
    home: str = ""
    """The item whose folder holds the runs, if they are shared."""
    averages: tuple[Average, ...] = ()
    """Rows below the others that are means of rows."""
    others: tuple[str, ...] = ()
    """The recipes of its module that have no row: variants, and runs that other runs start from or learn from."""
    command: str = ""
    """The command that makes it, if it is not `opl reproduce`."""
    headline: str = ""
    """The recipe of the row that the summary sentence is about; if empty, the first row with OPL."""
    advice: tuple[str, ...] = ()
    """Sentences below the summary; the last says what to do next."""
    pretrained: bool = False
    """Whether the paper starts from pretrained weights; rows whose runs do not are marked."""
    revisions: tuple[Revision, ...] = ()
    """Changes after which older runs are stale."""

    @property
    def main(self) -> tuple[str, ...]:
        """The numbers to compare with the baseline and the paper."""
        return self.compared or tuple(self.metrics)[:1]

    @property
    def recipes(self) -> tuple[str, ...]:
        """The names of all recipes, first the recipes of rows."""
        return (*(row.recipe for row in self.rows), *self.others)

    @property
    def cost(self) -> str:
        """The cost of one run at each scale, in words; empty if it was not measured."""
        return describe_costs(self.costs)

    def cost_at(self, scale: str) -> float:
        """Return the longest measured time of one run at a scale, in seconds; 0 if it was not measured."""
        return next((cost.seconds for measured, cost in self.costs.items() if measured == scale), 0.0)

    def has(self, recipe: str, scale: str) -> bool:
        """Return whether a recipe is run at a scale; recipes without a row can be run at any scale."""
        return recipe in self.others or any(row.recipe == recipe for row in self.at(scale))

    def seeds_at(self, scale: str) -> int:
        """Return the number of runs of each row at a scale."""
        return min(self.seeds, 2) if scale == "tiny" else self.seeds

    def for_scale(self, scale: str) -> "Item":
        """Return the item without the columns of numbers that are measured only at other scales."""
        here = {name for measure in self.measures if scale in measure.scales for name in measure.names}
        elsewhere = {name for measure in self.measures for name in measure.names} - here
        metrics = {
            name: title
            for name, title in self.metrics.items()
            if not any(f"{measure_name(name)}/".startswith(f"{measure}/") for measure in elsewhere)
        }
        return replace(self, metrics=metrics, compared=tuple(name for name in self.compared if name in metrics))

    def at(self, scale: str) -> tuple[Row, ...]:
        """Return the rows that are run at a scale."""
        return tuple(row for row in self.rows if scale in row.scales)

    def averages_at(self, scale: str) -> tuple[Average, ...]:
        """Return the averages that are shown at a scale."""
        return tuple(average for average in self.averages if scale in average.row.scales)
