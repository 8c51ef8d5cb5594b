"""The command line: words to calls. Flags and their help are tyro's, from the dataclass of each command.

The first word is looked up here and the list of commands is written here, because tyro's own subcommands import all
commands, and with them torch: seconds, where `opl --help` answers at once. `opl --completion` does give them to tyro.
"""

import io
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import NamedTuple

from ... import __version__
from ...errors import WARNING, OplError, OplWarning, OptionError, StoppedError, did_you_mean
from ..training.parent import end_with_parent
from ..training.stopping import StopSignals
from .words import check_words


class Command(NamedTuple):
    """Where a command lives: a module of this package, and in it a dataclass with `parse(words)` and `run()`."""

    module: str
    name: str
    does: str


COMMANDS = {
    "demo": Command("demo", "Demo", "CE against CE+OPL on scikit-learn's digits: a table and a page"),
    "try": Command(
        "try_images", "Try", "does OPL help on your images: CE against CE+OPL within a time, table and page"
    ),
    "recipes": Command("recipes", "Recipes", "every table and figure, its scales and cost; of one, its recipes"),
    "train": Command("train", "Train", "one run of a recipe; resumes where it stopped"),
    "reproduce": Command("reproduce", "Reproduce", "all runs of a table or figure, paper and ours side by side"),
    "evaluate": Command(
        "evaluate",
        "Evaluate",
        "another measure of a finished run: geometry, novel classes, noise, episodes, attacks",
    ),
    "check": Command("check", "Check", "whether every file of the runs below a folder is what they wrote"),
    "search": Command("search", "Search", "a grid or Optuna over any settings of a recipe, by validation only"),
    "report": Command("report", "Report", "one HTML page from what is on disk"),
    "results": Command("results", "Results", "records of finished runs, and RESULTS.md made from them"),
    "export": Command("export", "Export", "a finished run as a model that others can use: a folder, or on the Hub"),
    "data": Command("data", "Data", "which data sets are here, and how to get the rest"),
    "bench": Command("bench", "Bench", "speed and memory of the loss against the textbook version, in one run"),
}

COMPLETION = "--completion"
DEFECT = "this is a defect of opl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0: done, 1: it failed, 2: the words were wrong."""
    end_with_parent()
    if arguments is None:  # this process is ours: no Python that it starts looks for modules in the working folder
        os.environ["PYTHONSAFEPATH"] = "1"
    words = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path need not be text
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    usual = warnings.formatwarning
    warnings.formatwarning = _warning
    stopping = StopSignals() if words[:1] == ["train"] else nullcontext()  # a signal may come before any epoch
    try:
        with stopping:
            code = _answer(words)
        if sys.stdout is not None:  # None where it was closed before
            sys.stdout.flush()
        return code
    except StoppedError as error:
        return _say(str(error), error.code)
    except KeyboardInterrupt:
        return _say("stopped; the same command resumes from here.", 1)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        _drop_output()
        return 1
    except Exception as error:
        if debug:
            raise
        return _fail(error)
    finally:
        warnings.formatwarning = usual


def _answer(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else 2
    if words[0] == "--version":
        print(__version__)
        return 0
    if words[0] not in (*COMMANDS, COMPLETION):
        raise OptionError(did_you_mean("command", words[0], COMMANDS))
    check_words(words)
    return _run(words)


def _run(words: list[str]) -> int:
    command = COMMANDS.get(words[0], Command("completion", "print_completion", ""))
    try:
        module = import_module(f".{command.module}", __name__)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tyro":
            raise
        raise OplError(
            "the command line needs its extra: pip install 'orthogonal-projection-loss[experiments]'."
        ) from error
    if words[0] == COMPLETION:
        shell = words[1] if len(words) == 2 else ""
        return int(module.print_completion(shell, {word: each[:2] for word, each in COMMANDS.items()}))
    return int(getattr(module, command.name).parse(words[1:]).run())


def _fail(error: Exception) -> int:
    """Say what went wrong in a sentence; the exit code."""
    from ..failures import explain

    known = explain(error)
    if known is None:
        text = " ".join(str(error).split()) or "no message"
        return _say(f"{DEFECT} ({type(error).__name__}: {text}): add --debug to see where, and report it.", 1)
    if isinstance(error, OSError):
        with suppress(OSError):  # it may be standard output itself that cannot be written
            sys.stdout.flush()
            return _say(str(known), 1)
        _drop_output()
    return _say(str(known), 2 if isinstance(known, (ValueError, LookupError)) else 1)


def _drop_output() -> None:
    """Have Python's last flush of standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Our own warnings are a sentence, without the line of code that they come from."""
    if issubclass(category, OplWarning):
        return f"{WARNING} {message}\n"
    return f"{filename}:{lineno}: {category.__name__}: {message}\n"


def _say(sentence: str, code: int) -> int:
    print(f"opl: {sentence}", file=sys.stderr)
    return code


def _help() -> str:
    rows = "\n".join(f"  {word:<12}{command.does}" for word, command in COMMANDS.items())
    return (
        "opl: the Orthogonal Projection Loss and its experiments\n\n"
        f"usage: opl COMMAND [flags]     (opl COMMAND --help lists the flags; --debug shows tracebacks)\n\n{rows}\n\n"
        f"opl {COMPLETION} bash|zsh prints a completion script for the shell; opl --version prints the version."
    )
