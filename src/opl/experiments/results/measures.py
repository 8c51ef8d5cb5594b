"""What else a method changed: the measures of features and predictions beside accuracy, seed by seed.

The definitions of the measures are in docs/measures.md. The changes of older runs, which have none of them, have no
pairs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import NamedTuple

from ..statistics import GAIN, LOSS, Decision, Interval, Range, decide, interval
from .comparisons import PERCENT, describe_difference
from .runs import Run, number

ABSENT = "–"
MOST = 2  # measures that a sentence names
SCORE = Range(0.0, 1.0)  # no margin: what counts as no difference was not fixed in advance


class MeasureInfo(NamedTuple):
    """How a measure is shown, and which direction is better."""

    title: str
    better: int
    """1 if higher is better, -1 if lower is better, 0 if the measure only describes the features."""
    within: Range = PERCENT
    digits: int = 2

    @property
    def arrow(self) -> str:
        """The good direction; empty if there is none."""
        return {1: "↑", -1: "↓"}.get(self.better, "")


MEASURES = {
    "test/recall_at_1": MeasureInfo("Recall@1 %", 1),
    "test/map_at_r": MeasureInfo("MAP@R %", 1),
    "test/knn": MeasureInfo("kNN %", 1),
    "test/ncm": MeasureInfo("nearest class mean %", 1),
    "test/failure_auroc": MeasureInfo("failure AUROC %", 1),
    "test/ece": MeasureInfo("ECE", -1, SCORE, 4),
    "test/nll": MeasureInfo("NLL", -1, Range(0.0), 3),
    "test/brier": MeasureInfo("Brier", -1, Range(0.0, 2.0), 4),
    "test/nc1": MeasureInfo("NC1", 0, Range(0.0), 3),
    "test/effective_rank": MeasureInfo("effective rank", 0, Range(1.0), 1),
}
"""The measures that every run writes, in the order in which they are shown."""
OPEN_SET = "open-set/cifar10/knn/auroc"
BOARD = {
    "test/top1": MeasureInfo("top-1 %", 1),
    **{name: info for name, info in MEASURES.items() if name != "test/brier"},
    OPEN_SET: MeasureInfo("open-set AUROC %", 1),
}
"""The columns of the board."""


@dataclass(frozen=True)
class Change:
    """One measure of a row compared with its baseline over the seeds that both have."""

    name: str
    info: MeasureInfo
    before: tuple[float, ...]
    """The values of the baseline by seed."""
    after: tuple[float, ...]
    difference: Interval
    decision: Decision

    @property
    def pairs(self) -> tuple[float, ...]:
        """The difference of each seed."""
        return tuple(after - before for before, after in zip(self.before, self.after, strict=True))

    @property
    def verdict(self) -> str:
        """The verdict in the good direction: `better`, `worse`, `higher`, `lower`, or that of the decision."""
        return describe_verdict(self.info, self.decision)

    @property
    def values(self) -> str:
        """The means of the baseline and of the row; a dash without a seed that both have.

        Example:
            >>> change = compare_values("test/ece", {0: 0.013}, {0: 0.030})
            >>> change.values
            '0.0130 → 0.0300'
        """
        if not self.before:
            return ABSENT
        return " → ".join(f"{fmean(values):.{self.info.digits}f}" for values in (self.before, self.after))

    @property
    def size(self) -> float:
        """|mean difference| relative to the spread of the seeds, or to the baseline's value if there is one seed."""
        if not self.before:
            return 0.0
        change = abs(self.difference.mean)
        if len(self.before) == 1:
            return change / max(abs(self.before[0]), 1e-12)
        spread = math.sqrt((variance(self.before) + variance(self.after)) / 2)
        return change / max(spread, 1e-12)


def describe_verdict(info: MeasureInfo, decision: Decision) -> str:
    """A verdict in the direction that is good for a measure."""
    signs = {GAIN: 1, LOSS: -1}
    if decision.verdict not in signs:
        return decision.verdict
    better, worse = {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}[info.better]
    return better if signs[decision.verdict] > 0 else worse


