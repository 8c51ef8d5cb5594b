"""The rows of a table as values: means over seeds, paired differences with the baseline, and verdicts.

There are two kinds of comparison. `lines` compares a row with its baseline over the seeds that both have: this says
something about other seeds too. `compare` compares the same networks over the same episodes or images: two seeds say
little about other seeds, but 3,000 episodes show whether *these* networks differ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from ..item import Average, Item, Revision, Row
from ..settings import describe_changes
from ..statistics import (
    ANY,
    GAIN,
    LOSS,
    UNDECIDED,
    Decision,
    Interval,
    Range,
    bartlett,
    decide,
    holm,
    interval,
    moderate,
    two_way,
)
from .conformity import describe_code
from .runs import DAMAGED, REFUSED, Run, describe_seeds, select_runs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PERCENT = Range(0.0, 100.0, margin=0.5)  # half a percentage point
SHARE = Range(0.0, 1.0, margin=0.01)
COSINE = Range(-1.0, 1.0, margin=0.01)
_RANGES = {
    "top1": PERCENT,
    "top5": PERCENT,
    "s": COSINE,
    "d": SHARE,
    "d_signed": COSINE,
    "class_cosine": COSINE,
    "loss": Range(0.0, math.inf),
    "kept": SHARE,
    "kept/clean": SHARE,
    "train/without_positive": SHARE,
}
UNEQUAL = 0.05  # p-values below it are remarkable
Results = dict[str, dict[int, dict[str, Any]]]  # recipe -> seed -> result


def range_of(name: str, title: str = "") -> Range:
    """The possible values of a number, by its name in a result or record, or by the percent sign in its title.

    Example:
        >>> range_of("test/d").highest, range_of("episodes/1-shot", "1-shot %").highest, range_of("seconds").lowest
        (1.0, 100.0, -inf)
    """
    if "%" in title:
        return PERCENT
    return _RANGES.get(name, _RANGES.get(name.rpartition("/")[2], ANY))


def without_percent(title: str) -> str:
    """The title of a number, for use inside a sentence.

    Example:
        >>> without_percent("1-shot, noise 0.1, %")
        '1-shot, noise 0.1'
    """
    return title.replace("%", "").strip(" ,")


def measured_result(run: Run, item: Item, scale: str) -> tuple[dict[str, Any], list[str]]:
    """The result of a run without numbers of `opl evaluate` that used other settings than the item, and why."""
    result, faults = dict(run.result), []
    for measure in item.measures:
        for name, wanted in zip(measure.names, measure.settings, strict=False):
            content = run.measure(name) if scale in measure.scales else {}
            if content and content.get("settings") != wanted:
                settings = content.get("settings")
                known = describe_changes(settings, wanted) if isinstance(settings, dict) else ["unknown settings"]
                faults.append(f"{name} was measured with {', '.join(known).replace('recipe:', 'table:')}")
                for metric in content.get("numbers", {}):
                    result.pop(metric, None)
    return result, faults


@dataclass(frozen=True)
class Line:
    """One row of a finished table."""

    label: str
    recipe: str
    """Name of the recipe; empty for a quoted line."""
    seeds: tuple[int, ...]
    numbers: dict[str, Interval]
    values: dict[str, tuple[float, ...]]
    """The numbers of each metric, seed by seed; a metric that is not compared may lack seeds."""
    paper: dict[str, float]
    difference: dict[str, Interval]
    missing: str
    """Which runs the row lacks, and why."""
    pairs: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The differences of each metric, seed by seed."""
    paired: tuple[int, ...] = ()
    """The seeds that the row and its baseline have."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    """What the differences in the compared metrics show, given all comparisons of the table."""
    quoted: bool = False
    """Whether the line only has the paper's numbers, of a method that is not run."""
    baseline: str = ""
    """The label of the row that it is compared with; empty for a baseline."""
    paper_margins: dict[str, float] = field(default_factory=dict)
    """The ± of the paper's numbers, where it gives them."""


