"""What `opl bench` measures: for every subject, a function from `Options` to tables of plain numbers."""

from typing import Any, Literal, NamedTuple

Subject = Literal["loss", "variants", "losses", "train", "episodes", "attack"]
MODULES: dict[Subject, str] = {
    "loss": "costs",
    "variants": "costs",
    "losses": "costs",
    "train": "steps",
    "attack": "steps",
    "episodes": "episode_fits",
}
"""The module of this package with the function `measure_<subject>` of a subject."""

Tables = dict[str, list[dict[str, Any]]]
"""Rows by the title of their table; a row has a value for every column."""


class Options(NamedTuple):
    """The options of the command line."""

    seconds: float
    """Minimum time per case."""
    memory: bool
    """Measure peak memory too, which Linux reports."""
