"""What the commands share: flags that are the fields of a dataclass, and the folder that runs go to."""

import argparse
import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self

import tyro

from ..._ranges import Range, check_settings
from ...errors import OptionError, did_you_mean

OUT = Path("runs")
"""Where runs go, where no `--out` is given."""
Seeds = Annotated[int, Range(0, 10_000)]
HELP = {"-h", "--help"}
WIDE = "10000"  # columns, so that no line of an error is broken


class Flags:
    """A command whose flags are the fields of its dataclass, all of them."""

    @classmethod
    def parse(cls, words: list[str]) -> Self:
        """Read the flags, and check them against the ranges in their types."""
        job: Self = read_flags(cls, words, prog=f"opl {cls.__name__.lower()}")
        check_settings(job, "--")
        return job


class Parser(argparse.ArgumentParser):
    """A parser whose errors are our own."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as a sentence."""
        raise OptionError(f"{message}; for all flags, run {self.prog} --help.")


def read_flags(kind: Any, words: Sequence[str], **options: Any) -> Any:
    """`tyro.cli`, whose errors are raised as one sentence instead of printed in a box."""
    said = io.StringIO()
    terminal = {"TERM": "dumb"} if os.environ.get("NO_COLOR") else {}  # which tyro does not read
    if not HELP & set(words):
        terminal = {"TERM": "dumb", "COLUMNS": WIDE}
    try:
        with _environment(terminal), redirect_stderr(said):
            values = tyro.cli(kind, args=words, **options)
    except SystemExit as end:
        if end.code:
            sentence = _sentence(said.getvalue())
            raise OptionError(_unknown_word(sentence) or _unknown_flag(kind, words, options) or sentence) from None
        raise
    print(said.getvalue(), end="", file=sys.stderr)
    return values


def _unknown_flag(kind: Any, words: Sequence[str], options: dict[str, Any]) -> str:
    """What to say of the first word that is no flag but looks like one, unless such words go elsewhere."""
    if options.get("return_unknown_args"):
        return ""
    text = io.StringIO()
    jobs = [*takewhile(lambda word: not word.startswith("-"), words)]  # a command's job has flags of its own
    with _environment({"TERM": "dumb", "COLUMNS": WIDE}), redirect_stdout(text), redirect_stderr(io.StringIO()):
        for args in ([*jobs, "--help"], ["--help"]):
            with suppress(SystemExit):
                tyro.cli(kind, args=args, **options)
    known = re.findall(r"(?<![\w-])--[a-z][\w.-]*", text.getvalue())
    given = [word.partition("=")[0] for word in words if word.startswith("--")]
    unknown = [flag for flag in given if flag.replace("_", "-") not in known]
    command = re.search(r"usage: ([^\[]*[^\[ ])", text.getvalue())
    lister = f"{command[1] if command else options['prog']} --help"
    return did_you_mean("flag", unknown[0], known, lister) if unknown else ""


def _unknown_word(sentence: str) -> str:
    """What to say, with the nearest names, where tyro says that a word is none of the words that can stand there."""
    choice = re.search(r"invalid choice '(.*)' for argument '(.*)': expected one of \((.*)\)", sentence)
    if not choice:
        return ""
    place = choice[2] if choice[2].startswith("-") else "word"
    return did_you_mean(place, choice[1], re.findall(r"'([^']*)'", choice[3]))


def _sentence(box: str) -> str:
    """The sections of a box of tyro, which have a title above and lines between them, as one sentence."""
    sections: list[list[str]] = [[]]
    for line in box.splitlines()[1:]:
        if line.strip("│╰╯─- "):
            sections[-1].append(line.strip("│ "))
        else:
            sections.append([])
    parts = [" ".join(lines).rstrip(".").replace(". Expected", ": expected") for lines in sections if lines]
    return "; ".join(part[:1].lower() + part[1:] for part in parts) + "."


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Other environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
