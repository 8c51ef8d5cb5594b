"""The command line: words to calls. Flags come from the dataclass of each command; nothing heavy is imported here."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from . import __version__
from .errors import OplError, unknown


class Command(NamedTuple):
    """Where a command lives: a dataclass whose fields are its flags and whose `run()` does the job."""

    module: str
    name: str
    does: str


COMMANDS = {
    "bench": Command("opl.bench", "Bench", "speed and memory of the loss against the textbook version, in one run"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0: done, 1: it failed, 2: the words were wrong."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else 2
    if words[0] == "--version":
        print(__version__)
        return 0
    if words[0] not in COMMANDS:
        return _say(unknown("command", words[0], COMMANDS), 2)
    try:
        _run(words[0], words[1:])
    except OplError as error:
        if debug:
            raise
        return _say(str(error), 2 if isinstance(error, ValueError) else 1)
    except KeyboardInterrupt:
        return _say("stopped.", 1)
    return 0


def _run(word: str, words: list[str]) -> None:
    try:
        import tyro
    except ImportError as error:
        raise OplError(
            "the command line needs its extra: pip install 'orthogonal-projection-loss[experiments]'."
        ) from error
    command = COMMANDS[word]
    job = tyro.cli(getattr(import_module(command.module), command.name), prog=f"opl {word}", args=words)
    job.run()


def _say(sentence: str, code: int) -> int:
    print(f"opl: {sentence}", file=sys.stderr)
    return code


def _help() -> str:
    rows = "\n".join(f"  {word:<12}{command.does}" for word, command in COMMANDS.items())
    return (
        "opl: the Orthogonal Projection Loss and its experiments\n\n"
        f"usage: opl COMMAND [flags]     (opl COMMAND --help lists the flags; --debug shows tracebacks)\n\n{rows}"
    )


if __name__ == "__main__":
    sys.exit(main())
