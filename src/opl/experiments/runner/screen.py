"""How tasks go, on the screen."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .estimate import about

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

INTERVAL = 0.5
"""Seconds between two drawings."""
BAR, NARROW, NARROWEST = 20, 70, 44
"""The columns of a bar; terminals of fewer columns show no speeds, and of still fewer no bars."""


class Step(NamedTuple):
    """How far a task is."""

    done: int
    of: int
    """The whole of which that is a part; 0 if it is not known."""
    text: str
    speed: str = ""


class Line(Protocol):
    """A task that can be described."""

    state: str

    @property
    def name(self) -> str:
        """What tells it from the others."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it is done, or failed."""
        ...

    def describe(self) -> str:
        """One line for a log."""
        ...

    def conclude(self) -> str:
        """One line for a terminal, of a task that ended."""
        ...

    def step(self) -> Step:
        """How far it is."""
        ...


class Screen:
    """On a terminal, bars of what runs, below a line for each task that ended; elsewhere a line for each change.

    Args:
        lines: all tasks.
        left: returns about how many seconds they still take, given how many run at once; None if that is not known.
    """

    def __init__(self, lines: Sequence[Line], left: Callable[[int], float | None]) -> None:
        self.lines, self.left = lines, left
        self.live = sys.stderr.isatty() and any(not line.ended for line in lines)
        self.drawing, self.stopping = threading.Lock(), threading.Event()

    def __enter__(self) -> "Screen":
        if not self.live:
            return self
        from rich.console import Console
        from rich.live import Live

        self.console, self.began = Console(stderr=True), time.monotonic()
        self.live = not self.console.is_dumb_terminal
        if self.live:
            self.view = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                vertical_overflow="crop",
                redirect_stdout=False,
                get_renderable=lambda: fit(self.console, self.lines, self.left),
            )
            self.view.start()
            self.refreshing = threading.Thread(target=self._refresh, daemon=True)
            self.refreshing.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.stopping.set()
            self.refreshing.join()
            self.view.stop()
            self.note(f"{count(self.lines)} after {about(time.monotonic() - self.began)}")

    def say(self, line: Line) -> None:
        """Tell of a change; a terminal shows what runs anyway, and keeps a line of what ended."""
        if not self.live:
            self.note(line.describe())
        elif line.ended:
            self.note(line.conclude(), "red" if line.state.startswith("failed") else "")

    def note(self, text: str, style: str = "") -> None:
        """Print a text that stays, above the bars if there are any."""
        if not self.live:
            print(text, file=sys.stderr, flush=True)
            return
        with self.drawing:
            self.console.print(text, style=style or None, highlight=False, markup=False)

    def _refresh(self) -> None:
        """Draw again and again; the lock keeps this apart from notes, which rich would draw over each other."""
        while not self.stopping.wait(INTERVAL):
            with self.drawing:
                self.view.refresh()


def count(lines: Sequence[Line]) -> str:
    """How many tasks are done, and how many failed."""
    done = sum(line.state == "done" for line in lines)
    failed = sum(line.ended for line in lines) - done
    return f"{done}/{len(lines)} done" + (f", {failed} failed" if failed else "")


def fit(console: "Console", lines: Sequence[Line], left: Callable[[int], float | None]) -> "RenderableType":
    """The count and the bars of what runs, as many of them as fit the height of the terminal."""
    from rich.console import Group
    from rich.text import Text

    running = [line for line in lines if line.state == "running"]
    seconds = left(len(running))
    known = "" if seconds is None else f", about {about(seconds)} left"
    head = Text(f"{count(lines)}{known}")
    most = console.height - 1
    shown = min(len(running), most)
    while True:
        more = len(running) - shown
        rest = [Text(f"and {more} more run")] if more else []
        view = Group(head, *([_bars(console.width, running[:shown])] if shown else []), *rest)
        taken = len(console.render_lines(view, pad=False))
        if taken <= most or not shown:
            return view
        shown = min(shown - 1, shown * most // taken)


def _bars(width: int, lines: Sequence[Line]) -> "Table":
    """A row for each task: name, bar, how far it is, and its speed; a name that is too long is broken."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(overflow="fold")
    for _ in range(3):
        grid.add_column(no_wrap=True)
    for line in lines:
        step = line.step()
        bar = ProgressBar(step.of or None, step.done, width=min(BAR, width // 5), pulse=not step.of)
        speed = step.speed if width >= NARROW else ""
        grid.add_row(Text(line.name), bar if width >= NARROWEST else "", Text(step.text), Text(speed))
    return grid