def format_difference(info: MeasureInfo, difference: Interval) -> str:
    """A difference with its interval, with the decimals of the measure; a dash without values.

    If the difference is the same in all seeds, nothing is known about its spread: then it has no interval.
    """
    if not difference.size:
        return ABSENT
    agreeing = f" in {difference.size} of {difference.size} seeds"
    known = difference.size == 1 or not math.isnan(difference.half)
    return describe_difference(difference, info.digits) + ("" if known else agreeing)


def describe_pairs(change: Change) -> str:
    """The difference of each seed; a dash without values.

    Example:
        >>> describe_pairs(compare_values("test/ece", {0: 0.013, 1: 0.014}, {0: 0.030, 1: 0.029}))
        '+0.0170, +0.0150'
    """
    return ", ".join(f"{pair:+.{change.info.digits}f}" for pair in change.pairs) or ABSENT


def describe_change(info: MeasureInfo, difference: Interval, decision: Decision) -> str:
    """A difference with its interval and verdict; a dash without values.

    Example:
        >>> change = compare_values("test/ece", {0: 0.013, 1: 0.014}, {0: 0.030, 1: 0.029})
        >>> describe_change(change.info, change.difference, change.decision)
        '+0.0160 [+0.0033, +0.0287], worse'
    """
    text = format_difference(info, difference)
    return text if text == ABSENT else f"{text}, {describe_verdict(info, decision)}"


def compare_values(name: str, before: Mapping[int, float], after: Mapping[int, float]) -> Change:
    """The change of a measure from its values by seed, decided alone.

    There is no family of rows over which its variance could be moderated. Where the seeds agree in every decimal that
    is shown, their variance is unknown rather than 0, so the difference has no interval and no verdict.
    """
    info = MEASURES[name]
    seeds = [seed for seed in after if seed in before and math.isfinite(before[seed]) and math.isfinite(after[seed])]
    pairs = [after[seed] - before[seed] for seed in seeds]
    difference = interval(pairs, within=info.within.of_differences)
    if len({f"{value:.{info.digits}f}" for value in (*pairs, difference.low, difference.high)}) == 1:
        difference = difference._replace(half=math.nan)
    first, second = (tuple(numbers[seed] for seed in seeds) for numbers in (before, after))
    return Change(name, info, first, second, difference, decide([difference], [pairs])[0])


def changes(before: Sequence[Run], after: Sequence[Run]) -> list[Change]:
    """Every measure of two rows; p-values are adjusted for the measures that both rows have."""
    alone = [
        compare_values(name, *({run.seed: number(run.result.get(name)) for run in runs} for runs in (before, after)))
        for name in MEASURES
    ]
    decisions = decide([change.difference for change in alone], [change.pairs for change in alone])
    return [replace(change, decision=decision) for change, decision in zip(alone, decisions, strict=True)]


def describe_largest(made: Sequence[Change]) -> str:
    """The two measures with a good direction that moved most, in one sentence; empty if nothing was measured.

    Example:
        >>> changed = compare_values("test/ece", {0: 0.013, 1: 0.014}, {0: 0.030, 1: 0.029})
        >>> describe_largest([changed])
        'Moved most: ECE 0.0135 → 0.0295 (worse, 2 of 2 seeds).'
    """
    known = sorted((change for change in made if change.before and change.info.better), key=lambda change: -change.size)
    texts = []
    for change in known[:MOST]:
        direction = change.info.better * change.difference.mean
        verdict = "better" if direction > 0 else "worse" if direction < 0 else "unchanged"
        agreeing = sum(change.info.better * pair * direction > 0 for pair in change.pairs)
        counted = f", {agreeing} of {len(change.pairs)} seeds" if direction and len(change.pairs) > 1 else ""
        texts.append(f"{change.info.title.removesuffix(' %')} {change.values} ({verdict}{counted})")
    return f"Moved most: {', '.join(texts)}." if texts else ""
