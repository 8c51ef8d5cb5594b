"""Like for like: which finished runs can be compared. Incomparable runs are marked `refused`, with the reason.

Tables, figures and the page only use runs whose state is `done`. `screen` refuses a run if it says that its settings
differ from those of its recipe, if its settings differ from those of the latest run of its recipe, if its seed was used
before, if it was evaluated with a refused run, or if it differs from its baseline in more than the method. Only what
the runs store is used, so the same folder gives the same tables everywhere, with torch or without. A run with changed
files is `damaged` before (see `runs`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..item import Item
from ..run_folder import ENDED_AFTER
from ..settings import FREE, describe_changes, differences
from ..terminal import count
from .runs import REFUSED, Run, inner, number

OF_METHOD = {"name", "method", "after", "members", "kind"}  # settings in which a row may differ from its baseline


def screen(runs: Iterable[Run], items: Iterable[Item]) -> list[Run]:
    """The same runs, with incomparable ones refused.

    Args:
        runs: all runs of a folder, or all records.
        items: the tables and figures that name rows and their baselines.
    """
    baselines = {row.recipe: row.baseline for item in items for row in item.rows if row.baseline}
    screened = [_refuse(run, _faults(run)) for run in runs]
    unlike = partial(_unlike_baselines, baselines=baselines)
    for rule in (_repetitions, unlike, _other_than_the_latest, _refused_members):
        screened = [_refuse(run, faults) for run, faults in zip(screened, rule(screened), strict=True)]
    return screened


def describe_code(runs: Sequence[Run]) -> str:
    """The commits and torch versions of some runs if there are several; otherwise empty."""
    codes: Counter[str] = Counter()
    for run in runs:
        versions = run.about.get("versions")
        torch = versions.get("torch", "?") if isinstance(versions, dict) else "?"
        codes[f"commit {run.about.get('commit') or 'unknown'}, torch {torch}"] += 1
    if len(codes) < 2:
        return ""
    listed = "; ".join(f"{code} ({count(number, 'run')})" for code, number in codes.items())
    return f"runs of different code are compared: {listed}"


def _refuse(run: Run, faults: Sequence[str]) -> Run:
    return replace(run, state=REFUSED, sentence="; ".join(faults)) if faults and run.state == "done" else run


def _faults(run: Run) -> list[str]:
    """What is wrong with a run by itself."""
    if run.state != "done":
        return []
    changed = _changes(run.recipe)
    if changed:
        return [f"other settings: {', '.join(changed)}"]
    faults = _faults_of_teacher(run)
    name, folder = f"{run.name}/seed-{run.seed}", run.folder.path.resolve()
    if folder.parts[-2:] != (run.name, f"seed-{run.seed}"):
        faults.append(f"its folder is {'/'.join(folder.parts[-2:])}, but its recipe is {name}")
    epochs, done = number(run.result.get(ENDED_AFTER, run.recipe.get("epochs"))), len(run.records)
    if done and epochs == epochs and done != epochs:
        faults.append(f"it recorded {done} epochs, but its recipe has {epochs:g}")
    return faults


def _changes(settings: dict[str, Any]) -> list[str]:
    """The settings that differ from the recipe, as the run wrote them when it started."""
    changes = settings.get("changes")
    return [str(change) for change in changes] if isinstance(changes, list) else []


def _teacher(run: Run) -> dict[str, Any]:
    """The settings of the run that this run came after, from its result."""
    return inner(inner(run.result, "after"), "recipe")


def _faults_of_teacher(run: Run) -> list[str]:
    """What is wrong with the run that this run came after."""
    settings = _teacher(run)
    if not settings:
        return []
    name, seed = settings.get("name"), settings.get("seed")
    changed = _changes(settings)
    faults = [f"it came after {name} with other settings: {', '.join(changed)}"] if changed else []
    return faults + ([f"it came after {name} with seed {seed}"] if seed != run.seed else [])


def _other_than_the_latest(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Settings of a run, or of its teacher, that differ from those of the latest run of its recipe and scale.

    Seeds are not compared. A setting that only one of the two runs has is not compared either: it was added or removed
    between the versions of the code that trained them.
    """
    latest: dict[tuple[str, str], Run] = {}
    for run in (run for run in runs if run.state == "done"):
        known = latest.setdefault((run.name, run.scale), run)
        if _started(run) > _started(known):
            latest[run.name, run.scale] = run
    for run in runs:
        newest = latest.get((run.name, run.scale), run)
        changed = [
            *_describe_differences(run.recipe, newest.recipe),
            *(f"after.{text}" for text in _describe_differences(_teacher(run), _teacher(newest))),
        ]
        differs = changed and run.scale != "custom"
        yield [f"other settings than {newest.where}: {', '.join(changed)}"] if differs else []


