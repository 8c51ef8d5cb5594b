"""What the commands share: flags that are the fields of a dataclass, and the folder that runs go to."""

from pathlib import Path
from typing import Annotated, Self

import tyro

from ..._support.ranges import Range, check_settings

OUT = Path("runs")
"""Where runs go, where no `--out` is given."""
Seeds = Annotated[int, Range(0, 10_000)]


class Flags:
    """A command whose flags are the fields of its dataclass, all of them."""

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read the flags, and check them against the ranges in their types."""
        job = tyro.cli(cls, prog=f"opl {cls.__name__.lower()}", args=words)
        check_settings(job, "--")
        return job
