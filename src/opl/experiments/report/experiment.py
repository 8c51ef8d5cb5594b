"""One experiment of the page, part by part: from runs to the values of charts and tables, and from these to markup."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from ..charts import (  # fmt: skip
    board,
    cosines,
    curves,
    data_uris,
    features,
    forest,
    gallery,
    lda,
    neighbors,
    points,
    seed_pairs,
    similarity,
    sweeps,
)
from ..charts.samples import has_features, pair_by_seed
from ..charts.svg import DataTable
from ..item import Row
from ..results.comparisons import (
    Comparison,
    Line,
    compare,
    comparison_verdict,
    describe_difference,
    describe_paper,
    describe_tests,
    format_interval,
    range_of,
)
from ..results.measures import MEASURES, Change, changes, describe_largest, describe_pairs, format_difference
from ..results.runs import BROKEN, Run
from ..results.tables import QUOTED, Table, build_table, describe_seeds_of, headings_of, short_label
from ..results.text import count_verdicts, describe_effect, document
from ..scales import TRY
from ..settings import FREE, differences
from ..statistics import FEW_SEEDS, Interval, sign_test
from .groups import Group
from .provenance import count_states
from .templates import render

PAIRS = 6  # comparisons that have their own charts
BESIDE = 2  # with more comparisons, the thumbnails are next to the forest plot
BOARD_ROWS = 3  # comparisons from which all losses and measures are shown in one heat map
WIDEST = 2  # up to this number of compared metrics, the table has their differences too
SEED_CHARTS = 12  # comparisons with a chart of their seeds; the data table has all
SHEET = 20  # pictures per row of the sheet of pictures
CLASSES = 150  # maximum number of classes of a matrix
LISTED = 40  # up to this number of classes, their names are listed below the matrices
NEIGHBORS = 3
PICTURES = 6  # pictures of each direction
PICTURE_BYTES = 150_000  # maximum for the pictures of one direction
GRID_CELLS = 2  # a grid of weight and gamma with more cells is drawn
FILTERS = 24  # with more series, the check boxes are folded away
NOT_SHOWN = {"name", "kind", "changes", *FREE}  # settings that the page does not list
NONE = "none"


@dataclass
class Budget:
    """The number of bytes that are left for large parts of the page."""

    left: int

    def take(self, part: Markup, what: str) -> Markup:
        """Return the part, or a sentence that it is left out."""
        if len(part) > self.left:
            return absent(f"{what} is left out: with it the page would be larger than 3 MB.")
        self.left -= len(part)
        return part


@dataclass(frozen=True)
class Experiment:
    """A table or figure at one scale, with the data that its parts need."""

    group: Group
    rows: Sequence[Row]
    """The rows that no earlier experiment has shown in detail."""
    table: Table | None
    """Its table; None if it cannot be made."""
    pairs: Sequence[tuple[Row, Row]]
    """A baseline and a row compared with it, for each comparison that has its own charts; OPL first."""
    runs: Sequence[Run]
    """All runs of the folder."""
    budget: Budget

    @property
    def key(self) -> str:
        """Prefix of its element ids."""
        return self.group.key

    @property
    def lines(self) -> Sequence[Line]:
        """The rows of its table."""
        return self.table.lines if self.table else ()

    @property
    def listed(self) -> bool:
        """Whether the value of each seed is listed instead of an interval: in a try of one or two seeds."""
        return self.group.scale == TRY and all(len(line.seeds) < FEW_SEEDS for line in self.lines)

    @property
    def headings(self) -> list[str]:
        """The group of each line, such as its network; empty without groups."""
        headings = headings_of(self.table) if self.table else []
        return headings if len({*headings} - {QUOTED}) > 1 else []

    def pair_key(self, index: int) -> str:
        """Prefix of the element ids of a comparison."""
        return f"{self.key}-{index}"

    def finished(self, index: int) -> tuple[list[Run], list[Run]]:
        """Return the finished runs of both rows of a comparison."""
        base, row = self.pairs[index]
        return self.group.finished(base), self.group.finished(row)


Part = Callable[[Experiment], Markup | None]
PairPart = Callable[..., Markup | None]


def make_experiment(group: Group, rows: Sequence[Row], runs: Sequence[Run], budget: Budget) -> Experiment:
    """Compute the data that the parts of an experiment share."""
    try:
        table = build_table(group.item, runs, group.scale) if group.item.metrics else None
    except BROKEN:
        table = None
    pairs = [(base, row) for base, row in group.pairs() if row in rows]
    return Experiment(group, rows, table, pairs[:PAIRS], runs, budget)


def render_experiment(experiment: Experiment) -> tuple[Markup, dict[str, str]]:
    """Render the whole experiment; also return the short titles of its parts by id."""
    parts: dict[str, tuple[str, str, Part]] = {
        "table": ("Table", "Paper and ours" if any(line.paper for line in experiment.lines) else "Results", _table),
        "board": ("Board", "All measures", _board),
        "changes": ("Measures", "What else changed", lambda part: _by_pair(part, _changes)),
        "seeds": ("Seeds", "Seed by seed", _seeds),
        "features": ("Features", "Features before and after", lambda part: _by_pair(part, _features, _novel)),
        "classes": ("Classes", "Similarity of classes", lambda part: _by_pair(part, _classes)),
        "curves": ("Curves", "Learning curves", _curves),
        "pictures": ("Fixed, broken", "Fixed and broken test images", lambda part: _by_pair(part, _pictures)),
        "sweeps": ("Sweeps", "Accuracy over the settings", _sweeps),
        "settings": ("Settings", "Settings", _settings),
    }
    contents = {name: content for name, (*_, make) in parts.items() if (content := _try(experiment, make))}
    titles = {f"{experiment.key}-{name}": parts[name][0] for name in contents}
    sections = [(f"{experiment.key}-{name}", parts[name][1], content) for name, content in contents.items()]
    return render("experiment", key=experiment.key, opening=_opening(experiment), parts=sections), titles


def absent(sentence: str) -> Markup:
    """Render a sentence in place of something that cannot be shown."""
    return render("absent", sentence=sentence)


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return settings by their dotted names, as text.

    Example:
        >>> flatten({"epochs": 3, "method": {"kind": "CE", "gamma": None}})
        {'epochs': '3', 'method.kind': 'CE', 'method.gamma': 'none'}
    """
    flat: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = NONE if value is None else str(value)
    return flat


