"""What the commands share: flags that are the fields of a dataclass, and the folder that runs go to."""

from pathlib import Path
from typing import Self

import tyro

OUT = Path("runs")
"""Where runs go, where no `--out` is given."""


class Flags:
    """A command whose flags are the fields of its dataclass, all of them."""

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read the flags."""
        return tyro.cli(cls, prog=f"opl {cls.__name__.lower()}", args=words)
