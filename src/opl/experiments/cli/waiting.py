"""What a command says while it loads libraries and nothing else can be shown yet."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def waiting(sentence: str) -> Iterator[None]:
    """Show a sentence until what takes its time is done; only on a terminal, where it leaves nothing behind."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(sentence):
        yield