def _try(experiment: Experiment, make: Part) -> Markup | None:
    try:
        return make(experiment)
    except BROKEN as error:
        return absent(f"This part cannot be made: {error}")


def _by_pair(experiment: Experiment, *makes: PairPart) -> Markup | None:
    """Render a part for every comparison; one comparison is visible, and a menu selects it in all parts at once."""
    boxes = []
    for index, (base, row) in enumerate(experiment.pairs):
        parts = [_try(experiment, partial(make, index=index)) for make in makes]
        content = Markup("").join(part for part in parts if part)
        if content:
            boxes.append((experiment.pair_key(index), f"{row.label} vs {base.label}", content))
    return render("by_pair", key=experiment.key, boxes=boxes) if boxes else None


def _opening(experiment: Experiment) -> Markup:
    """Render what is visible first: the verdict, every comparison on one axis, and two thumbnails."""
    group = experiment.group
    try:
        verdict = describe_effect(group.item, experiment.runs, group.scale)
    except BROKEN:
        verdict = "The results of these runs cannot be compared: see below."
    missing = [run for run in group.runs if run.state != "done"]
    not_counted = f"{len(missing)} of {len(group.runs)} runs are not in these numbers: {count_states(missing)}."
    return render(
        "opening",
        group=group,
        verdict=verdict,
        tally=count_verdicts(experiment.lines),
        largest=describe_largest(_measured(experiment, 0)) if experiment.pairs else "",
        hero=_try(experiment, lambda part: _by_pair(part, _cosines)),
        missing=not_counted if missing else "",
        plot=_try(experiment, _forest),
        thumbnails=_try(experiment, _thumbnails),
        beside=len(forest.contrasts(group.item, experiment.lines)) > BESIDE,
    )


def _measured(experiment: Experiment, index: int) -> list[Change]:
    """Return every measure of a comparison; empty if its runs have none, as in older versions."""
    measured = changes(*experiment.finished(index))
    return measured if any(change.before for change in measured) else []


