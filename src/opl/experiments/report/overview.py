"""What was run: the main findings, then commit, machine, scale, time, and every run with its state."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ..item import Row
from ..results.lines import lines
from ..results.runs import BROKEN, Run, inner
from ..scales import MEANING
from ..statistics import GAIN, Decision, Interval
from .context import Context
from .groups import Group, badge, new_rows
from .markup import Markup, join, tag

STATES = ("done", "failed", "unfinished", "damaged", "refused")
WORDS = {"done": "finished", "refused": "not comparable"}
MOST = 500  # maximum number of runs in the list
FINDINGS = 4


def section(context: Context) -> Markup:
    """The first section of the page."""
    runs = context.runs
    return join(_findings(context.groups), _facts(runs), _troubled(runs), _list(runs))


def duration(seconds: float) -> str:
    """Format seconds as a readable duration.

    Example:
        >>> duration(42), duration(340), duration(7300)
        ('42 s', '5 min 40 s', '2 h 1 min')
    """
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def state_mark(run: Run) -> Markup:
    """The state of a run as a colored word."""
    return tag("span", WORDS.get(run.state, run.state), class_=f"state {run.state}")


def _findings(groups: Sequence[Group]) -> Markup | None:
    cards = [card for group, rows in new_rows(groups) if (card := _finding(group, rows))]
    return tag("ul", *cards[:FINDINGS], class_="findings", role="list") if cards else None


def _finding(group: Group, rows: Sequence[Row]) -> Markup | None:
    """The effect of OPL in one table: its paired difference in the first metric, decided as in the table."""
    pair = group.pair()
    if group.scale == "tiny" or pair is None or pair[1] not in rows or not group.item.metrics:
        return None
    base, own = pair
    compared = _comparison(group, own)
    if compared is None or not math.isfinite(compared[0].mean):
        return None
    difference, decision = compared
    metric = group.item.metrics[group.item.main[0]]
    return tag(
        "li",
        tag("p", f"{group.item.name}, {own.label} against {base.label}", class_="over"),
        tag("p", f"{difference.mean:+.2f}", tag("span", f" {metric}", class_="unit"), class_="big"),
        tag("p", _span(difference, decision), class_="under"),
        badge(group.scale),
        class_="gain" if decision.verdict == GAIN else None,
    )


def _comparison(group: Group, row: Row) -> tuple[Interval, Decision] | None:
    """The difference of a row in the first compared metric, and what it shows; None if it cannot be taken."""
    name = group.item.main[0]
    try:
        [line] = [line for line in lines(group.item, group.runs, group.scale) if line.recipe == row.recipe]
    except BROKEN:
        return None
    return line.difference[name], line.decisions[name]


def _span(difference: Interval, decision: Decision) -> str:
    seeds = f"{difference.size} seed{'s' if difference.size != 1 else ''}"
    if math.isnan(difference.half):
        return f"{seeds}: {decision.verdict}"
    return f"95 % interval {difference.low:+.2f} to {difference.high:+.2f}, {seeds}: {decision.verdict}"


def _facts(runs: Sequence[Run]) -> Markup:
    states = Counter(run.state for run in runs)
    scales = sorted({run.scale for run in runs if run.scale})
    facts = {
        "Runs": [", ".join(f"{states[each]} {WORDS.get(each, each)}" for each in STATES if states[each])],
        "Scale": [f"{scale}: {MEANING[scale]}" if scale in MEANING else scale for scale in scales],
        "Training time": [duration(sum(run.seconds for run in runs)) + " in all"],
        "Started": [_dates(runs)],
        "Commit": _several(str(run.about.get("commit") or "unknown") for run in runs if run.about),
        "Machine": _several(_machine(run) for run in runs if run.about),
    }
    parts = [
        tag("div", tag("dt", name), *(tag("dd", value) for value in values))
        for name, values in facts.items()
        if any(values)
    ]
    return tag("dl", *parts, class_="facts")


def _several(values: Iterable[str]) -> list[str]:
    """The five most common values; with the number of runs of each if there is more than one value."""
    counted = Counter(values).most_common()
    return [value if len(counted) == 1 else f"{value} ({count} runs)" for value, count in counted[:5]]


def _machine(run: Run) -> str:
    machine, torch = inner(run.about, "machine"), inner(run.about, "versions").get("torch", "?")
    accelerator = machine.get("accelerator", "none")
    parts = [machine.get("system", "?"), f"{machine.get('cores', '?')} cores", accelerator, f"torch {torch}"]
    return ", ".join(str(part) for part in parts if part != "none")


def _dates(runs: Sequence[Run]) -> str:
    started = sorted(str(run.about["started"]) for run in runs if run.about.get("started"))
    if not started:
        return ""
    first, last = (moment[:16].replace("T", " ") for moment in (started[0], started[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last} UTC"


def _troubled(runs: Sequence[Run]) -> Markup | None:
    rows = [
        tag("li", tag("code", run.where), state_mark(run), tag("span", run.sentence, class_="sentence"))
        for run in runs
        if run.state != "done"
    ]
    if not rows:
        return None
    more = [tag("li", f"and {len(rows) - MOST} more")] if len(rows) > MOST else []
    title = tag("h3", "Not finished")
    return tag("div", title, tag("ul", *rows[:MOST], *more, role="list", class_="runs"), class_="troubled")


def _list(runs: Sequence[Run]) -> Markup | None:
    if not runs:
        return None
    shown = [
        tag(
            "li",
            tag("code", run.where),
            state_mark(run),
            tag("span", f"{duration(run.seconds)}, scale {run.scale}", class_="quiet"),
        )
        for run in runs[:MOST]
    ]
    more = [tag("li", f"and {len(runs) - MOST} more")] if len(runs) > MOST else []
    words = f"All {len(runs)} runs" if len(runs) > 1 else "The run"
    inside = tag("ul", *shown, *more, role="list", class_="runs")
    box = tag("div", inside, class_="box", tabindex="0", role="region", aria_label="List of runs")
    return tag("details", tag("summary", words), box)
