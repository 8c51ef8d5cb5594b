"""How runs go, on the screen."""

import sys
from collections.abc import Sequence
from typing import Protocol


class Line(Protocol):
    """A run that can be described."""

    state: str

    def describe(self) -> str:
        """One line for the screen."""
        ...


class Screen:
    """A line for each run that moves, on a terminal; elsewhere a line when the state of one changes."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines, self.live = lines, sys.stderr.isatty()

    def __enter__(self) -> "Screen":
        if self.live:
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            self.view = Live(
                console=Console(stderr=True),
                refresh_per_second=4,
                get_renderable=lambda: Text("\n".join(line.describe() for line in self.lines)),
            )
            self.view.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.view.stop()

    def say(self, line: Line) -> None:
        """Tell of a change; a terminal shows it anyway."""
        if not self.live:
            print(line.describe(), file=sys.stderr, flush=True)