def _changes(experiment: Experiment, index: int) -> Markup | None:
    """Render one row per measure, with the difference of every seed and the verdict."""
    measured = _measured(experiment, index)
    if not measured:
        return None
    base, row = experiment.pairs[index]
    rows = [
        (
            change,
            forest.measure_strip(change),
            describe_pairs(change) if experiment.listed else format_difference(change.info, change.difference),
            forest.of_measure(change).decision,
        )
        for change in measured
    ]
    return render("changes", label=f"Measures, {row.label} vs {base.label}", rows=rows, listed=experiment.listed)


def _board(experiment: Experiment) -> Markup | None:
    """Render all losses by all measures, for tables with several comparisons that share a baseline."""
    group = experiment.group
    rows = [(row, group.finished(row)) for row in group.rows if group.finished(row)]
    baselines = [row for row, _ in rows if not row.baseline]
    compared = [row for row, _ in rows if len(baselines) == 1 and row.baseline == baselines[0].recipe]
    if len(compared) < BOARD_ROWS or not any(
        name in run.result for _, runs in rows for run in runs for name in MEASURES
    ):
        return None
    values = board.board([(row, runs) for row, runs in rows if row in (*baselines, *compared)])
    chart, data = board.to_svg(values), board.data_table(values)
    return render("board", chart=chart, note=board.NOTE, sentences=values.sentences(), data=data)


def _cosines(experiment: Experiment, index: int) -> Markup | None:
    """Render the cosines of all pairs of test images, before and after, for the first seed with features of both."""
    runs = _with_features(experiment, index)
    if runs is None:
        return None
    rows = [(row, [run]) for row, run in zip(experiment.pairs[index], runs, strict=True)]
    both = [cosines.Cosines(space) for space in points.read_spaces(rows)]
    edges, top = cosines.bins(both), cosines.highest(both)
    charts = [(side.label, cosines.to_svg(side, edges, top), cosines.data_table(side, edges)) for side in both]
    return render("cosines", charts=charts, seed=runs[0].seed)


def _forest(experiment: Experiment) -> Markup | None:
    """Render the plot as a table, so that its numbers are next to the drawing and sortable; None if it is empty."""
    group = experiment.group
    contrasts = forest.contrasts(group.item, experiment.lines, experiment.headings)
    if not contrasts:
        return None
    x, margin = forest.axis_of(contrasts), forest.margin_of(contrasts)
    metric = f" in {group.item.metrics[group.item.main[0]]}" if len(group.item.main) == 1 else ""
    tests = [
        (f"{contrast.group} {contrast.label}{contrast.versus}".strip(), text)
        for contrast in contrasts
        if (text := describe_tests(contrast.decision))
    ]
    return render(
        "forest",
        label=f"Differences, {group.title}, scale {group.scale}",
        title=f"difference{metric}",
        axis=forest.axis_svg(x),
        groups=_group_rows(
            (
                contrast.group,
                (
                    contrast,
                    forest.to_svg(contrast, x, margin),
                    _describe(contrast.difference, contrast.pairs, experiment.listed),
                ),
            )
            for contrast in contrasts
        ),
        listed=experiment.listed,
        note=forest.describe_marks(contrasts),
        tests=DataTable("p-values", ("comparison", "p-values"), tests, ("p-values",)),
    )


def _describe(difference: Interval, pairs: Sequence[float], listed: bool) -> str:
    """Format the differences of the seeds, or their mean with its interval."""
    return ", ".join(f"{value:+.2f}" for value in pairs) if listed else describe_difference(difference)


