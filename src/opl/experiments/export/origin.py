"""Where an exported run comes from: data, command, code, machine and time, for its card and for `training.json`."""

import shlex
from pathlib import PurePath, PureWindowsPath
from typing import Any

from ..data import CATALOG
from ..models.exported import NetworkConfig
from ..results.runs import inner
from .subject import Subject

NAMED = 20  # class names on a card; config.json has all of them


def portable_about(about: dict[str, Any]) -> dict[str, Any]:
    """The content of `recipe.json` without folders of the machine."""
    recipe = dict(about["recipe"])
    recipe["data"] = {**inner(recipe, "data"), "root": ""}
    recipe["weights"] = _portable(str(recipe.get("weights", "")))
    return {**about, "recipe": recipe}


def describe_data(subject: Subject, config: NetworkConfig) -> str:
    """The data set, its license, how many images were used for what, and the classes."""
    known, splits = CATALOG.get(config.data), subject.run.splits()
    source = f" (`{known.hub}` on the Hub)" if known and known.hub else ""
    lines = [f"{config.data}{source}: {config.num_classes} classes, {_images(splits)}."]
    if known:
        lines.append(f"License of the data: {known.license}.")
    rates = inner(subject.run.noise(), "rates")
    if rates:
        wrong = ", ".join(f"{100 * float(rate):.1f} % of {part}" for part, rate in rates.items())
        lines.append(f"Labels that were made wrong on purpose: {wrong}.")
    names = config.class_names
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    if names:
        lines.append(f"Classes: {', '.join(names[:NAMED])}{more}.")
    return "\n\n".join(lines)


def describe_training(subject: Subject, config: NetworkConfig) -> str:
    """How to train it again, and what it was trained with."""
    about, run = subject.run.about, subject.run
    versions, machine = inner(about, "versions"), inner(about, "machine")
    start = _start(str(run.result.get("start", "scratch")))
    facts = {
        "Code": f"{_commit(str(about.get('commit') or ''))}, opl {versions.get('opl', '?')}, torch "
        f"{versions.get('torch', '?')}, Python {versions.get('python', '?')}",
        "Machine": f"{machine.get('system', '?')}, {machine.get('cores', '?')} cores, {machine.get('threads', '?')} "
        f"threads, accelerator: {machine.get('accelerator', '?')}",
        "Time": f"{run.seconds:.0f} s of training, started {about.get('started', '?')}",
        "Settings": f"{run.recipe.get('epochs', '?')} epochs of batches of {run.recipe.get('batch_size', '?')}, "
        f"precision {config.precision}, from {start}; all of them are in `training.json`",
    }
    listed = "\n".join(f"- {name}: {text}." for name, text in facts.items())
    return f"{_command(subject)}\n\n{listed}"


def _command(subject: Subject) -> str:
    """The command of a recipe; a run with settings of its own is trained from `training.json`."""
    run = subject.run
    if subject.caveat:
        return (
            "To train it again, with the settings of this run:\n\n```python\nimport json\n"
            "from opl.experiments.training.build import parse_recipe\nfrom opl.experiments.training.run import run\n\n"
            'run(parse_recipe(json.load(open("training.json"))["recipe"]), "runs")\n```'
        )
    first = [str(run.recipe["after"])] if run.recipe.get("after") else []
    words = [f"opl train {shlex.quote(name)} --scale {run.scale} --seed {run.seed}" for name in [*first, run.name]]
    seeds = len(subject.seeds)
    every = (
        f"\n\nAll rows of its table: `opl reproduce {subject.item.name} --scale {run.scale} --seeds {seeds}`."
        if subject.item
        else ""
    )
    return "To train it again:\n\n```\n" + "\n".join(words) + f"\n```{every}"


def _commit(commit: str) -> str:
    changed = " with changes that are in no commit" if commit.endswith("+") else ""
    return f"commit {commit.rstrip('+') or 'unknown'}{changed}"


def _images(splits: dict[str, Any]) -> str:
    sizes = {part: splits.get(part, 0) for part in ("train", "val", "test")}
    counts = {part: len(size) if isinstance(size, list) else size for part, size in sizes.items()}
    return f"{counts['train']:,} training, {counts['val']:,} validation and {counts['test']:,} test images"


def _start(start: str) -> str:
    """What a run started from, such as `weights.pth, SHA-256 ...`."""
    weights, comma, checksum = start.partition(", SHA-256 ")
    return f"{_portable(weights)}{comma}{checksum}"


def _portable(place: str) -> str:
    """A Hub id or a name as it is; of an absolute path its last part."""
    for kind in (PurePath, PureWindowsPath):
        if kind(place).is_absolute():
            return kind(place).name
    return place
