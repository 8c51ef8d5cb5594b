"""Text for people: counted nouns, and output that text from files cannot control. Does not import torch."""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # all but tabs and newlines


def escape(text: str) -> str:
    """Replace control characters, and characters that reverse the direction of text, with their escapes.

    Example:
        >>> escape("cat" + chr(27) + "[31m")
        'cat\\\\x1b[31m'
    """
    return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def count(number: object, noun: str, plural: str = "") -> str:
    """Return a number, or a mark that it is unknown, with its noun.

    Example:
        >>> count(1, "image"), count(2000, "copy", "copies"), count("?", "core")
        ('1 image', '2,000 copies', '? cores')
    """
    amount = f"{number:,}" if isinstance(number, int) else str(number)
    return f"{amount} {noun if number == 1 else plural or noun + 's'}"


def open_closed_streams() -> None:
    """Connect standard streams that were closed, as by `2>&-`, to the null device.

    Python sets a closed stream to None, and the next file that is opened, such as a checkpoint, would get its
    descriptor, and with it everything that libraries and child processes print.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free descriptor
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            stream = open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


class Escaping:
    """A text stream that escapes what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text with its control characters escaped."""
        return self.stream.write(escape(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines with their control characters escaped."""
        self.stream.writelines(map(escape, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape everything that is printed; only the console of `make_console` writes control characters."""
    usual = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(Escaping, usual)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual


@contextmanager
def plain_output() -> Iterator[None]:
    """Print without escaping, as for a help text in color."""
    usual = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_unwrap, usual)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = usual


def _unwrap(stream: Any) -> Any:
    return stream.stream if isinstance(stream, Escaping) else stream


def make_console(*, stderr: bool = False, width: int | None = None) -> "Console":
    """Return a rich console that prints text literally: control characters are escaped, markup is not interpreted."""
    from rich.console import Console
    from rich.segment import Segment

    class Safe(Console):
        def render(self, renderable: "RenderableType", options: "ConsoleOptions | None" = None) -> "Iterator[Segment]":
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(escape(segment.text), segment.style)

    stream = _unwrap(sys.stderr if stderr else sys.stdout)
    return Safe(file=stream, stderr=stderr, width=width, markup=False, emoji=False, highlight=False)