def _group_rows(rows: Iterable[tuple[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Group rows by heading, in the order in which the headings first appear."""
    grouped: dict[str, list[Any]] = {}
    for heading, row in rows:
        grouped.setdefault(heading, []).append(row)
    return list(grouped.items())


def _thumbnails(experiment: Experiment) -> Markup | None:
    """Render small features and class matrices of the first comparison that has some, as links to the large charts."""
    for index, (base, row) in enumerate(experiment.pairs):
        key = f"features-{experiment.pair_key(index)}" if _with_features(experiment, index) else ""
        matrices = _matrices(experiment, index)
        panels = _panels(matrices) if matrices and not _fault(matrices) else []
        images = [panel.image(range(len(panel.values))) for panel in panels[:2]]
        if key or images:
            names = (base.label, row.label)
            return render("thumbnails", key=experiment.key, names=names, features=key, side=points.SIDE, images=images)
    return None


def _table(experiment: Experiment) -> Markup:
    """Render our numbers, the paper's below them, and the verdicts on the differences; or why there is no table."""
    group = experiment.group
    if not group.item.metrics:
        return absent("No finished run has numbers for this table yet.")
    try:
        table = experiment.table or build_table(group.item, experiment.runs, group.scale)
        compared = compare(group.item, experiment.runs, group.scale)
    except BROKEN as error:
        reason = f"a result has no {error}." if isinstance(error, KeyError) else str(error)
        return absent(f"This table cannot be made: {reason}")
    averages = {average.row.recipe for average in group.item.averages_at(group.scale)}
    headings = experiment.headings or [""] * len(table.lines)
    rows = [
        (line, heading)
        for line, heading in zip(table.lines, headings, strict=True)
        if line.recipe in group.recipes | averages or line.quoted
    ]
    titles = table.item.metrics
    metrics = [name for name in titles if any(name in line.numbers or name in line.paper for line, _ in rows)]
    with_difference = [name for name in table.item.main if len(table.item.main) <= WIDEST and name in metrics]
    hidden = len(table.lines) - len(rows)
    return render(
        "result_table",
        group=group,
        metrics=[titles[name] for name in metrics],
        differences=[f"difference in {titles[name]}" for name in with_difference],
        groups=_group_rows(
            (
                heading,
                {
                    "label": short_label(line.label, heading),
                    "seeds": describe_seeds_of(line),
                    "numbers": [_number(line, name, experiment.listed) for name in metrics],
                    "differences": [_difference(line, name, experiment.listed) for name in with_difference],
                    "versus": short_label(line.baseline, heading),
                    "missing": line.missing,
                },
            )
            for line, heading in rows
        ),
        listed=experiment.listed,
        notes=[
            *table.protocols,
            *([f"The paper's numbers: {group.item.setting}."] if group.item.setting and table.with_paper else []),
            *([group.item.note] if group.item.note else []),
            *([f"{hidden} rows of the table have no runs here."] if hidden else []),
        ],
        compared=_comparisons(group, compared) if compared else None,
        markdown=document(table),
    )


def _number(line: Line, name: str, listed: bool) -> tuple[str, str, str]:
    """Format the mean, its interval or the values of the seeds, and the paper's number."""
    if listed and len(line.seeds) > 1 and name in line.numbers:
        digits = 2 if abs(line.numbers[name].mean) >= 2 else 3
        values = ", ".join(f"{value:.{digits}f}" for value in line.values[name])
        ends = f"({values})" if abs(line.numbers[name].mean) >= 2 else ""  # accuracies
        return f"{line.numbers[name].mean:.{digits}f}", ends, describe_paper(line, name)
    mean, _, ends = format_interval(line.numbers[name]).partition(" ") if name in line.numbers else ("-", "", "")
    return mean, ends, describe_paper(line, name)


def _difference(line: Line, name: str, listed: bool) -> tuple[str, object]:
    """Return the difference as text with its decision, or a text in its place."""
    difference = line.difference.get(name)
    if difference is not None and math.isfinite(difference.mean):
        return _describe(difference, line.pairs[name], listed), line.decisions[name]
    if difference is None and not line.missing:
        return "the baseline" if line.seeds else "-", None
    return "", None


def _comparisons(group: Group, compared: Sequence[Comparison]) -> tuple[str, DataTable]:
    """Return the differences between these networks, which say nothing about other seeds."""
    first = compared[0]
    rows = [
        (
            comparison.label,
            comparison.baseline,
            comparison.metric,
            len(comparison.seeds),
            describe_difference(comparison.difference),
            comparison_verdict(comparison.difference),
        )
        for comparison in compared
    ]
    head = (group.item.what, "vs", "metric", "seeds", "difference", "verdict")
    table = DataTable(f"{group.title}, over the same {first.unit}", head, rows, ("vs", "metric", "verdict"), kind="")
    return f"Differences over the same {first.difference.size} {first.unit}, for these networks", table


def _seeds(experiment: Experiment) -> Markup | None:
    """Render a small chart per comparison in the first compared metric, and one in d for the first comparison."""
    group, item = experiment.group, experiment.group.item
    if not item.metrics:
        return None

    def pairs_of(base: Row, row: Row, metric: str, title: str) -> seed_pairs.SeedPairs | None:
        labels = (base.label, row.label)
        return seed_pairs.seed_pairs(metric, title, labels, group.finished(base), group.finished(row))

    metric = item.main[0]
    compared = [(rows, pairs) for rows in group.pairs() if (pairs := pairs_of(*rows, metric, item.metrics[metric]))]
    if not compared:
        return None
    charts = [pairs for _, pairs in compared[:SEED_CHARTS]]
    if metric != "test/d" and (in_d := pairs_of(*compared[0][0], "test/d", "d")):
        charts.insert(1, in_d)
    return render(
        "seeds",
        charts=[(pairs, seed_pairs.to_svg(pairs)) for pairs in charts],
        more=max(0, len(compared) - SEED_CHARTS),
        data=seed_pairs.data_table([pairs for _, pairs in compared]),
    )


def _with_features(experiment: Experiment, index: int) -> tuple[Run, Run] | None:
    """Return the runs of the first seed for which both rows keep features."""
    before, after = experiment.finished(index)
    pairs = pair_by_seed([run for run in before if has_features(run)], [run for run in after if has_features(run)])
    return pairs[0] if pairs else None


def _features(experiment: Experiment, index: int) -> Markup | None:
    """Render the features of both rows as points, for the first seed for which both keep them."""
    runs = _with_features(experiment, index)
    if runs is None:
        return None
    try:
        samples, views = features.compare(*runs)
    except BROKEN as error:
        return absent(f"The features cannot be drawn: {error}")
    key = f"features-{experiment.pair_key(index)}"
    charts = []
    for side, (row, view) in enumerate(zip(experiment.pairs[index], views, strict=True)):
        note = f", {view.note}" if view.note else ""
        label = f"Features of {len(samples.rows)} test images, {row.label}{note}."
        marked = {"points": key, "side": side}  # for the script
        chart = points.to_svg(label, view.positions, samples.labels, view.origin, f"{key}-{side}", **marked)
        table = points.class_table(label, view.points, samples.labels, samples.class_names)
        charts.append((row.label, view.note, chart, table))
    sheet = None
    if len(samples.pixels):
        width, height = data_uris.small_size(*samples.pixels.shape[2:0:-1])
        sheet = {"image": data_uris.sheet(samples.pixels, SHEET), "across": SHEET, "width": width, "height": height}
    part = render(
        "features",
        key=key,
        plane=views[0].origin is not None,
        names=samples.class_names,
        folded=len(samples.class_names) > FILTERS,
        charts=charts,
        values=features.script_values(samples, views),
        sheet=sheet,
        note=f"{len(samples.rows)} test images, seed {runs[0].seed}.",
    )
    return experiment.budget.take(part, "The chart of the features")


def _novel(experiment: Experiment, index: int) -> Markup | None:
    """Render classes that were not in the training set, by LDA, if evaluated with `opl evaluate RUN novel`."""
    panels = []
    for row, runs in zip(experiment.pairs[index], experiment.finished(index), strict=True):
        run = next((run for run in runs if run.arrays("novel")), None)
        if run:
            panels.append(lda.panel(row.label, run, "novel"))
    if not panels:
        return None
    charts = []
    for panel in panels:
        label = f"Classes that were never trained on, {panel.label}: separation {panel.separation:.2f}."
        positions, labels = points.finite(panel.points, panel.labels)
        chart = points.to_svg(label, points.to_positions(positions), labels)
        table = points.class_table(label, positions, labels, panel.class_names)
        charts.append((panel.label, f"separation {panel.separation:.2f}", chart, table))
    names = max((panel.class_names for panel in panels), key=len)
    key = f"novel-{experiment.pair_key(index)}"
    part = render("novel", key=key, names=names, folded=len(names) > FILTERS, charts=charts)
    return experiment.budget.take(part, "The chart of classes that were never trained on")


def _matrices(experiment: Experiment, index: int) -> "Matrices":
    """Return the mean matrix of both rows, with the runs behind it; empty unless both rows have runs with matrices."""
    matrices = []
    for row, finished in zip(experiment.pairs[index], experiment.finished(index), strict=True):
        runs = [run for run in finished if similarity.has_matrix(run)]
        matrices += [(similarity.matrix(row.label, runs), runs)] if runs else []
    return matrices if len(matrices) == 2 else []


Matrices = list[tuple[similarity.Matrix, list[Run]]]


def _fault(matrices: Matrices) -> str:
    """Return why the matrices of two rows cannot be shown; empty if they can."""
    names, others = (matrix.class_names for matrix, _ in matrices)
    if names != others:
        return "The two rows have different classes, so their matrices cannot be compared."
    if len(names) > CLASSES:
        return f"Matrices of {len(names)} classes are too large for the page: draw them with figure-4."
    return ""


def _panels(matrices: Matrices) -> list[similarity.Panel]:
    """Return the matrices before and after, and the change."""
    (before, _), (after, _) = matrices
    return similarity.compare(before, after, [[run.seed for run in runs] for _, runs in matrices])


def _classes(experiment: Experiment, index: int) -> Markup | None:
    """Render the matrices of both rows and their change, with one order of classes."""
    try:
        matrices = _matrices(experiment, index)
    except BROKEN as error:
        return absent(f"The matrices cannot be drawn: {error}")
    if not matrices:
        return None
    if fault := _fault(matrices):
        return absent(fault)
    before, runs = matrices[0]
    names, panels = before.class_names, _panels(matrices)
    orders = similarity.class_orders(before, runs[0].superclasses(len(names)))
    part = render(
        "classes",
        key=f"matrix-{experiment.pair_key(index)}",
        orders=list(orders),
        panels=[(panel, [panel.image(order) for order in orders.values()]) for panel in panels],
        names=names if len(names) <= LISTED else (),
        values=similarity.script_values(panels, list(orders.values()), names),
        data=similarity.data_table(panels, names),
        neighbors=[(matrix.label, neighbors.describe_neighbors(matrix, NEIGHBORS)) for matrix, _ in matrices],
    )
    return experiment.budget.take(part, "The chart of the classes")


def _curves(experiment: Experiment) -> Markup | None:
    """Render one chart per recorded metric; all but the main metrics are folded away."""
    rows = [(row, experiment.group.of(row)) for row in experiment.rows]
    key = f"curves-{experiment.key}"
    groups = []
    for panels in curves.panels(rows):
        charts = []
        for panel in panels:
            name = f"{key}-{panel.name.replace('/', '-')}"
            values = {"chart": curves.to_svg(panel, name), "data": curves.data_table(panel, name)}
            part = render("curve", title=panel.title, **values)
            charts.append(experiment.budget.take(part, f"The chart of {panel.title}"))
        groups.append(charts)
    if not any(groups):
        return None
    names = [row.label for row, runs in rows if any(run.records for run in runs)]
    folded, (main, more) = len(names) > FILTERS, groups
    return render("curves", key=key, names=names, folded=folded, visible=curves.AT_FIRST, main=main, more=more)


def _pictures(experiment: Experiment, index: int) -> Markup | None:
    """Render the counts of every seed, the pictures of the first seed that has some, and the changed confusions."""
    pairs = [pair for pair in pair_by_seed(*experiment.finished(index)) if gallery.is_comparable(*pair)]
    if not pairs:
        return None
    names = tuple(row.label for row in experiment.pairs[index])
    try:
        counts = [(after.seed, *gallery.count_changes(before, after)) for before, after in pairs]
        with_pixels = [pair for pair in pairs if all("pixels" in run.arrays() for run in pair)]
        pictures = [_encode_pictures(find(*with_pixels[0], PICTURES)) for find in
                    (gallery.find_fixed, gallery.find_broken)] if with_pixels else []  # fmt: skip
        confusions = gallery.find_changed_confusions(pairs)
    except BROKEN as error:
        return absent(f"The pictures cannot be shown: {error}")
    rows = [(seed, fixed, broken, f"{of:,}", f"{sign_test(fixed, broken):.2g}") for seed, fixed, broken, of in counts]
    versus = f"{names[1]} vs {names[0]}"
    mistakes = [(c.truth, c.predicted, c.before, c.after, f"{c.after - c.before:+d}") for c in confusions]
    head = ("class", "predicted as", *names, "change")
    part = render(
        "pictures",
        versus=versus,
        names=names,
        counts=DataTable(f"Fixed and broken images, {versus}", ("seed", "fixed", "broken", "of", "p, sign test"), rows,
                         kind="narrow"),
        pictures=pictures,
        seed=with_pixels[0][1].seed if with_pixels else None,
        over=f"{len(pairs)} seeds together" if len(pairs) > 1 else f"seed {pairs[0][1].seed}",
        confusions=DataTable(f"Mistakes that changed most, {versus}", head, mistakes, head[1:2], kind="narrow"),
    )  # fmt: skip
    return experiment.budget.take(part, "The gallery of test images")


def _encode_pictures(pictures: Sequence[gallery.Picture]) -> list[tuple[gallery.Picture, str]]:
    """Return the pictures with their images, as many as fit."""
    left, encoded = PICTURE_BYTES, []
    for picture in pictures:
        image = data_uris.enlarge(picture.pixels)
        left -= len(image)
        encoded += [(picture, image)] if left > 0 else []
    return encoded


def _sweeps(experiment: Experiment) -> Markup | None:
    """Render charts of an experiment whose runs vary a setting of OPL or the batch size."""
    group = experiment.group
    if not group.item.metrics:
        return None
    metric, title = next(iter(group.item.metrics.items()))
    runs = [run for row in group.rows for run in group.finished(row)]
    grids = [grid for grid in sweeps.grids(runs, metric) if np.isfinite(grid.means).sum() > GRID_CELLS]
    within, charts = range_of(metric), []
    for setting, panel in sweeps.sweeps(runs, metric).items():
        if setting != "gamma" or not grids:  # a grid shows gamma already
            over = f"{title} over {sweeps.SETTINGS[setting]}"
            keys = [(sweeps.first_color(panel) + index, sweep.label) for index, sweep in enumerate(panel)]
            chart, data = sweeps.to_svg(panel, over, within), sweeps.data_table(panel, over, within)
            charts.append((over, keys, chart, data))
    if not grids and not charts:
        return None
    axes = (sweeps.SETTINGS["weight"], sweeps.SETTINGS["gamma"])
    shaded = [(grid, [grid.shares(row) for row in range(len(grid.weights))]) for grid in grids]
    return render("sweeps", grids=shaded, axes=axes, title=title, group=group, charts=charts)


def _settings(experiment: Experiment) -> Markup | None:
    """Render one line per row with each difference from its baseline, or the first row; and what all rows share."""
    group = experiment.group
    first_runs = [(row, group.of(row)[0]) for row in group.rows if group.of(row)]
    if not first_runs:
        return None
    by_recipe = {row.recipe: (row.label, run) for row, run in first_runs}
    rows = []
    for row, run in first_runs:
        label, base = by_recipe.get(row.baseline, (first_runs[0][0].label, first_runs[0][1]))
        rows.append((row.label, "-" if base is run else label, _list_differences(run, base), base is run))
    flat = [flatten(run.recipe) for _, run in first_runs]
    shared = [
        (name, value)
        for name, value in flat[0].items()
        if name not in NOT_SHOWN and all(settings.get(name) == value for settings in flat)
    ]
    name = f"{group.title}, scale {group.scale}"
    return render(
        "settings",
        label=f"Differences in the settings, {name}",
        what=group.item.what,
        rows=rows,
        refused=[run for run in group.runs if run.state == "refused"],
        shared=DataTable(f"Shared settings, {name}", ("setting", "value"), shared, ("value",), kind="narrow"),
    )


def _list_differences(run: Run, base: Run) -> list[tuple[str, str]]:
    """Return every setting that differs, with both values."""
    ours, theirs = flatten(run.recipe), flatten(base.recipe)
    listed = []
    for name in differences(run.recipe, base.recipe):
        if name in NOT_SHOWN:
            continue
        keys = [key for key in {**theirs, **ours} if key == name or key.startswith(f"{name}.")]
        for key in keys or [name]:
            before, after = theirs.get(key, NONE), ours.get(key, NONE)
            listed.append((key, f"{before} → {after}" if before != NONE else after))
    return listed
