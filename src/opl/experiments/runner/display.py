"""Live progress display."""

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..terminal import make_console

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

INTERVAL = 0.5
"""Seconds between two refreshes."""
BAR, NARROW, NARROWEST = 20, 70, 44
"""Columns of a bar, and the least columns of a terminal for speeds and for bars."""


class Step(NamedTuple):
    """The progress of a task."""

    done: int
    of: int
    """The total; 0 if it is unknown."""
    text: str
    speed: str = ""


@dataclass
class Line(ABC):
    """A task that can be displayed, and its progress."""

    state: str = field(default="waiting", kw_only=True)
    began: float = field(default=0.0, kw_only=True)
    """When this command started it."""
    took: float = field(default=0.0, kw_only=True)
    """The seconds from its start to its end, if this command saw both."""

    @property
    def ended(self) -> bool:
        """Whether it is done or failed."""
        return self.state == "done" or self.state.startswith("failed")

    @property
    @abstractmethod
    def name(self) -> str:
        """Its unique name."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line for a log."""

    @abstractmethod
    def conclude(self) -> str:
        """Return one line for a terminal, at the end."""

    @abstractmethod
    def step(self) -> Step:
        """Return its progress."""


class Display:
    """Bars of running tasks below a line per ended task on a terminal; a line per change elsewhere.

    Args:
        lines: all tasks.
        left: estimates the seconds left from the number of running tasks; None if unknown.
        whole: on a terminal, show a single bar for all tasks.
    """

    def __init__(self, lines: Sequence[Line], left: Callable[[int], float | None], whole: bool = False) -> None:
        self.lines, self.left, self.whole = lines, left, whole
        self.live = sys.stderr.isatty() and any(not line.ended for line in lines)
        self.drawing, self.stopping = threading.Lock(), threading.Event()

    def __enter__(self) -> "Display":
        if not self.live:
            return self
        from rich.live import Live

        self.console, self.began = make_console(stderr=True), time.monotonic()
        self.live = not self.console.is_dumb_terminal
        if self.live:
            self.view = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                vertical_overflow="crop",
                redirect_stdout=False,
                get_renderable=self._render,
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
            self.print(f"{count(self.lines)} after {format_seconds(time.monotonic() - self.began)}")

    def update(self, line: Line) -> None:
        """Display a change; a terminal shows running tasks as bars and keeps one line per ended task."""
        if not self.live:
            self.print(line.describe())
        elif line.ended:
            self.print(line.conclude(), "red" if line.state.startswith("failed") else "")

    def print(self, text: str, style: str = "") -> None:
        """Print a text, above the bars if there are any."""
        if not self.live:
            print(text, file=sys.stderr, flush=True)
            return
        with self.drawing:
            self.console.print(text, style=style or None)

    def _render(self) -> "RenderableType":
        if not self.whole:
            return render(self.console, self.lines, self.left)
        return render_whole(self.console.width, self.lines, self.left, time.monotonic() - self.began)

    def _refresh(self) -> None:
        """Refresh at intervals; the lock keeps rich from drawing bars and texts over each other."""
        while not self.stopping.wait(INTERVAL):
            with self.drawing:
                self.view.refresh()


def count(lines: Sequence[Line]) -> str:
    """Describe how many tasks are done, and how many failed."""
    done = sum(line.state == "done" for line in lines)
    failed = sum(line.ended for line in lines) - done
    return f"{done}/{len(lines)} done" + (f", {failed} failed" if failed else "")


def render_whole(
    width: int, lines: Sequence[Line], left: Callable[[int], float | None], spent: float
) -> "RenderableType":
    """Render one bar for all tasks: the time spent as a share of the estimated total."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    seconds = left(sum(line.state == "running" for line in lines))
    grid = Table.grid(padding=(0, 1))
    total = None if seconds is None else spent + seconds
    bar = ProgressBar(total, spent, width=min(2 * BAR, width // 3), pulse=total is None)
    text = "estimating time…" if seconds is None else f"about {format_seconds(seconds)} left"
    grid.add_row(bar, f"{count(lines)}, {text}")
    return grid


def render(console: "Console", lines: Sequence[Line], left: Callable[[int], float | None]) -> "RenderableType":
    """Render the counts, and as many bars of running tasks as fit the height of the terminal."""
    from rich.console import Group
    from rich.text import Text

    running = [line for line in lines if line.state == "running"]
    seconds = left(len(running))
    time_left = ", estimating time…" if seconds is None else f", about {format_seconds(seconds)} left"
    head = Text(f"{count(lines)}{time_left}")
    most = console.height - 1
    bars = min(len(running), most)
    while True:
        more = len(running) - bars
        rest = [Text(f"and {more} more running")] if more else []
        view = Group(head, *([_bars(console.width, running[:bars])] if bars else []), *rest)
        taken = len(console.render_lines(view, pad=False))
        if taken <= most or not bars:
            return view
        bars = min(bars - 1, bars * most // taken)


def _bars(width: int, lines: Sequence[Line]) -> "Table":
    """Render a row per task: name, bar, progress and speed; long names are wrapped."""
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


def format_seconds(seconds: float) -> str:
    """Format an approximate time.

    Example:
        >>> [format_seconds(seconds) for seconds in (3.3, 47, 2040, 9000, 400_000)]
        ['3 s', '50 s', '34 min', '2 h 30 min', '4 days 15 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds, -1 if seconds > 20 else 0)):.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"
