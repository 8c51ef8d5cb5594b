"""Where the numbers come from: code, versions, machines, time, and every run with its state."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ..results.runs import Run, inner
from ..scales import MEANING
from .context import Context
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag

STATES = ("done", "failed", "unfinished", "damaged", "refused")
WORDS = {"done": "finished", "refused": "not comparable"}
MOST = 500  # maximum number of runs in the list


def section(context: Context) -> Markup:
    """Facts about all runs, and the list of them."""
    return join(_facts(context.runs), troubled(context.runs), _list(context.runs))


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


def count_states(runs: Sequence[Run]) -> str:
    """How many runs are in which state."""
    states = Counter(run.state for run in runs)
    return ", ".join(f"{states[each]} {WORDS.get(each, each)}" for each in STATES if states[each])


def state_mark(run: Run) -> Markup:
    """The state of a run as a colored word."""
    return tag("span", WORDS.get(run.state, run.state), class_=f"state {run.state}")


def troubled(runs: Sequence[Run]) -> Markup | None:
    """The runs that are in no number, each with the reason."""
    rows = [
        tag("li", tag("code", run.where), state_mark(run), tag("span", run.sentence, class_="sentence"))
        for run in runs
        if run.state != "done"
    ]
    if not rows:
        return None
    more = [tag("li", f"and {len(rows) - MOST} more")] if len(rows) > MOST else []
    title = tag("h3", "Not in the numbers")
    return tag("div", title, tag("ul", *rows[:MOST], *more, role="list", class_="runs"), class_="troubled")


def _facts(runs: Sequence[Run]) -> Markup:
    scales = sorted({run.scale for run in runs if run.scale})
    facts = {
        "Runs": [count_states(runs)],
        "Scale": [f"{scale}: {MEANING[scale]}" if scale in MEANING else scale for scale in scales],
        "Training time": [duration(sum(run.seconds for run in runs)) + " in all"],
        "Started": [_dates(runs)],
        "Commit": _several(str(run.about.get("commit") or "unknown") for run in runs if run.about),
        "Versions": _several(_versions(run) for run in runs if run.about),
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


def _versions(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in inner(run.about, "versions").items())


def _machine(run: Run) -> str:
    machine = inner(run.about, "machine")
    accelerator = machine.get("accelerator", "none")
    threads = f"{machine['threads']} threads" if "threads" in machine else "none"
    parts = [machine.get("system", "?"), f"{machine.get('cores', '?')} cores", threads, accelerator]
    return ", ".join(str(part) for part in parts if part != "none")


def _dates(runs: Sequence[Run]) -> str:
    started = sorted(str(run.about["started"]) for run in runs if run.about.get("started"))
    if not started:
        return ""
    first, last = (moment[:16].replace("T", " ") for moment in (started[0], started[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last} UTC"


def _list(runs: Sequence[Run]) -> Markup:
    head = [heading(word) for word in ("run", "state", "scale", "seconds", "started", "commit")]
    body = [
        row(
            tag("code", run.where),
            cell("state", state_mark(run), "words"),
            cell("scale", run.scale, "words"),
            cell("seconds", f"{run.seconds:.0f}"),
            cell("started", str(run.about.get("started", "-"))[:16].replace("T", " "), "words"),
            cell("commit", str(run.about.get("commit") or "-"), "words"),
        )
        for run in runs[:MOST]
    ]
    words = f"All {len(runs)} runs" if len(runs) > 1 else "The run"
    more = tag("p", f"and {len(runs) - MOST} more", class_="note") if len(runs) > MOST else None
    return tag("details", tag("summary", words), scroll_box("List of runs", [head], body), more)
