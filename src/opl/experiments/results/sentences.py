"""What a table shows, in one plain sentence made from its runs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ..item import Item, Row
from ..statistics import GAIN, LOSS, TOO_FEW, UNDECIDED
from .lines import Line, lines
from .ranges import PERCENT, range_of
from .runs import Run, select_runs

D = "test/d"


def opl_pair(item: Item, runs: Sequence[Run], scale: str) -> tuple[Row, Row] | None:
    """A baseline and the row compared with it, both with runs: the headline, the first with OPL, or the first."""
    there = {run.name for run in runs if run.scale == scale}
    with_opl = {run.name for run in runs if run.scale == scale and run.projects}
    by_recipe = {row.recipe: row for row in item.at(scale) if row.recipe in there}
    pairs = [(by_recipe[row.baseline], row) for row in by_recipe.values() if row.baseline in by_recipe]
    return min(pairs, key=lambda pair: (pair[1].recipe != item.headline, pair[1].recipe not in with_opl), default=None)


def describe_effect(item: Item, runs: Sequence[Run], scale: str) -> str:
    """The effect of OPL, or of the first row that is compared, in one sentence.

    The first part is about d, the second about the first number that the table compares; each says what its paired
    difference shows after the adjustment for all rows.
    """
    pair = opl_pair(item, runs, scale)
    if pair is None:
        return _describe_alone(item, runs, scale)
    base, own = pair
    shared = {run.seed for run in select_runs(runs, base.recipe, scale)}
    seeds = [run.seed for run in select_runs(runs, own.recipe, scale) if run.seed in shared]
    if not seeds or not item.metrics:
        return f"{own.label} and {base.label} have no finished run of the same seed yet, so nothing is compared."
    name = item.main[0]
    main = _line_of(lines(item, runs, scale), own)
    geometry = _line_of(_geometry(item, runs, scale), own)
    subject = "OPL" if (base.label, own.label) == ("CE", "CE+OPL") else own.label
    about_d = _describe_d(geometry)
    counted = f"{len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return f"{_join(subject, about_d, *_describe_metric(main, name, item.metrics[name]))}, {counted}."


def count_verdicts(found: Sequence[Line]) -> str:
    """How many comparisons of a table are what; empty for fewer than two.

    Rows without a run are not compared. A verdict of equivalence keeps its margin.
    """
    verdicts = Counter(decision.verdict for line in found if line.paired for decision in line.decisions.values())
    if verdicts.total() < 2:
        return ""
    plural = {GAIN: "gains", LOSS: "losses"}
    parts = [_count(plural.get(word, word), word, verdicts[word]) for word in sorted(verdicts, key=_rank)]
    return f"All {verdicts.total()} comparisons, after Holm's adjustment: {', '.join(parts)}."


def _count(many: str, word: str, count: int) -> str:
    return f"{count} {word.removeprefix('a ') if count == 1 else many}"


def _rank(verdict: str) -> int:
    order = (GAIN, LOSS, "equivalent", UNDECIDED, TOO_FEW)
    return next(place for place, start in enumerate(order) if verdict.startswith(start))


def _geometry(item: Item, runs: Sequence[Run], scale: str) -> list[Line]:
    """The same table with d as its only number, so that its differences are decided together."""
    of_d = replace(item, metrics={D: "d"}, compared=(D,), averages=(), measures=(), quoted=())
    return lines(of_d, [run for run in runs if run.state != "done" or D in run.result], scale)


def _line_of(found: Sequence[Line], row: Row) -> Line:
    return next(line for line in found if line.recipe == row.recipe)


def _means(line: Line, name: str) -> tuple[float, float]:
    """The means of the baseline and of the row over the seeds that both have."""
    shared = fmean(line.values[name][place] for place, seed in enumerate(line.seeds) if seed in line.paired)
    return shared - line.difference[name].mean, shared


def _describe_d(line: Line) -> str:
    difference, decision = line.difference.get(D), line.decisions.get(D)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return ""
    before, after = (f"{mean:.2f}" for mean in _means(line, D))
    change = f"d {before} → {after}"
    words = {
        LOSS: f"set the classes apart ({change})",
        GAIN: f"moved the classes closer together ({change})",
        UNDECIDED: f"may have moved the classes ({change}, undecided)",
        TOO_FEW: f"moved the classes ({change})",
    }
    return words.get(decision.verdict, f"left the classes as far apart as they were ({change})")


def _describe_metric(line: Line, name: str, title: str) -> tuple[str, str]:
    """What the row did to a metric, or what is not known about that; one of the two is empty."""
    difference, decision = line.difference.get(name), line.decisions.get(name)
    percent = range_of(name, title) is PERCENT
    metric = describe_metric(title, percent)
    if difference is None or decision is None or not math.isfinite(difference.mean):
        return "", f"changes {metric} was not measured"
    before, after = _means(line, name)
    digits = 1 if abs(difference.mean) >= 0.05 else 2
    values = f"{after:.{digits}f} against {before:.{digits}f}{' %' if percent else ''}"
    open_words = {
        UNDECIDED: f"changes {metric} is undecided: {values}",
        TOO_FEW: f"changes {metric} cannot be told from so few seeds: {values}",
    }
    words = {
        GAIN: f"raised {metric}: {values}",
        LOSS: f"lowered {metric}: {values}",
    }
    if decision.verdict in open_words:
        return "", open_words[decision.verdict]
    return words.get(decision.verdict, f"left {metric} as it was, {decision.verdict}: {values}"), ""


def _join(subject: str, about_d: str, known: str, unknown: str) -> str:
    if known:
        return f"{subject} {' and '.join(part for part in (about_d, known) if part)}"
    return f"{subject} {about_d}; whether it {unknown}" if about_d else f"Whether {subject} {unknown}"


def describe_metric(title: str, percent: bool = True) -> str:
    """A column heading as words inside a sentence.

    Example:
        >>> describe_metric("top-1 %"), describe_metric("1-shot %"), describe_metric("seconds", percent=False)
        ('the accuracy', 'the accuracy (1-shot)', 'the seconds')
    """
    words = title.replace("%", "").strip(" ,")
    if not percent:
        return f"the {words}"
    return "the accuracy" if words in ("", "top-1") else f"the accuracy ({words})"


def _describe_alone(item: Item, runs: Sequence[Run], scale: str) -> str:
    """What rows without a baseline reached."""
    done = [line for line in lines(item, runs, scale) if line.seeds] if item.metrics else []
    if not done:
        states = Counter(run.state for run in runs if run.scale == scale)
        said = ", ".join(f"{count} {state}" for state, count in states.items())
        return f"No run of this table has finished yet: {said or 'none has started'}."
    line, name = done[0], item.main[0]
    sign = " %" if range_of(name, item.metrics[name]) is PERCENT else ""
    seeds = f"{len(line.seeds)} seed{'' if len(line.seeds) == 1 else 's'}"
    more = f", and {len(done) - 1} more in the table" if len(done) > 1 else ""
    metric = item.metrics[name].replace("%", "").strip(" ,")
    return (
        f"{line.label} reached {metric} {line.numbers[name].mean:.1f}{sign} over {seeds}{more}; there is no baseline "
        "here to compare with."
    )