def _started(run: Run) -> str:
    return str(run.about.get("started", ""))


def _describe_differences(settings: dict[str, Any], newest: dict[str, Any]) -> list[str]:
    changes = describe_changes(_shared(settings, newest), _shared(newest, settings), FREE)
    return [change.replace("(recipe:", "(there:") for change in changes]


def _shared(settings: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The part of some settings that the others have too."""
    return {
        name: _shared(value, others[name]) if isinstance(value, dict) and isinstance(others[name], dict) else value
        for name, value in settings.items()
        if name in others
    }


def _repetitions(runs: Sequence[Run]) -> Iterator[list[str]]:
    """The seed or the weights of an earlier run of the same recipe."""
    seeds: dict[tuple[str, str, int], Run] = {}
    weights: dict[tuple[str, str], Run] = {}
    for run in runs:
        first = twin = run
        if run.state == "done":
            first = seeds.setdefault((run.name, run.scale, run.seed), run)
            weight = run.weights_sum()
            twin = weights.setdefault((run.name, weight), run) if weight else run
        if first is not run:
            yield [f"the same recipe and seed as {first.where}"]
        else:
            yield [f"the same weights as {twin.where}"] if twin is not run else []


def _refused_members(runs: Sequence[Run]) -> Iterator[list[str]]:
    """Refused runs that a run was evaluated with, or other weights of a run than the present ones."""
    by_seed = {(run.name, run.scale, run.seed): run for run in runs}
    for run in runs:
        measures = run.folder.measures() if run.result and run.recipe.get("members") else ()
        members = [inner(run.measure(name), "members").items() for name in measures]
        faults = {}
        for name, weights in (pair for pairs in members for pair in pairs):
            member = by_seed.get((name, run.scale, run.seed))
            if member is not None and member.state == REFUSED:
                faults[name] = f"it was evaluated with {name}, which is refused ({member.sentence})"
            elif member is not None and member.weights_sum() not in ("", weights):
                faults[name] = f"it was evaluated with other weights of {name} than are there now"
        yield list(faults.values())


def _unlike_baselines(runs: Sequence[Run], baselines: Mapping[str, str]) -> Iterator[list[str]]:
    """What differs from the baseline of the same seed, besides the method."""
    done = {(run.name, run.scale, run.seed): run for run in runs if run.state == "done"}
    for run in runs:
        base = done.get((baselines.get(run.name, ""), run.scale, run.seed))
        yield _unlike(run, base) if base is not None else []


def _unlike(run: Run, base: Run) -> list[str]:
    ours, theirs = _shared(run.recipe, base.recipe), _shared(base.recipe, run.recipe)
    names = [name for name in differences(ours, theirs) if name.split(".")[0] not in OF_METHOD and name not in FREE]
    faults = [f"differs from its baseline in {', '.join(names)}"] if names else []
    if run.splits() and base.splits() and _images(run) != _images(base):
        faults.append("trained, validated or tested on other images than its baseline")
    if run.noise() != base.noise():
        faults.append("other wrong labels than its baseline")
    return faults


def _images(run: Run) -> dict[str, Any]:
    """Which images were in which part, without the folder that they were read from."""
    return {name: value for name, value in run.splits().items() if name != "source"}
