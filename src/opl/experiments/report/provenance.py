"""Where the numbers come from: code, versions, machines, time, every run with its state, and the commands to rerun."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from ..charts.svg import DataTable
from ..results.document import describe_machine, describe_seconds
from ..results.portable import portable
from ..results.runs import Run, inner
from ..scales import MEANING, SCALES
from .groups import Group
from .templates import render

STATES = {
    "done": "finished",
    "failed": "failed",
    "unfinished": "unfinished",
    "damaged": "damaged",
    "refused": "not comparable",
}
"""The states of runs, and their names on the page."""
MOST = 500  # maximum number of runs in a list
COLUMNS = ("run", "state", "scale", "seconds", "started", "commit")
TEXT = ("state", "scale", "started", "commit")


def runs_section(runs: Sequence[Run]) -> Markup:
    """Render facts about all runs, the runs that are not in the numbers with the reason, and the list of all."""
    return render(
        "runs",
        facts={name: values for name, values in _facts(runs).items() if any(values)},
        excluded=[(run, STATES.get(run.state, run.state)) for run in runs if run.state != "done"],
        most=MOST,
        count=len(runs),
        listed=DataTable("List of runs", COLUMNS, [_list_run(run) for run in runs[:MOST]], TEXT, kind=""),
    )


def rerun_section(folder: str, runs: Sequence[Run], groups: Sequence[Group]) -> Markup:
    """Render the commands that made the runs and the page, with copy buttons; `groups` are the groups of the runs."""
    code = _checkout(runs)
    blocks = [("The code", "code", code)] if code else []
    blocks += [(f"{group.title} (scale {group.scale})", group.key, _commands(group)) for group in groups]
    blocks.append(("This page", "page", [f"opl report {shlex.quote(folder)}  # run it next to the folder {folder!r}"]))
    return render("rerun", blocks=blocks)


def count_states(runs: Sequence[Run]) -> str:
    """Describe how many runs are in each state."""
    counts = Counter(run.state for run in runs)
    return ", ".join(f"{counts[state]} {name}" for state, name in STATES.items() if counts[state])


def _facts(runs: Sequence[Run]) -> dict[str, list[str]]:
    scales = sorted({run.scale for run in runs if run.scale})
    started = [run for run in runs if run.about]
    return {
        "Runs": [count_states(runs)],
        "Scale": [f"{scale}: {MEANING[scale]}" if scale in MEANING else scale for scale in scales],
        "Training time": [describe_seconds(sum(run.seconds for run in runs)) + " in total"],
        "Started": [_describe_dates(runs)],
        "Commit": _most_common(str(run.about.get("commit") or "unknown") for run in started),
        "Versions": _most_common(map(_describe_versions, started)),
        "Machine": _most_common(map(describe_machine, started)),
    }


def _describe_versions(run: Run) -> str:
    return ", ".join(f"{name} {version}" for name, version in inner(run.about, "versions").items())


def _most_common(values: Iterable[str]) -> list[str]:
    """Return the five most common values; with the number of runs of each if there is more than one value."""
    counted = Counter(values).most_common()
    return [value if len(counted) == 1 else f"{value} ({count} runs)" for value, count in counted[:5]]


def _describe_dates(runs: Sequence[Run]) -> str:
    started = sorted(str(run.about["started"]) for run in runs if run.about.get("started"))
    if not started:
        return ""
    first, last = (moment[:16].replace("T", " ") for moment in (started[0], started[-1]))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[11:] if first[:10] == last[:10] else last} UTC"


def _list_run(run: Run) -> tuple[object, ...]:
    started = str(run.about.get("started", "-"))[:16].replace("T", " ")
    state = render("state", state=run.state, name=STATES.get(run.state, run.state))
    commit = str(run.about.get("commit") or "-")
    return render("code", text=run.where), state, run.scale, f"{run.seconds:.0f}", started, commit


def _checkout(runs: Sequence[Run]) -> list[str]:
    commits = Counter(str(run.about.get("commit") or "") for run in runs)
    del commits[""]
    lines = []
    for commit, count in commits.most_common():
        notes = [f"{count} runs"] if len(commits) > 1 else []
        notes += ["with uncommitted changes"] if commit.endswith("+") else []
        lines.append(f"git checkout {shlex.quote(commit.rstrip('+'))}" + (f"  # {', '.join(notes)}" if notes else ""))
    return [*lines, "pip install -c constraints.txt -e '.[experiments]'"] if lines else []


def _commands(group: Group) -> list[str]:
    if group.item.command:
        return [portable(group.item.command)]
    if group.rows and group.item.dataset:
        seeds = max(len({run.seed for run in group.of(row)}) for row in group.rows)
        return [f"opl reproduce {group.item.name} --scale {group.scale} --seeds {seeds}"]
    runs = [run for row in group.rows for run in group.of(row)]
    if group.scale in SCALES:
        return [f"opl train {shlex.quote(run.name)} --seed {run.seed} --scale {group.scale}" for run in runs]
    return [f"# {run.where}: {', '.join(map(str, run.recipe.get('changes') or ['unknown']))}" for run in runs]
