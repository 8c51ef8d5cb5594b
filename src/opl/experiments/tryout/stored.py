"""What `opl try` keeps in its folder beside the runs: what was chosen, and the table as a value. Needs no torch."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...errors import FolderError, OplError
from ..files import write_whole
from ..item import Item, Row
from ..scales import TRY
from ..settings import from_json, read_json, to_json

ITEM, CHOSEN = "item.json", "try.json"


def build_item(name: str, arms: list[tuple[str, str]], imbalanced: bool, note: str, command: str) -> Item:
    """The table of a folder; arms are pairs of label and recipe, of which the first is the baseline."""
    first = arms[0][1]
    balanced = {"test/balanced": "balanced top-1 %"} if imbalanced else {}
    return Item(
        name=name,
        title=f"{' against '.join(label for label, _ in arms)} on your images",
        dataset="your images",
        metrics={"test/top1": "top-1 %", **balanced, "test/loss": "cross-entropy", "test/s": "s", "test/d": "d"},
        rows=tuple(
            Row(label, recipe, {}, baseline="" if recipe == first else first, scales=(TRY,)) for label, recipe in arms
        ),
        compared=("test/top1", *balanced),
        note=note,
        command=command,
    )


def write_item(folder: Path, item: Item) -> None:
    """Keep the table of a folder, so that its page can be made again."""
    write_whole(folder / ITEM, (json.dumps(to_json(item), indent=1) + "\n").encode())


def read_items(folder: Path) -> dict[str, Item]:
    """The tables of `opl try` in a folder and below it, by name; files that are none are passed over."""
    found: dict[str, Item] = {}
    for file in (*folder.glob(ITEM), *folder.glob(f"*/{ITEM}"), *folder.glob(f"*/*/{ITEM}")):
        try:
            item = from_json(read_json(file), Item)
            if isinstance(item, Item):
                found[item.name] = replace(item, metrics=dict(item.metrics))
        except (OplError, OSError, ValueError, TypeError):
            continue
    return found


def write_chosen(folder: Path, chosen: Any) -> None:
    """Keep what was chosen; `chosen` is a dataclass."""
    write_whole(folder / CHOSEN, (json.dumps(asdict(chosen), indent=1) + "\n").encode())


def read_chosen(folder: Path) -> dict[str, Any]:
    """What was chosen before; empty if this folder is new.

    Raises:
        FolderError: the file cannot be read.
    """
    if not (folder / CHOSEN).exists():
        return {}
    try:
        content = read_json(folder / CHOSEN)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise FolderError(f"{folder / CHOSEN} cannot be read ({error}): give another --out, or delete it.") from error
    return content
