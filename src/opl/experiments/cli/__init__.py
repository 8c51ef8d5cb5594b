"""The command line: look up the command and run it. tyro makes its flags and their help from its dataclass.

The commands are listed here and not as tyro's subcommands, which would import all of them: `opl --help` must answer at
once, without tyro, torch or numpy.
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
from ..terminal import escape, escaped_output, open_closed_streams
from ..training.stopping import StopSignals, end_with_parent


class Command(NamedTuple):
    """The module of a command in this package, and in it a dataclass with `parse(argv)` and `run()`."""

    module: str
    name: str
    does: str


COMMANDS = {
    "demo": Command("demo", "Demo", "train CE and CE+OPL on scikit-learn's digits and compare"),
    "try": Command("try_images", "Try", "train with and without OPL on your images and compare"),
    "recipes": Command("recipes", "Recipes", "list tables and figures with scales and cost, or the recipes of one"),
    "train": Command("train", "Train", "train one run of a recipe; resumes where it stopped"),
    "reproduce": Command("reproduce", "Reproduce", "train all runs of a table or figure and compare with the paper"),
    "evaluate": Command("evaluate", "Evaluate", "measure a finished run: geometry, noise, episodes, attacks, ..."),
    "check": Command("check", "Check", "check that the files of finished runs are intact"),
    "search": Command("search", "Search", "search any settings of a recipe by grid or Optuna, on validation only"),
    "report": Command("report", "Report", "write one HTML page from the runs on disk"),
    "results": Command("results", "Results", "record finished runs and render RESULTS.md from the records"),
    "export": Command("export", "Export", "export a finished run as a model, to a folder or the Hub"),
    "data": Command("data", "Data", "list data sets and how to get them"),
    "bench": Command("bench", "Bench", "measure speed and memory vs the textbook version"),
}

COMPLETION = "--completion"
DEFECT = "this is a bug in opl"
PATHS = ("--out", "--to", "--records", "--file")
"""Flags whose value is a path, which an empty value would make the current folder."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0 done, 1 failed, 2 usage error."""
    open_closed_streams()
    end_with_parent()
    if arguments is None:  # Python processes started by this one do not look for modules in the working folder
        os.environ["PYTHONSAFEPATH"] = "1"
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may not be valid text
    debug = "--debug" in argv
    argv = [argument for argument in argv if argument != "--debug"]
    original = warnings.formatwarning
    warnings.formatwarning = _format_warning
    stopping = StopSignals() if argv[:1] == ["train"] else nullcontext()  # a signal may come before any epoch
    try:
        with escaped_output(), stopping:
            code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except StoppedError as error:
        return _print_error(str(error), error.code)
    except KeyboardInterrupt:
        return _print_error("stopped; run the same command again to resume.", 1)
    except BrokenPipeError:  # the reader, such as `head`, has ended
        _drop_output()
        return 1
    except Exception as error:
        if debug:
            raise
        return _fail(error)
    finally:
        warnings.formatwarning = original


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(_help())
        return 0 if argv else 2
    if argv[0] == "--version":
        print(__version__)
        return 0
    if argv[0] not in (*COMMANDS, COMPLETION):
        raise OptionError(did_you_mean("command", argv[0], COMMANDS))
    _check(argv)
    return _run(argv)


def _check(argv: list[str]) -> None:
    """Raise `OptionError` for arguments that no command accepts."""
    seen = set()
    for before, argument in zip(["", *argv], argv, strict=False):
        if "\0" in argument:
            raise OptionError(f"the argument {argument[:200]!r} contains a null character: remove it.")
        if argument == "--":
            raise OptionError("the argument '--' is not used by opl: remove it.")
        flag, equals, value = argument.partition("=")
        if flag in PATHS and equals and not value:
            raise OptionError(f"{flag} is empty: pass a path, or omit the flag.")
        if not argument and (before in PATHS or not before.startswith("--")):
            name = before if before in PATHS else f"the argument after {before!r}"
            raise OptionError(f"{name} is empty: pass a path, or omit it.")
        if flag.startswith("--"):
            name = flag.replace("_", "-")
            if name in seen:
                raise OptionError(f"{flag} is set twice: keep one of the two.")
            seen.add(name)


def _run(argv: list[str]) -> int:
    command = COMMANDS.get(argv[0], Command("flags", "print_completion", ""))
    try:
        module = import_module(f".{command.module}", __name__)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tyro":
            raise
        raise OplError(
            "the command line is not installed: run pip install 'orthogonal-projection-loss[experiments]'."
        ) from error
    if argv[0] == COMPLETION:
        shell = argv[1] if len(argv) == 2 else ""
        return int(module.print_completion(shell, {name: command[:2] for name, command in COMMANDS.items()}))
    kind = getattr(module, command.name)
    if {"-h", "--help", "--help-all"} & {*argv}:
        import_module(".help", __name__).show_help(argv[0], kind, argv[1:])
        return 0
    return int(kind.parse(argv[1:]).run())


def _fail(error: Exception) -> int:
    """Print the error in one sentence and return the exit code."""
    from ..failures import explain

    known = explain(error)
    if known is None:
        text = " ".join(str(error).split()) or "no message"
        defect = f"{DEFECT} ({type(error).__name__}: {text})"
        return _print_error(f"{defect}: run it with --debug and report the traceback.", 1)
    if isinstance(error, OSError):
        with suppress(OSError):  # standard output itself may be the file that cannot be written
            sys.stdout.flush()
            return _print_error(str(known), 1)
        _drop_output()
    return _print_error(str(known), 2 if isinstance(known, (ValueError, LookupError)) else 1)


def _drop_output() -> None:
    """Redirect stdout to devnull so the flush at exit cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning of opl as one sentence, without the line of code that raised it."""
    if issubclass(category, OplWarning):
        return f"{WARNING} {escape(str(message))}\n"
    return f"{filename}:{lineno}: {category.__name__}: {escape(str(message))}\n"


def _print_error(sentence: str, code: int) -> int:
    with suppress(OSError):  # there may be no space for it either
        print(f"opl: {escape(sentence)}", file=sys.stderr)
    return code


def _help() -> str:
    rows = "\n".join(f"  {name:<12}{command.does}" for name, command in COMMANDS.items())
    return (
        "opl: the Orthogonal Projection Loss and its experiments\n\n"
        "usage: opl COMMAND [flags]     (opl COMMAND --help has examples and flags; --debug shows tracebacks)\n\n"
        "  opl demo          a first comparison, in under a minute\n"
        f"  opl try photos/   the same on your images\n\n{rows}\n\n"
        f"opl {COMPLETION} bash|zsh prints a completion script; opl --version prints the version."
    )
