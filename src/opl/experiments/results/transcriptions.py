"""Tables that were copied from an older text, because the run folders behind them are gone."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import FolderError
from ..item import Item, Row
from ..statistics import Interval, Range
from .lines import Line, decide_lines
from .ranges import range_of
from .runs import list_seeds
from .tables import Table

FOLDER = "transcribed"


def read_transcription(folder: Path, item: Item, scale: str) -> Table:
    """Read the transcribed table of an item from `<folder>/transcribed/<item>-<scale>.json`.

    What the differences show is decided anew, in the same way as for runs; the paper's numbers are the item's.
    """
    file = folder / FOLDER / f"{item.name}-{scale}.json"
    try:
        content = json.loads(file.read_bytes())
        return _table(content, item, scale)
    except OSError as error:
        raise FolderError(f"there is no {file}: take the block out, or restore the file.") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FolderError(
            f"{file} is not a transcribed table of {item.name}: restore it from the repository."
        ) from error


def _table(content: dict[str, Any], item: Item, scale: str) -> Table:
    rows = {row.recipe: row for row in (*item.rows, *(average.row for average in item.averages_at(scale)))}
    ranges = {name: range_of(name, title) for name, title in item.metrics.items()}
    found = [_line(each, rows[each["recipe"]], ranges) for each in content["rows"]]
    told = {name: title for name, title in item.metrics.items() if any(name in line.numbers for line in found)}
    compared = tuple(name for name in item.main if name in told)
    narrow = replace(item, metrics=told, compared=compared, note="")  # the note is about today's runs
    return Table(narrow, scale, decide_lines(narrow, found), [_describe(content)], [])


def _describe(content: dict[str, Any]) -> str:
    """Where transcribed numbers come from."""
    return (
        f"Transcribed, the run folders are gone: `{content['command']}`, commit {content['commit']}, "
        f"{list_seeds(content['seeds'])}, {content['time']}."
    )


def _line(content: dict[str, Any], row: Row, ranges: dict[str, Range]) -> Line:
    values = {name: tuple(each.values()) for name, each in content["values"].items()}
    numbers = {name: _interval(each, ranges[name]) for name, each in content["numbers"].items()}
    difference = {name: _interval(each, ranges[name].of_differences) for name, each in content["difference"].items()}
    seeds = tuple(content["seeds"])
    return Line(content["label"], row.recipe, seeds, numbers, values, row.paper, difference, "", transcribed=True)


def _interval(content: dict[str, Any], within: Range) -> Interval:
    """An interval from JSON, in which an unknown half-width is null."""
    return Interval(content["mean"], math.nan if content["half"] is None else content["half"], content["size"], within)