def lines(item: Item, runs: Sequence[Run], scale: str, moderated: bool = True) -> list[Line]:
    """Build the rows of a table from the finished runs at a scale; `missing` describes the other runs.

    `moderated` is passed to `decide_lines`.
    """
    results: Results = {}
    problems: dict[str, list[str]] = {}
    for run in (run for run in runs if run.scale == scale):
        if run.state == "done":
            results.setdefault(run.name, {})[run.seed], faults = measured_result(run, item, scale)
            problems.setdefault(run.name, []).extend(f"seed {run.seed}: {fault}" for fault in faults)
        else:
            reason = f" ({run.sentence})" if run.state in (REFUSED, DAMAGED) else ""
            problems.setdefault(run.name, []).append(f"seed {run.seed} {run.state}{reason}")
    for row in item.at("small") if scale == "small" else ():
        if row.needs and row.recipe not in results | problems:
            problems[row.recipe] = [row.left_out]
    averages = item.averages_at(scale)
    for average in averages:
        results[average.row.recipe], problems[average.row.recipe] = _average(item, average, results)
    rows = (*item.at(scale), *(average.row for average in averages))
    undecided = [_line(item, row, results, problems) for row in rows]
    for quoted in () if scale == "tiny" else item.quoted:
        undecided.append(Line(quoted.label, "", (), {}, {}, quoted.paper, {}, "", quoted=True))
    return decide_lines(item, undecided, moderated)


def decide_lines(item: Item, undecided: Sequence[Line], moderated: bool = True) -> list[Line]:
    """Add what the differences show, adjusted for all comparisons of the table.

    Variances are moderated inside families of comparisons. Without moderation each row has its own variance and all
    comparisons of the table are one family, as verdicts were made before.
    """
    lines = [replace(line, difference=dict(line.difference), decisions={}) for line in undecided]
    cells = [(line, name) for line in lines for name in item.main if name in line.difference]
    families = [family_of(item, line, name) if moderated else "" for line, name in cells]
    differences = [line.difference[name] for line, name in cells]
    if moderated:
        differences = moderate(differences, families)
    decisions = decide(differences, [line.pairs.get(name, ()) for line, name in cells], families)
    for (line, name), difference, decision in zip(cells, differences, decisions, strict=True):
        line.difference[name], line.decisions[name] = difference, decision
    return lines


def family_of(item: Item, line: Line, metric: str) -> str:
    """The family of a comparison, inside which p-values are adjusted and variances are moderated.

    Means of rows or columns are no further comparisons beside what they are made of, and numbers of selected weights
    are another look at the same runs.
    """
    if metric in item.aggregates or line.recipe in {average.row.recipe for average in item.averages}:
        return "means"
    return "selected" if metric.startswith("selected/") else ""


def _average(item: Item, average: Average, results: Results) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Average each metric over some recipes, for the seeds that all of them have; also describe the other seeds.

    The recipes of an average start either all from scratch or all from pretrained weights.
    """
    parts = [_complete(item, results.get(recipe, {}))[0] for recipe in average.of]
    means = {}
    for seed in sorted(set.intersection(*(set(part) for part in parts))):
        known = [name for name in item.metrics if all(name in part[seed] for part in parts)]
        numbers: dict[str, Any] = {name: fmean(part[seed][name] for part in parts) for name in known}
        means[seed] = {**numbers, "start": parts[0][seed].get("start", "")}
    some = sorted(set.union(*(set(part) for part in parts)) - set(means))
    return means, [f"seed {seed} incomplete" for seed in some]


def _line(item: Item, row: Row, results: Results, problems: dict[str, list[str]]) -> Line:
    ours, unmeasured = _complete(item, results.get(row.recipe, {}))
    base, _ = _complete(item, results.get(row.baseline, {}))
    seeds, shared = tuple(sorted(ours)), sorted(ours.keys() & base.keys())
    values = {name: tuple(ours[seed][name] for seed in seeds if name in ours[seed]) for name in item.metrics}
    compared, paired = (item.metrics, tuple(shared)) if row.baseline else ((), ())
    pairs = {
        name: tuple(ours[seed][name] - base[seed][name] for seed in shared if name in ours[seed] and name in base[seed])
        for name in compared
    }
    alone = sorted(ours.keys() - base.keys()) if row.baseline and base else []
    missing = [
        *problems.get(row.recipe, []),
        *(f"seed {seed} not measured" for seed in unmeasured),
        *(f"seed {seed} without its baseline" for seed in alone),
        *(
            f"{item.metrics[name]} of {len(numbers)} of {len(seeds)} seeds"
            for name, numbers in values.items()
            if 0 < len(numbers) < len(seeds)
        ),
    ]
    scratch = item.pretrained and any(result.get("start") == "scratch" for result in ours.values())
    label = f"{row.label}, from scratch" if scratch else row.label
    ranges = {name: range_of(name, title) for name, title in item.metrics.items()}
    rows = (*item.rows, *(average.row for average in item.averages))
    return Line(
        label,
        row.recipe,
        seeds,
        numbers={name: interval(values[name], within=ranges[name]) for name in values},
        values=values,
        paper=row.paper,
        difference={name: interval(pairs[name], within=ranges[name].of_differences) for name in pairs},
        missing=", ".join(missing),
        pairs=pairs,
        paired=paired,
        baseline=next((other.label for other in rows if row.baseline and other.recipe == row.baseline), ""),
        paper_margins=row.paper_margins,
    )


def describe_paper(line: Line, name: str) -> str:
    """The paper's number of a metric with its ±, if it gives one; empty without a number."""
    if name not in line.paper:
        return ""
    margin = f" ± {line.paper_margins[name]:.2f}" if name in line.paper_margins else ""
    return f"{line.paper[name]:.2f}{margin}"


