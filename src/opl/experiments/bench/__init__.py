"""What `opl bench` measures: one module a subject, each with `measure(options)` and `show(result)`.

`measure` returns plain numbers, which JSON takes as they are; `show` prints them for people.
"""

from typing import Literal, NamedTuple

Subject = Literal["loss", "variants", "losses", "train", "episodes", "attack"]
MODULES: dict[Subject, str] = {
    "loss": "loss",
    "variants": "variants",
    "losses": "losses",
    "train": "training",
    "episodes": "episodes",
    "attack": "attack",
}
"""The module of each subject."""


class Options(NamedTuple):
    """What the command line sets; a subject takes what it has a use for."""

    seconds: float
    """Time spent on each case, at least."""
    memory: bool
    """Measure peak memory too (Linux)."""
    quiet: bool
    """Show no progress bar."""
