"""The effect of the paper's OPL over all tables: random-effects means per task, with settings as units.

A setting is a recipe with the paper's OPL and one metric of its table. Its effect is the mean paired difference to the
baseline over seeds, with a variance that is moderated over all settings of the task.
"""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from ..item import Item
from ..statistics import Interval, bootstrap, improvement, interquartile_mean, interval, moderate, random_effects
from .comparisons import describe_difference, family_of, lines
from .runs import Run, inner, select_runs
from .text import markdown_table

PAPER = {"kind": "OPL", "weight": 1.0, "gamma": 0.5, "form": "mean_abs"}
"""The settings of OPL in the paper."""
WIDTH = 140  # characters of a line of text


class Setting(NamedTuple):
    """One comparison of the paper's OPL with its baseline."""

    item: str
    task: str
    label: str
    recipe: str
    network: str
    metric: str
    pairs: tuple[float, ...]
    values: tuple[float, ...]
    """The numbers of all seeds with OPL."""
    baseline: tuple[float, ...]
    """The same without OPL."""


class Summary(NamedTuple):
    """The effect of the paper's OPL on one task."""

    task: str
    settings: int
    networks: int
    effect: Interval
    """Random-effects mean over settings."""
    by_network: Interval
    """The same over networks, each with the mean of its settings."""
    improvement: float
    """How often a run with OPL is better than a run without, over settings."""
    improvement_ends: tuple[float, float]
    middle: float
    """Interquartile mean of the paired differences of all seeds."""
    middle_ends: tuple[float, float]

    @property
    def verdict(self) -> str:
        """What the effect shows."""
        return "OPL gains" if self.effect.low > 0 else "OPL loses" if self.effect.high < 0 else "no effect shown"


def collect_settings(items: Iterable[Item], runs: Sequence[Run], scale: str) -> list[Setting]:
    """Every comparison of the paper's OPL with a baseline of the same method without it, each once.

    Means of rows or columns and numbers of selected weights are left out, and so are runs that another compared row
    starts from, which are a part of its method. A recipe with a test number is not counted by validation too. A single
    seed has no variance, so a setting has at least two.
    """
    settings: dict[tuple[str, str], Setting] = {}
    for item in (item.for_scale(scale) for item in items):
        table = {line.recipe: line for line in lines(item, runs, scale)} if item.metrics else {}
        rows = {row.recipe: row for row in item.at(scale)}
        first = {recipe: next(iter(select_runs(runs, recipe, scale)), None) for recipe in table}
        parts = {str(run.recipe.get("after", "")) for run in first.values() if run}
        for recipe, line in table.items():
            run, row = first[recipe], rows.get(recipe)
            if run is None or row is None or recipe in parts or {**inner(run.about, "opl"), **PAPER} != run.opl:
                continue
            without = first.get(row.baseline)
            if without is None or _auxiliary(without.method) != _auxiliary(run.baseline_method):
                continue  # OPL replaces another loss of the baseline
            base = table[row.baseline]
            for metric in item.main:
                if len(line.pairs.get(metric, ())) > 1 and not family_of(item, line, metric):
                    model = inner(run.recipe, "model")
                    settings.setdefault(
                        (recipe, metric),
                        Setting(
                            item.name,
                            row.task or item.task,
                            line.label,
                            recipe,
                            f"{model.get('kind', '?')}-{model.get('depth', '')}{model.get('network', '')}",
                            metric,
                            line.pairs[metric],
                            line.values[metric],
                            base.values[metric],
                        ),
                    )
    tested = {recipe for recipe, metric in settings if metric.startswith("test/")}
    return [
        setting
        for (recipe, metric), setting in settings.items()
        if not (metric.startswith("val/") and recipe in tested)
    ]


def _auxiliary(method: dict[str, Any]) -> list[Any]:
    """The auxiliary losses of a method, as settings."""
    return method.get("auxiliary") or []


def summarize(settings: Sequence[Setting]) -> list[Summary]:
    """The effect on each task that has at least two settings."""
    by_task = {task: tuple(of_task(settings, task)) for task in dict.fromkeys(setting.task for setting in settings)}
    return [summarize_task(task, chosen) for task, chosen in by_task.items() if len(chosen) > 1]


