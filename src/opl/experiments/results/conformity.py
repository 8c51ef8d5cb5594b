"""Like for like: which finished runs may be compared. A run that may not gets another state, and says why.

Tables, figures and the page only use runs whose state is `done`. `screen` turns the state of a run into `refused` if
its settings are not those of its recipe, if its seed was used before, if it was evaluated with a run that is refused,
or if it differs from its baseline in more than the method. A run whose files are not what it wrote is `damaged` before
(see `runs`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..item import Item
from ..run_folder import ENDED_AFTER
from ..settings import FREE, describe_changes, differences
from .runs import REFUSED, Run, inner, number


class Recipes(NamedTuple):
    """What is known of recipes where torch is at hand."""

    settings: Callable[[str, str], dict[str, Any] | None]
    """The settings of a recipe, by name and scale; None if there is no such recipe."""
    complete: Callable[[dict[str, Any]], dict[str, Any]]
    """The settings of a run with those added, as their defaults, that did not exist when it was started."""


OF_METHOD = {"name", "method", "after", "members", "kind"}  # what may tell a row from its baseline


def screen(runs: Iterable[Run], items: Iterable[Item], recipes: Recipes | None = None) -> list[Run]:
    """The same runs, those that may not be compared with a state that says so.

    Args:
        runs: all runs of a folder.
        items: the tables and figures that name rows and their baselines.
        recipes: what runs must be like; without it they are only compared with each other.
    """
    known = [replace(run, recipe=recipes.complete(run.recipe)) if recipes else run for run in runs]
    screened = [_refuse(run, _faults(run, recipes)) for run in known]
    screened = _with_their_members(_without_repetitions(screened))
    baselines = {row.recipe: row.baseline for item in items for row in item.rows if row.baseline}
    return _like_their_baselines(screened, baselines)


def describe_code(runs: Sequence[Run]) -> str:
    """The commits and versions of some runs, if they are of several; otherwise empty."""
    found: dict[str, int] = {}
    for run in runs:
        versions = run.about.get("versions")
        torch = versions.get("torch", "?") if isinstance(versions, dict) else "?"
        code = f"commit {run.about.get('commit') or 'unknown'}, torch {torch}"
        found[code] = found.get(code, 0) + 1
    if len(found) < 2:
        return ""
    return "runs of different code are compared: " + "; ".join(
        f"{code} ({count} runs)" for code, count in found.items()
    )


def _refuse(run: Run, faults: Sequence[str]) -> Run:
    return replace(run, state=REFUSED, sentence="; ".join(faults)) if faults and run.state == "done" else run


def _faults(run: Run, recipes: Recipes | None) -> list[str]:
    """What is wrong with a run by itself."""
    if run.state != "done":
        return []
    changed = _changes(run.recipe, run.scale, recipes)
    faults = [f"other settings: {', '.join(changed)}"] if changed else []
    if run.recipe.get("changes"):
        return faults
    faults += _faults_of_teacher(run, recipes)
    name, folder = f"{run.name}/seed-{run.seed}", run.folder.path.resolve()
    if folder.parts[-2:] != (run.name, f"seed-{run.seed}"):
        faults.append(f"its folder is {'/'.join(folder.parts[-2:])} and its recipe says {name}")
    epochs, done = number(run.result.get(ENDED_AFTER, run.recipe.get("epochs"))), len(run.records)
    if done and epochs == epochs and done != epochs:
        faults.append(f"its records have {done} epochs and its recipe {epochs:g}")
    return faults


def _changes(settings: dict[str, Any], scale: str, recipes: Recipes | None) -> list[str]:
    """What a run has otherwise than its recipe: as it says itself, or as the recipe is now."""
    said = settings.get("changes")
    if isinstance(said, list) and said:
        return [str(change) for change in said]
    wanted = recipes.settings(str(settings.get("name", "")), scale) if recipes else None
    return describe_changes(settings, wanted, FREE) if wanted else []


def _faults_of_teacher(run: Run, recipes: Recipes | None) -> list[str]:
    """What is wrong with the run that this one came after, as its result names it."""
    settings = inner(inner(run.result, "after"), "recipe")
    if not settings:
        return []
    name, seed = settings.get("name"), settings.get("seed")
    changed = _changes(recipes.complete(settings) if recipes else settings, run.scale, recipes)
    faults = [f"it came after {name} with other settings: {', '.join(changed)}"] if changed else []
    return faults + ([f"it came after {name} with seed {seed}"] if seed != run.seed else [])


def _without_repetitions(runs: Sequence[Run]) -> list[Run]:
    """Refuse a run whose seed or whose very weights another run of its recipe had before."""
    seeds: dict[tuple[str, str, int], Run] = {}
    weights: dict[tuple[str, str], Run] = {}
    kept = []
    for run in runs:
        faults = []
        if run.state == "done":
            first = seeds.setdefault((run.name, run.scale, run.seed), run)
            if first is not run:
                faults.append(f"the same recipe and seed as {first.where}")
            weight = run.weights_sum()
            if weight:
                twin = weights.setdefault((run.name, weight), run)
                if twin is not run and not faults:
                    faults.append(f"the same weights as {twin.where}")
        kept.append(_refuse(run, faults))
    return kept


def _with_their_members(runs: Sequence[Run]) -> list[Run]:
    """Refuse a run that was evaluated with another one that is refused, or has other weights since."""
    there = {(run.name, run.scale, run.seed): run for run in runs}
    kept = []
    for run in runs:
        measures = run.folder.measures() if run.result and run.recipe.get("members") else ()
        told = [inner(run.measure(name), "members").items() for name in measures]
        faults = {}
        for name, weights in (pair for pairs in told for pair in pairs):
            member = there.get((name, run.scale, run.seed))
            if member is not None and member.state == REFUSED:
                faults[name] = f"it was evaluated with {name}, which is refused ({member.sentence})"
            elif member is not None and member.weights_sum() not in ("", weights):
                faults[name] = f"it was evaluated with other weights of {name} than are there now"
        kept.append(_refuse(run, list(faults.values())))
    return kept


def _like_their_baselines(runs: Sequence[Run], baselines: Mapping[str, str]) -> list[Run]:
    """Refuse a row's run that differs from its baseline's of the same seed in more than the method."""
    done = {(run.name, run.scale, run.seed): run for run in runs if run.state == "done"}
    kept = []
    for run in runs:
        base = done.get((baselines.get(run.name, ""), run.scale, run.seed))
        kept.append(_refuse(run, _unlike(run, base)) if base is not None else run)
    return kept


def _unlike(run: Run, base: Run) -> list[str]:
    names = [
        name
        for name in differences(run.recipe, base.recipe)
        if name.split(".")[0] not in OF_METHOD and name not in FREE
    ]
    faults = [f"not like its baseline in {', '.join(names)}"] if names else []
    if run.splits() and base.splits() and _images(run) != _images(base):
        faults.append("other images than its baseline was trained, validated or tested on")
    if run.noise() != base.noise():
        faults.append("other wrong labels than its baseline's")
    return faults


def _images(run: Run) -> dict[str, Any]:
    """Which images were in which part; not the folder that they were read from."""
    return {name: value for name, value in run.splits().items() if name != "source"}
