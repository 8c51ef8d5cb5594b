"""The settings of every row: what it has otherwise than its baseline, marked, and what all rows share."""

from typing import Any

from ..results.runs import Run
from ..settings import FREE, differences
from .context import Experiment
from .html_table import cell, heading, row, scroll_box
from .markup import Markup, join, tag

LEFT_OUT = {"name", "kind", "changes", *FREE}
NONE = "none"


def section(experiment: Experiment) -> Markup | None:
    """A line for each row, with every difference from its baseline, or from the first row if it has none."""
    group = experiment.group
    found = [(each, group.of(each)[0]) for each in group.rows if group.of(each)]
    if not found:
        return None
    by_recipe = {each.recipe: (each.label, run) for each, run in found}
    first = (found[0][0].label, found[0][1])
    body = []
    for each, run in found:
        label, base = by_recipe.get(each.baseline, first)
        content = (
            _marks(run, base) if base is not run else [tag("span", "all others are held against it", class_="quiet")]
        )
        against = "-" if base is run else label
        body.append(row(each.label, cell("against", against, "words"), cell("differences", join(*content), "chips")))
    head = [heading(group.item.what), heading("against"), heading("every difference in the settings", sort=False)]
    label = f"Differences in the settings, {group.title}, scale {group.scale}"
    return join(
        scroll_box(label, [head], body),
        _odd(experiment),
        _common([run for _, run in found], f"{group.title}, scale {group.scale}"),
    )


def _marks(run: Run, base: Run) -> list[Markup]:
    """Every setting that differs, with both values."""
    names = [name for name in differences(run.recipe, base.recipe) if name not in LEFT_OUT]
    if not names:
        return [tag("span", "none", class_="quiet")]
    ours, theirs = flatten(run.recipe), flatten(base.recipe)
    marked = []
    for name in names:
        inside = [key for key in {**theirs, **ours} if key == name or key.startswith(f"{name}.")]
        for key in inside or [name]:
            before, after = theirs.get(key, NONE), ours.get(key, NONE)
            change = tag("mark", f"{before} → {after}" if before != NONE else after)
            marked.append(tag("span", f"{key} ", change, class_="chip"))
    return marked


def _odd(experiment: Experiment) -> Markup | None:
    """Runs that are not compared because their settings are others than their recipe's."""
    odd = [run for run in experiment.group.runs if run.state == "refused"]
    if not odd:
        return None
    lines = [tag("li", tag("code", run.where), " ", tag("mark", run.sentence)) for run in odd]
    return tag("div", tag("p", "Not compared:"), tag("ul", *lines, role="list", class_="runs"), class_="troubled")


def _common(runs: list[Run], title: str) -> Markup:
    """The settings that all rows share, folded away."""
    every = [flatten(run.recipe) for run in runs]
    shared = {name: value for name, value in every[0].items() if all(each.get(name) == value for each in every)}
    body = [row(name, cell("value", value, "words")) for name, value in shared.items() if name not in LEFT_OUT]
    box = scroll_box(f"Shared settings, {title}", [[heading("setting"), heading("value")]], body, "narrow")
    return tag("details", tag("summary", f"{len(body)} settings that all rows share"), box)


def flatten(settings: dict[str, Any], inside: str = "") -> dict[str, str]:
    """Settings by their dotted names, as text.

    Example:
        >>> flatten({"epochs": 3, "method": {"kind": "CE", "gamma": None}})
        {'epochs': '3', 'method.kind': 'CE', 'method.gamma': 'none'}
    """
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            found |= flatten(value, f"{inside}{name}.")
        else:
            found[f"{inside}{name}"] = NONE if value is None else str(value)
    return found