def of_task(settings: Sequence[Setting], task: str) -> list[Setting]:
    """The settings of a task."""
    return [setting for setting in settings if setting.task == task]


def measure_effects(settings: Sequence[Setting]) -> list[Interval]:
    """The mean paired difference of each setting, with variances moderated over the settings of one task."""
    return moderate([interval(setting.pairs) for setting in settings])


@cache
def summarize_task(task: str, settings: tuple[Setting, ...]) -> Summary:
    """The effect over some settings; cached, since two tables and the forest plot show it."""
    effects = measure_effects(settings)
    networks: dict[str, list[Interval]] = {}
    for effect, setting in zip(effects, settings, strict=True):
        networks.setdefault(setting.network, []).append(effect)
    scores, baselines = [setting.values for setting in settings], [setting.baseline for setting in settings]
    pairs = [setting.pairs for setting in settings]
    return Summary(
        task,
        len(settings),
        len(networks),
        random_effects(effects),
        random_effects([random_effects(of_network) for of_network in networks.values()]),
        improvement(scores, baselines),
        bootstrap(improvement, scores, baselines),
        interquartile_mean(pairs),
        bootstrap(interquartile_mean, pairs),
    )


def render_summary(settings: Sequence[Setting]) -> str:
    """The effect on each task in Markdown: a table, and one sentence per task."""
    summaries = summarize(settings)
    heading = ("task", "settings", "mean effect", "networks", "by network", "P(improvement)", "interquartile mean")
    rows = [
        (
            summary.task,
            str(summary.settings),
            describe_difference(summary.effect),
            str(summary.networks),
            describe_difference(summary.by_network) if summary.networks > 1 else "-",
            f"{summary.improvement:.2f} [{summary.improvement_ends[0]:.2f}, {summary.improvement_ends[1]:.2f}]",
            f"{summary.middle:+.2f} [{summary.middle_ends[0]:+.2f}, {summary.middle_ends[1]:+.2f}]",
        )
        for summary in summaries
    ]
    sentences = [describe_task(summary, of_task(settings, summary.task)) for summary in summaries]
    return "\n\n".join([markdown_table(heading, rows), "\n".join(map(list_entry, sentences))])


def render_tasks(settings: Sequence[Setting]) -> str:
    """The effect on each task in a small Markdown table, the largest gain first."""
    summaries = sorted(summarize(settings), key=lambda summary: -summary.effect.mean)
    rows = [(summary.task, describe_difference(summary.effect), summary.verdict) for summary in summaries]
    return markdown_table(("task", "with OPL minus without", "verdict"), rows)


def list_entry(text: str) -> str:
    """A sentence as an entry of a Markdown list, in lines of at most `WIDTH` characters."""
    return textwrap.fill(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)


def describe_task(summary: Summary, settings: Sequence[Setting]) -> str:
    """What OPL did on a task, and how much of it rests on one network."""
    network, count = Counter(setting.network for setting in settings).most_common(1)[0]
    same, rest = ([setting for setting in settings if (setting.network == network) is equal] for equal in (True, False))
    name = network.rstrip("-")
    if not rest:
        details = f" {'Both' if count == 2 else f'All {count}'} settings use {name}."
    elif count == 1:
        details = ""
    else:
        details = f" {count} of the {len(settings)} settings use {name}, with a mean of {_describe(same)}"
        details += f"; the other {len(rest)} have a mean of {_describe(rest)}." if len(rest) > 1 else "."
    return f"**{summary.task.capitalize()}: {summary.verdict}.**{details}"


def _describe(settings: Sequence[Setting]) -> str:
    return describe_difference(random_effects(measure_effects(settings)))


def render_settings(settings: Sequence[Setting]) -> str:
    """Every setting with its difference, variances moderated over its task, in Markdown."""
    rows: list[tuple[str, ...]] = []
    for task in dict.fromkeys(setting.task for setting in settings):
        chosen = of_task(settings, task)
        rows += [
            (
                task,
                setting.item,
                f"{setting.label}, {setting.metric.rpartition('/')[2]}",
                setting.network.rstrip("-"),
                str(len(setting.pairs)),
                describe_difference(effect),
            )
            for setting, effect in zip(chosen, measure_effects(chosen), strict=True)
        ]
    return markdown_table(("task", "table", "setting", "network", "seeds", "difference"), rows)
