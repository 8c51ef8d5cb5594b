"""A table or figure of the paper as a value: its rows, the recipes behind them, and the paper's numbers."""

from dataclasses import dataclass

from .scales import SCALES, Scale


@dataclass(frozen=True)
class Row:
    """One line of a table: what it is called, its recipe, and what the paper reports for it."""

    label: str
    recipe: str
    paper: dict[str, float]
    baseline: str = ""
    """The recipe that this one is compared with, seed by seed; empty for the baseline itself."""
    scales: tuple[Scale, ...] = SCALES
    """Where the row is run; a row that adds only cost at a small scale is left out there."""


@dataclass(frozen=True)
class Average:
    """A line below the rows: the mean of some of them, taken seed by seed, so that it has an interval of its own."""

    row: Row
    """Its label and the paper's number; `recipe` is a name for it, `baseline` that of the average to compare with."""
    of: tuple[str, ...]
    """The recipes that it is the mean of."""


@dataclass(frozen=True)
class Measure:
    """A measure of finished runs, beside their result: the words after `opl evaluate RUN`, and what they write."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    scales: tuple[Scale, ...] = SCALES
    """Where these words are used: on fewer images at a small scale, for instance."""


@dataclass(frozen=True)
class Item:
    """A table or figure: `opl reproduce NAME`."""

    name: str
    title: str
    dataset: str
    metrics: dict[str, str]
    """Which numbers of a result are shown, and under which heading."""
    rows: tuple[Row, ...]
    what: str = "loss"
    """What the rows are."""
    seeds: int = 3
    cost: str = ""
    """What one run costs at each scale, as measured."""
    note: str = ""
    compared: tuple[str, ...] = ()
    """The numbers that are compared with the baseline and with the paper; without any, the first one shown."""
    measures: tuple[Measure, ...] = ()
    """What is measured of every row's runs, when all are finished."""
    unit: str = "episodes"
    """What a measure has one value for, so that runs can be compared over the same ones."""
    figure: str = ""
    """For a figure: the module of `opl.experiments.figures` that draws it."""
    home: str = ""
    """The item whose folder holds the runs, where they are shared."""
    averages: tuple[Average, ...] = ()
    """Lines below the rows that are means of rows."""
    pretrained: bool = False
    """The paper starts from pretrained weights; a row whose runs do not says so."""

    @property
    def main(self) -> tuple[str, ...]:
        """The numbers that are compared."""
        return self.compared or tuple(self.metrics)[:1]

    def at(self, scale: str) -> tuple[Row, ...]:
        """The rows that are run at a scale."""
        return tuple(row for row in self.rows if scale in row.scales)

    def averages_at(self, scale: str) -> tuple[Average, ...]:
        """The averages that are shown at a scale."""
        return tuple(each for each in self.averages if scale in each.row.scales)
