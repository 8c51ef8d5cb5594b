"""How to run it again: the commands, with copy buttons."""

import shlex
from collections import Counter
from collections.abc import Sequence

from ..item import Row
from ..results.runs import Run
from ..scales import SCALES
from .context import Context
from .groups import Group
from .markup import Markup, join, tag

FIRST = (
    "Finished runs are kept, and an unfinished one resumes where it stopped. The same commit on the same machine gives "
    "the same numbers."
)


def section(context: Context) -> Markup:
    """The last section of the page."""
    code = _code(context.runs)
    blocks = [_block("The code", "code", code)] if code else []
    blocks += [_block(f"{group.title} (scale {group.scale})", group.key, _commands(group)) for group in context.groups]
    again = f"opl report {shlex.quote(context.folder)}  # where the folder {context.folder!r} is"
    blocks.append(_block("This page", "page", [again]))
    return join(tag("p", FIRST, class_="lead"), *blocks)


def _code(runs: Sequence[Run]) -> list[str]:
    commits = Counter(str(run.about.get("commit") or "") for run in runs)
    del commits[""]
    lines = []
    for commit, count in commits.most_common():
        notes = [f"{count} runs"] if len(commits) > 1 else []
        notes += ["and changes that are in no commit"] if commit.endswith("+") else []
        lines.append(f"git checkout {shlex.quote(commit.rstrip('+'))}" + (f"  # {', '.join(notes)}" if notes else ""))
    return [*lines, "pip install -c constraints.txt -e '.[experiments]'"] if lines else []


def _commands(group: Group) -> list[str]:
    if group.item.command:
        return [group.item.command]
    if group.rows and group.item.dataset:
        seeds = max(len({run.seed for run in group.of(row)}) for row in group.rows)
        return [f"opl reproduce {group.item.name} --scale {group.scale} --seeds {seeds}"]
    return [line for row in group.rows for line in _trains(group, row)]


def _trains(group: Group, row: Row) -> list[str]:
    name, scale = shlex.quote(row.recipe), shlex.quote(group.scale)
    if group.scale not in SCALES:
        changes = [", ".join(map(str, run.recipe.get("changes") or ["unknown"])) for run in group.of(row)]
        return [f"# {run.where}: {words}" for run, words in zip(group.of(row), changes, strict=True)]
    return [f"opl train {name} --seed {run.seed} --scale {scale}" for run in group.of(row)]


def _block(title: str, key: str, commands: list[str]) -> Markup:
    text = f"again-{key}"
    button = tag("button", "Copy", type="button", class_="copy", data_copy=text, aria_label=f"Copy commands: {title}")
    code = tag("pre", tag("code", "\n".join(commands)), id=text, tabindex="0", role="group", aria_label=title)
    return tag("div", tag("div", tag("h3", title), button, class_="top"), code, class_="commands")
