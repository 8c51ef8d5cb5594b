"""What was run: network, classes, images, epochs and selection of the rows of a table, from the runs themselves."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..item import Item
from .runs import Run, inner, select_runs

SELECTIONS = {
    "last": "the last epoch is tested",
    "best-val": "the weights that are best on validation are tested",
    "both": "the last epoch is tested, and beside it the weights that are best on validation",
}
PARTS = {"train": "training", "val": "validation", "test": "test"}
NAMED = 4  # labels that are listed; of more the first and the number are given


class Protocol(NamedTuple):
    """What all runs of some rows have in common, as text."""

    network: str
    data: str
    training: str


def describe_protocols(item: Item, runs: Sequence[Run], scale: str) -> list[str]:
    """One sentence for each setting in which rows of a table were run.

    A sentence names its rows if there are several; sizes that vary with the seed are given as a range.
    """
    found: dict[Protocol, dict[str, list[Run]]] = {}
    for row in item.at(scale):
        for run in select_runs(runs, row.recipe, scale):
            found.setdefault(_protocol(run), {}).setdefault(row.label, []).append(run)
    return [
        f"{_rows(list(rows)) if len(found) > 1 else 'Ours'}: {protocol.network}; {protocol.data}, "
        f"{_images([run for each in rows.values() for run in each])}; {protocol.training}."
        for protocol, rows in found.items()
    ]


def describe_network(model: dict[str, Any]) -> str:
    """A network by its kind, its depth and its other settings.

    Example:
        >>> describe_network({"kind": "CifarResNet", "depth": 8, "width": 16})
        'CifarResNet-8 (width 16)'
        >>> describe_network({"kind": "MnistNet", "widths": [16, 32], "embed": 0})
        'MnistNet (widths 16, 32)'
    """
    name = "-".join(str(part) for part in (model.get("kind", "?"), model.get("depth")) if part)
    others = {key: value for key, value in model.items() if key not in ("kind", "depth") and value}
    settings = [
        f"{key} {', '.join(map(str, value)) if isinstance(value, list) else value}" for key, value in others.items()
    ]
    return f"{name} ({'; '.join(settings)})" if settings else name


def _protocol(run: Run) -> Protocol:
    recipe, data, selection = run.recipe, inner(run.recipe, "data"), str(run.recipe.get("selection", "?"))
    synthetic = f" like {data['like']}" if data.get("like") else ""
    target = f", target {data['target']}" if data.get("target") else ""
    classes = count_of(run.splits().get("class_names"))
    return Protocol(
        describe_network(inner(recipe, "model")),
        f"{data.get('kind', '?')}{synthetic}{target}" + (f", {classes} classes" if classes else ""),
        f"{recipe.get('epochs', '?')} epochs of batches of {recipe.get('batch_size', '?')}, "
        f"{SELECTIONS.get(selection, selection)}",
    )


def _images(runs: Iterable[Run]) -> str:
    """The sizes of the parts."""
    sizes: dict[str, set[int]] = {part: set() for part in PARTS}
    for run in runs:
        for part, found in sizes.items():
            found.add(count_of(run.splits().get(part)))
    known = {part: found - {0} for part, found in sizes.items()}
    texts = [f"{_range(found)} {PARTS[part]}" for part, found in known.items() if found]
    return f"{', '.join(texts)} images" if texts else "number of images unknown"


def _range(sizes: set[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def count_of(value: object) -> int:
    """A number of images or classes, which `splits.json` has as a list or as a number."""
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) else 0


def _rows(labels: list[str]) -> str:
    return ", ".join(labels) if len(labels) <= NAMED else f"{labels[0]} and {len(labels) - 1} more rows"
