"""Learning curves: accuracy, cross-entropy, s and d apart, each seed or, from five seeds on, means with intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..charts.style import color
from ..charts.training import Curve, band, curve
from ..item import Row
from ..results.runs import Run
from ..statistics import ENOUGH
from .context import Experiment
from .figure import data_table, drawing, figure
from .glossary import explain
from .html_table import cell, heading, row
from .legend import filters
from .markup import Markup, join, tag
from .svg import Scale, axes, line_path, reach, short, symbols_path, ticks

MAIN = {
    "val/top1": "validation accuracy, %",
    "val/loss": "validation cross-entropy, without OPL's term",
    "s": "s: cosine within a class",
    "d": "d: |cosine| between classes",
}
FURTHER = {
    "train/entropy": "training cross-entropy",
    "train/projection": "OPL's term in training",
    "train/loss": "training loss with all of a method's terms: not comparable between methods",
    "gamma_needed": "gamma above which OPL lowers d",
    "class_cosine": "largest cosine between two class means",
    "train/without_positive": "share of training samples that are alone in their class",
    "kept": "share of the training images that pruning keeps",
    "kept/clean": "of those, the share with a right label",
}
POINTS = 12_000  # of all curves of an experiment
LEAST, LONGEST = 4, 80  # epochs of a curve
MANY, SOME = 8, 12  # of more rows the data table is turned, a column for each of some epochs
AT_FIRST = 6  # rows that are initially visible
WIDTH, HEIGHT = 400, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 36
LEAD = (
    "Curves end where a run stopped, so unfinished runs are in them too. Thin lines are seeds, the thick one is their "
    "mean; from five seeds on, a band is the 95 % interval instead. s and d are measured on validation images."
)


class Plot(NamedTuple):
    """The curves of one metric, and where they are drawn."""

    name: str
    title: str
    curves: Sequence[Curve]
    x: Scale
    y: Scale


def section(experiment: Experiment) -> Markup | None:
    """One chart per metric that an experiment has; what is not about the four main ones is folded away."""
    group = experiment.group
    rows = [row for row in experiment.rows if any(run.records for run in group.of(row))]
    if not rows:
        return None
    key = f"curves-{experiment.key}"
    measured = {name for row in rows for run in group.of(row) for name in _names(run)}
    main = MAIN if "val/loss" in measured else {**MAIN, "train/entropy": FURTHER["train/entropy"]}
    further = {name: title for name, title in FURTHER.items() if name not in main}
    first, more = (_charts(experiment, rows, names, key) for names in (main, further))
    if not first and not more:
        return None
    return join(
        tag("p", LEAD, class_="lead"),
        filters([row.label for row in rows], "Curves", key, AT_FIRST),
        tag("div", *first, class_="grid two", data_group=key) if first else None,
        _fold(more, key, opened=not first),
    )


def _names(run: Run) -> set[str]:
    """The numbers that the epochs of a run have."""
    return {name for name in {**MAIN, **FURTHER} if np.isfinite(run.column(name)).any()}


def _fold(charts: Sequence[Markup], key: str, opened: bool) -> Markup | None:
    if not charts:
        return None
    grid = tag("div", *charts, class_="grid two", data_group=key)
    return tag("details", tag("summary", "More curves"), grid, class_="more", open=opened)


def _charts(experiment: Experiment, rows: Sequence[Row], names: dict[str, str], key: str) -> list[Markup]:
    runs = [[run for run in experiment.group.of(row) if run.records] for row in rows]
    most = min(LONGEST, max(LEAST, POINTS // (len(MAIN) * sum(map(len, runs)))))
    found = []
    for name, title in names.items():
        curves = [curve(row.label, some, name, most) for row, some in zip(rows, runs, strict=True)]
        if any(np.isfinite(each.values).any() for each in curves):
            chart = _chart(_plot(name, title, curves), key)
            found.append(experiment.room.take(chart, f"The chart of {title}") or Markup())
    return found


def _plot(name: str, title: str, curves: Sequence[Curve]) -> Plot:
    values = [value for each in curves for value in np.ravel(each.values).tolist()]
    values += [end for each in curves if _has_band(each) for part in band(each)[1:] for end in part.tolist()]
    epochs = [epoch for each in curves for epoch in each.epochs]
    first, last = min(epochs), max(epochs)
    x = Scale(first - 0.5 * (first == last), last + 0.5 * (first == last), LEFT, WIDTH - RIGHT)
    return Plot(name, title, curves, x, Scale(*reach(values), HEIGHT - BOTTOM, TOP))


def _chart(plot: Plot, key: str) -> Markup:
    known = _some(sorted({epoch for each in plot.curves for epoch in each.epochs}), len(plot.curves))
    drawn = [_series(plot, each, look) for look, each in enumerate(plot.curves)]
    ends = [_end(each) for each in plot.curves]
    label = f"{plot.title}, over the epochs; at the end {', '.join(end for end in ends if end)}."
    across = [value for value in ticks(plot.x.low, plot.x.high, 6) if value == round(value)]
    frame = axes(plot.x, plot.y, across, ticks(plot.y.low, plot.y.high), "epoch")
    cursor = tag("line", x1=0, x2=0, y1=TOP, y2=HEIGHT - BOTTOM, class_="cursor")
    table = f"{key}-{plot.name.replace('/', '-')}"
    places = "[" + ",".join(short(plot.x.at(epoch)) for epoch in known) + "]"
    chart = drawing(label, WIDTH, HEIGHT, frame, *drawn, cursor, lines=table, places=places)
    return figure(explain(plot.title), chart, _table(plot, known, table))


def _series(plot: Plot, each: Curve, look: int) -> Markup:
    """One row: its seeds thin, or a band, and the mean with a few symbols, which tell lines apart in gray too."""
    mean, low, high = band(each)
    places = [plot.x.at(epoch) for epoch in each.epochs]
    middle = [(x, plot.y.at(value)) for x, value in zip(places, mean.tolist(), strict=True) if math.isfinite(value)]
    parts = []
    if _has_band(each):
        there = [(x, a, b) for x, a, b in zip(places, low.tolist(), high.tolist(), strict=True) if math.isfinite(a)]
        around = [(x, plot.y.at(b)) for x, _, b in there] + [(x, plot.y.at(a)) for x, a, _ in reversed(there)]
        parts.append(tag("path", d=f"{line_path(around)}z", class_="band", fill=color(look)))
    elif len(each.seeds) > 1:
        for seed in np.asarray(each.values).tolist():
            points = [(x, plot.y.at(v)) for x, v in zip(places, seed, strict=True) if math.isfinite(v)]
            parts.append(tag("path", d=line_path(points), class_="thin", stroke=color(look)))
    every = max(1, len(middle) // 6)
    parts.append(tag("path", d=line_path(middle), class_="thick", stroke=color(look)))
    parts.append(tag("path", d=symbols_path(middle[::every], look), class_="marks", fill=color(look)))
    return tag("g", *parts, data_series=look, class_=None if look < AT_FIRST else "off")


def _has_band(each: Curve) -> bool:
    return len(each.seeds) >= ENOUGH


def _end(each: Curve) -> str:
    mean = [value for value in band(each)[0].tolist() if math.isfinite(value)]
    return f"{each.label} {mean[-1]:.4g}" if mean else ""


def _table(plot: Plot, known: Sequence[int], key: str) -> Markup:
    """The mean of each row at each epoch, and the seeds behind it where these are few."""
    turned = len(plot.curves) > MANY
    values = [[_value(each, epoch, not turned) for epoch in known] for each in plot.curves]
    labels = [each.label for each in plot.curves]
    if turned:
        head = [heading("at epoch"), *(heading(epoch, class_="number") for epoch in known)]
        cells = [[cell(f"epoch {at}", value) for at, value in zip(known, own, strict=True)] for own in values]
        body = [row(label, *own) for label, own in zip(labels, cells, strict=True)]
        return data_table(plot.title, head, body, key, "plain turned")
    head = [heading("epoch"), *(heading(label, class_="number") for label in labels)]
    body = []
    for place, epoch in enumerate(known):
        cells_of = [cell(label, own[place]) for label, own in zip(labels, values, strict=True)]
        body.append(row(epoch, *cells_of))
    return data_table(plot.title, head, body, key)


def _some(known: list[int], rows: int) -> list[int]:
    """All epochs, or if there are many rows some of them, the last included."""
    step = -(-len(known) // SOME) if rows > MANY else 1
    return known[::-1][::step][::-1]


def _value(each: Curve, epoch: int, with_seeds: bool) -> str:
    column = np.asarray(each.values)[:, [at == epoch for at in each.epochs]]
    seeds = [value for value in np.ravel(column).tolist() if math.isfinite(value)]
    if not seeds:
        return "-"
    mean = f"{math.fsum(seeds) / len(seeds):.4g}"
    return f"{mean} ({', '.join(f'{seed:.4g}' for seed in seeds)})" if with_seeds and 1 < len(seeds) < ENOUGH else mean
