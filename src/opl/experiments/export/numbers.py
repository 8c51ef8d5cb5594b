"""The numbers of an exported run: its own, their mean over the seeds beside it, and the difference to the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from ..results.comparisons import measured_result, range_of
from ..results.runs import Run, number
from ..statistics import Decision, Interval, decide, interval
from .subject import Subject

METRICS = {"test/top1": "top-1 %", "test/top5": "top-5 %", "test/s": "s", "test/d": "d"}
"""What is shown of every run that has it; a table may show more."""


@dataclass(frozen=True)
class Measurement:
    """One metric of an exported run."""

    metric: str
    title: str
    value: float
    """The number of these very weights."""
    seeds: tuple[int, ...]
    mean: Interval
    """Over the seeds."""
    paired: Mapping[int, float]
    """The difference to the baseline, by the seeds that both have."""
    decision: Decision | None = None
    """What the difference shows, for the metrics that the table compares."""

    @property
    def difference(self) -> Interval:
        """The mean difference to the baseline."""
        return interval(list(self.paired.values()), within=range_of(self.metric, self.title).of_differences)


def measure(subject: Subject) -> list[Measurement]:
    """Every metric that the run has a finite number of."""
    shown = {**METRICS, **(subject.item.metrics if subject.item else {})}
    found = []
    for metric, title in shown.items():
        own, base = (_values(subject, runs, metric) for runs in (subject.seeds, subject.baseline))
        if subject.run.seed in own:
            paired = {seed: value - base[seed] for seed, value in own.items() if seed in base}
            mean = interval(list(own.values()), within=range_of(metric, title))
            found.append(Measurement(metric, title, own[subject.run.seed], tuple(own), mean, paired))
    return _decide(found, subject.item.main if subject.item else ())


def _values(subject: Subject, runs: Sequence[Run], metric: str) -> dict[int, float]:
    """A metric by seed, where it was measured with the settings of the table."""
    item, scale = subject.item, subject.run.scale
    results = {run.seed: measured_result(run, item, scale)[0] if item else run.result for run in runs}
    values = {seed: number(result.get(metric)) for seed, result in results.items()}
    return {seed: value for seed, value in values.items() if isfinite(value)}


def _decide(found: Sequence[Measurement], compared: Sequence[str]) -> list[Measurement]:
    """Add what the differences in the compared metrics show, adjusted for their number."""
    chosen = [each for each in found if each.metric in compared and each.paired]
    decisions = decide([each.difference for each in chosen], [list(each.paired.values()) for each in chosen])
    by_metric = {each.metric: decision for each, decision in zip(chosen, decisions, strict=True)}
    return [replace(each, decision=by_metric.get(each.metric)) for each in found]