def _complete(item: Item, results: dict[int, dict[str, Any]]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    """The results that have every compared metric of the table, and the seeds of the other results."""
    whole = {seed: result for seed, result in results.items() if {*item.main} <= result.keys()}
    return whole, sorted(results.keys() - whole.keys())


def paired_means(line: Line, name: str) -> tuple[float, float]:
    """The means of the baseline and of the row in a compared metric, over the seeds that both have."""
    shared = fmean(value for seed, value in zip(line.seeds, line.values[name], strict=True) if seed in line.paired)
    return shared - line.difference[name].mean, shared


class Comparison(NamedTuple):
    """The difference between a row and its baseline in one metric of the table, over the same episodes or images."""

    label: str
    baseline: str
    metric: str
    seeds: tuple[int, ...]
    difference: Interval
    unit: str = "episodes"


def notes(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """The lines below a table: stale runs, intervals, comparisons per episode or image, and several code versions."""
    compared = [run for row in item.at(scale) for run in select_runs(runs, row.recipe, scale)]
    code = describe_code(compared)
    table = lines(item, runs, scale)
    return [
        *describe_stale(item, compared),
        *describe_variances(item, table),
        *describe_grid(item, table, runs, scale),
        *wilson_lines(item, runs, scale),
        *map(describe_comparison, compare(item, runs, scale)),
        *([code] if code else []),
    ]


def stale_runs(revision: Revision, runs: Sequence[Run]) -> list[Run]:
    """The runs of the revised recipes that are older than the revision."""
    revised = [run for run in runs if run.name in revision.recipes]
    return [run for run in revised if str(run.about.get("started", "")) < revision.since]


def describe_stale(item: Item, runs: Sequence[Run]) -> list[str]:
    """One line per revision of the item's recipes that some runs are older than."""
    labels = {row.recipe: row.label for row in item.rows}
    texts = []
    for revision in item.revisions:
        old = stale_runs(revision, runs)
        if old:
            rows = ", ".join(dict.fromkeys(labels[run.name] for run in old))
            numbers = ", ".join(item.metrics.get(name, name) for name in revision.metrics)
            subject = f"**stale** {numbers}" if numbers else "**stale**"
            texts.append(f"{subject} ({len(old)} runs from before {revision.since[:10]}; {rows}): {revision.what}")
    return texts


def describe_variances(item: Item, table: Sequence[Line]) -> list[str]:
    """How variances were moderated, where rows differ widely in their spread, and where plain tests disagree."""
    texts = []
    moderated = [line for line in table if any(difference.degrees for difference in line.difference.values())]
    if moderated:
        degrees = sorted({round(difference.degrees) for line in moderated for difference in line.difference.values()})
        texts.append(
            "Intervals and p-values of differences use variances moderated over the rows (limma), with "
            f"{' to '.join(map(str, sorted({min(d for d in degrees if d), max(degrees)})))} degrees of freedom."
        )
    for name in item.main:
        pairs = [line.pairs[name] for line in table if len(line.pairs.get(name, ())) > 1]
        spreads, p = [spread for spread in map(stdev, pairs) if spread], bartlett(pairs)
        if p < UNEQUAL and spreads:
            texts.append(
                f"Rows differ in the spread of their seeds in {item.metrics[name]}: standard deviations of differences "
                f"span {min(spreads):.2f} to {max(spreads):.2f} (Bartlett p {_probability(p)})."
            )
    return texts + [text for name in item.main for text in _disagreements(item, table, name)]


def _disagreements(item: Item, table: Sequence[Line], name: str) -> list[str]:
    """The comparisons whose verdict would be another with the variance of the row alone."""
    compared = [line for line in table if name in line.decisions and not math.isnan(line.decisions[name].alone)]
    texts = []
    for family in dict.fromkeys(family_of(item, line, name) for line in compared):
        members = [line for line in compared if family_of(item, line, name) == family]
        for line, adjusted in zip(members, holm([line.decisions[name].alone for line in members]), strict=True):
            claimed = line.decisions[name].verdict in (GAIN, LOSS)
            if claimed != (adjusted < UNEQUAL):
                texts.append(
                    f"{line.label}, {item.metrics[name]}: with this row's variance alone, p "
                    f"{_probability(line.decisions[name].alone)} (Holm {_probability(adjusted)}), "
                    f"{'undecided' if claimed else 'below 0.05'}"
                )
    return texts


def describe_grid(item: Item, table: Sequence[Line], runs: Sequence[Run], scale: str) -> list[str]:
    """The two-way analysis of a table whose rows are a full grid of weights and gammas of OPL."""
    name = item.main[0] if item.main else ""
    cells: dict[tuple[float, float], tuple[float, ...]] = {}
    for line in table:
        settings = next((run.opl for run in select_runs(runs, line.recipe, scale) if run.opl), None) or {}
        if line.values.get(name) and {"weight", "gamma"} <= settings.keys():
            cells[settings["weight"], settings["gamma"]] = line.values[name]
    weights, gammas = (sorted({pair[index] for pair in cells}) for index in (0, 1))
    seeds = {len(values) for values in cells.values()}
    if min(len(weights), len(gammas)) < 2 or len(cells) != len(weights) * len(gammas) or len(seeds) > 1 or seeds == {1}:
        return []
    sources = two_way([[cells[weight, gamma] for gamma in gammas] for weight in weights])
    names = {"second": "gamma", "first": "weight", "interaction": "their interaction"}
    parts = [
        f"{label} {sources[key].squares:.0f} ({sources[key].degrees} df, p {_probability(sources[key].p)})"
        for key, label in names.items()
    ]
    error = f"error {sources['error'].squares:.0f} ({sources['error'].degrees} df)"
    return [f"Two-way analysis of variance of {item.metrics[name]}, sums of squares: {', '.join(parts)}, {error}."]


def wilson_lines(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """One line per row and compared metric with a Wilson interval, which accounts for the small number of images."""
    texts = []
    for row in item.at(scale):
        results = {run.seed: measured_result(run, item, scale)[0] for run in select_runs(runs, row.recipe, scale)}
        for name in item.main:
            with_interval = {seed: result for seed, result in results.items() if f"{name}/low" in result}
            if with_interval:
                images = {int(result[f"{name}/images"]) for result in with_interval.values()}
                shares = ", ".join(
                    f"{result[name]:.2f} [{result[f'{name}/low']:.2f}, {result[f'{name}/high']:.2f}] (seed {seed})"
                    for seed, result in with_interval.items()
                )
                counted = " or ".join(map(str, sorted(images)))
                texts.append(f"{row.label}, {item.metrics[name]} of {counted} images (95 % by Wilson): {shares}")
    return texts


def compare(item: Item, runs: Sequence[Run], scale: str) -> list[Comparison]:
    """Compare every row that has a baseline, in every compared metric that has a value per episode or image.

    The difference of an episode or image is averaged over the seeds that both rows have.
    """
    import numpy as np

    def values(recipe: str, name: str) -> "dict[int, NDArray[np.float64]]":
        """The values of a metric that was measured with the settings of the table, by seed."""
        measured = [run for run in by_recipe.get(recipe, ()) if name in measured_result(run, item, scale)[0]]
        return {run.seed: np.asarray(run.measure_arrays(name).get("each", ()), dtype=float) for run in measured}

    by_recipe = {row.recipe: select_runs(runs, row.recipe, scale) for row in item.rows}
    labels = {row.recipe: row.label for row in item.rows}
    comparisons = []
    for row in item.at(scale):
        for name in item.main if row.baseline else ():
            base = values(row.baseline, name)
            by_seed = {
                seed: ours - base[seed]
                for seed, ours in values(row.recipe, name).items()
                if seed in base and len(ours) == len(base[seed]) > 0
            }
            if by_seed:
                means = np.mean(list(by_seed.values()), axis=0).tolist()
                names = (row.label, labels[row.baseline], item.metrics[name])
                within = range_of(name, item.metrics[name]).of_differences
                comparisons.append(Comparison(*names, tuple(by_seed), interval(means, within=within), item.unit))
    return comparisons


def describe_comparison(comparison: Comparison) -> str:
    """Format a comparison as one line."""
    difference = comparison.difference
    return (
        f"{comparison.label} vs {comparison.baseline}, {comparison.metric}, over the same {difference.size} "
        f"{comparison.unit} ({describe_seeds(comparison.seeds)}): {describe_difference(difference)}, "
        f"{comparison_verdict(difference)} for these networks"
    )


def comparison_verdict(difference: Interval) -> str:
    """`higher`, `lower` or `undecided`."""
    return "higher" if difference.low > 0 else "lower" if difference.high < 0 else UNDECIDED


def format_interval(value: Interval) -> str:
    """`mean ± half` with 2 decimals, or 3 if |mean| < 2; both ends if the valid range clips one; `-` if empty.

    Example:
        >>> format_interval(Interval(97.5, 0.25, 3)), format_interval(Interval(99.5, 1.0, 3, Range(0, 100)))
        ('97.50 ± 0.25', '99.50 [98.50, 100.00]')
    """
    if value.size == 0:
        return "-"
    digits = 2 if abs(value.mean) >= 2 else 3
    mean = f"{value.mean:.{digits}f}"
    if math.isnan(value.half):
        return mean
    if value.clipped:
        return f"{mean} [{value.low:.{digits}f}, {value.high:.{digits}f}]"
    return f"{mean} ± {value.half:.{digits}f}"


def describe_difference(difference: Interval, digits: int = 2) -> str:
    """A difference with its sign, and its interval if it has one.

    Example:
        >>> describe_difference(Interval(1.5, 0.25, 3)), describe_difference(Interval(-2.0, math.nan, 1))
        ('+1.50 [+1.25, +1.75]', '-2.00')
    """
    if difference.size == 0:
        return "-"
    low, mean, high = (f"{value:+.{digits}f}" for value in (difference.low, difference.mean, difference.high))
    return mean if math.isnan(difference.half) else f"{mean} [{low}, {high}]"


def describe_tests(decision: Decision) -> str:
    """The p-values behind a decision; empty if there are none.

    Example:
        >>> describe_tests(Decision(0.029, 0.35, 12, 0.046875, "undecided"))
        'p 0.029, Holm 0.35 of 12, sign flips 0.047'
    """
    if math.isnan(decision.p):
        return ""
    parts = [f"p {_probability(decision.p)}"]
    if decision.comparisons > 1:
        parts.append(f"Holm {_probability(decision.adjusted)} of {decision.comparisons}")
    if decision.equivalent:
        parts.append(f"two one-sided tests {_probability(decision.equivalence)}")
    if not math.isnan(decision.flips):
        parts.append(f"sign flips {_probability(decision.flips)}")
    return ", ".join(parts)


def describe_decision(difference: Interval, decision: Decision) -> str:
    """A difference, its verdict, and the tests behind it.

    Example:
        >>> describe_decision(Interval(1.5, 0.25, 3), Decision(0.0015, 0.0015, 1, math.nan, "a gain"))
        '+1.50 [+1.25, +1.75], a gain (p 0.0015)'
    """
    tests = describe_tests(decision)
    return f"{describe_difference(difference)}, {decision.verdict}" + (f" ({tests})" if tests else "")


def _probability(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-4 else "< 0.0001"
