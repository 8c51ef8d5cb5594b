"""Shared by the commands: flags from the fields of dataclasses, settings of a recipe as flags, shell completion."""

import argparse
import dataclasses
import re
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, Self, get_args, get_origin

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from ..._ranges import Range, check_settings
from ...errors import OptionError, did_you_mean
from ..files import read_json
from ..scales import Scale
from ..terminal import make_console, plain_output
from .help import parser_of

if TYPE_CHECKING:
    from ..recipe import Recipe
    from ..run_folder import RunFolder

OUT = Path("runs")
"""The folder of runs if `--out` is omitted."""
Seeds = Annotated[int, Range(0, 10_000)]
HELP = {"-h", "--help"}
KINDS = {
    "INT": "an integer",
    "FLOAT": "a number",
    "{None}|INT": "an integer or None",
    "{None}|FLOAT": "a number or None",
    "[INT [INT ...]]": "integers separated by spaces",
    "INT INT INT INT": "four integers",
}
"""What a value must be, by tyro's name for the type."""


class Flags:
    """A command whose flags are the fields of its dataclass."""

    @classmethod
    def parse(cls, argv: list[str]) -> Self:
        """Read the flags and check the ranges in their types."""
        job: Self = read_flags(cls, argv, prog=f"opl {cls.__name__.lower()}")
        check_flags(job)
        return job


def check_flags(job: Any) -> None:
    """Check the ranges of all flags; flags of nested settings whose prefix is omitted are named without it."""
    hints = typing.get_type_hints(type(job), include_extras=True)
    for name, hint in hints.items():
        if OmitArgPrefixes in _markers(hint):
            check_settings(getattr(job, name), "--")
    check_settings(job, "--")


def _markers(hint: Any) -> tuple[Any, ...]:
    """Return the annotations of a type."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


class Parser(argparse.ArgumentParser):
    """An argument parser that raises usage errors as `OptionError` and accepts no abbreviated flags, like tyro."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise the usage error as one sentence."""
        if match := re.fullmatch(r"argument (\S+): invalid choice: '(.*)' \(choose from (.*)\)", message):
            raise OptionError(did_you_mean(match[1], match[2], re.findall(r"'(.*?)'", match[3])))
        if match := re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message):
            raise OptionError(f"{match[1]} is {match[3]!r} but must be {KINDS[match[2].upper()]}.")
        raise OptionError(f"{message}; {self.prog} --help lists all flags.")


def read_flags(kind: Any, argv: Sequence[str], *, also: Any = None, lister: str = "", **options: Any) -> Any:
    """Call `tyro.cli` and raise usage errors as `OptionError`, in one sentence.

    Args:
        kind: a dataclass.
        argv: the arguments.
        also: a dataclass whose flags the command has too, and reads elsewhere; they are suggested for misspelled flags.
        lister: the command that lists the flags; by default, the program with --help.
        options: further options of `tyro.cli`.
    """

    def fail(event: Any) -> NoReturn:
        default = {"default": options["default"]} if "default" in options else {}
        known = [*_flag_names(parser_of(kind, **default)), *(_flag_names(parser_of(also)) if also else ())]
        flags = [] if options.get("return_unknown_args") else [argument for argument in argv if _flag(argument)]
        unknown = [flag for flag in flags if re.sub(r"(?<=[-.])no-", "", _flag(flag)) not in known]
        if unknown:
            raise OptionError(
                did_you_mean("flag", unknown[0].partition("=")[0], known, lister or f"{event.prog} --help")
            )
        raise OptionError(_explain(event, argv, lister or f"{event.prog} --help"))

    with _parse_errors(fail), plain_output():
        return tyro.cli(kind, args=argv, **options)


# tyro's public API has no structured usage errors: `console_outputs=False` only hides its boxes. This function and
# `_explain` are all that uses the private `tyro._errors`, and test_flags.py fails if tyro changes what they use. With a
# tyro that lacks it, usage errors are printed in tyro's boxes, with exit code 2 as well.
def _parse_errors(handle: Any) -> Any:
    """Return tyro's context manager that passes usage errors to `handle` before they are printed."""
    try:
        from tyro._errors import on_parse_error
        from tyro.extras import get_parser  # noqa: F401  (`handle` uses it)
    except ImportError:
        return nullcontext()
    return on_parse_error(handle)


def _flag(argument: str) -> str:
    """Return the flag in an argument, with hyphens; empty for a value."""
    return argument.partition("=")[0].replace("_", "-") if argument.startswith("--") else ""


def _explain(event: Any, argv: Sequence[str], lister: str) -> str:
    """Return the sentence for a usage error, which has the name and the fields of a class in `tyro._errors`."""
    argument = vars(event).get("argument")
    name = argument.display_name() if argument else ""
    match type(event).__name__:
        case "UnrecognizedArgs":
            token = event.tokens[0]
            return f"unexpected argument {token[:200]!r}: remove it; {lister} lists all flags."
        case "InvalidChoice":
            return did_you_mean(name if name.startswith("-") else "argument", event.value, event.choices)
        case "MissingArgs":
            names = [missing.arg.display_name().upper() for missing in event.missing_arguments]
            return f"{event.prog} needs {' and '.join(names)}; {lister} explains them."
        case "BadValue" if argument and event.reason == "too_few_values":
            count = argument.lowered.nargs
            return f"{name} needs {'a value' if count == 1 else f'{count} values'}: {argument.lowered.metavar}."
        case "InstantiationFailure" if argument:
            expected = KINDS.get(argument.lowered.metavar, argument.lowered.metavar)
            return f"{name} is {_value_of(name, argv)[:200]!r} but must be {expected}."
        case "InstantiationFailure":
            return str(event.message)
    return f"usage error ({type(event).__name__}); {lister} lists all flags."


def _value_of(name: str, argv: Sequence[str]) -> str:
    """Return the value of a flag on the command line."""
    for index, argument in enumerate(argv):
        if _flag(argument) == name:
            _, equals, value = argument.partition("=")
            return value if equals else " ".join(takewhile(lambda following: not _flag(following), argv[index + 1 :]))
    return ""


def _flag_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the flags of a parser, without the forms that turn a flag off."""
    for action in parser._actions:
        if action.option_strings and "-h" not in action.option_strings:
            yield action.option_strings[0]


def read_recipe(file: Path) -> "Recipe":
    """Read a recipe from a file: `winner.json` of a search, `recipe.json` of a run, or a record."""
    from ..training.build import parse_recipe

    try:
        content = read_json(file)
        return parse_recipe(content["recipe"] if isinstance(content.get("recipe"), dict) else content)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise OptionError(
            f"{file} is not a recipe ({error}): use winner.json of a search, recipe.json of a run or a record."
        ) from error


def change_settings(default: "Recipe", argv: Sequence[str], command: Any = None) -> "Recipe":
    """Return a recipe with the settings changed by flags such as `--method.weight 0.3`.

    `command` is the dataclass of the command, by default of `opl train`. A recipe that differs from the registered
    recipe of its name and scale has the scale `custom` and lists its changes, so that its runs are in no table.
    """
    from ..paper import find_recipe
    from ..recipe import Recipe
    from ..settings import FREE, describe_changes, to_json

    prog = f"opl {command.__name__.lower() if command else 'train'} {default.name}"
    lister = f"opl train {default.name} --help-all"
    changed = read_flags(argv=argv, also=command or TrainFlags, lister=lister, prog=prog, **as_flags(default))
    chosen = Recipe(**_values(changed))
    registered = find_recipe(default.name, default.scale) or default
    changes = describe_changes(to_json(chosen), to_json(registered), FREE)
    if not changes:
        return chosen
    return dataclasses.replace(chosen, scale="custom", changes=(*default.changes, *changes))


def as_flags(default: "Recipe") -> dict[str, Any]:
    """Return the type and the default from which tyro makes the flags of a recipe's settings."""
    narrow = _narrow(default)
    hidden = tyro.conf.configure(tyro.conf.AvoidSubcommands, tyro.conf.SuppressFixed)
    return {"kind": hidden(narrow), "default": narrow(**_values(default))}


def _narrow(default: "Recipe") -> "type[Recipe]":
    """Return `Recipe` with the classes of these settings in place of its protocols, which have no fields.

    It does not check itself, so that tyro does not wrap the error; `Recipe` raises it afterwards.
    """
    from ..recipe import Recipe

    hints = typing.get_type_hints(Recipe)
    fields = [
        (name, type(value) if dataclasses.is_dataclass(value) else hints[name], dataclasses.field(default=value))
        for name, value in _values(default).items()
    ]
    unchecked = {"__post_init__": lambda settings: None}
    return dataclasses.make_dataclass(Recipe.__name__, fields, bases=(Recipe,), frozen=True, namespace=unchecked)


def _values(settings: "Recipe") -> dict[str, Any]:
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}


Shell = Literal["bash", "zsh"]


@dataclasses.dataclass(frozen=True)
class TrainFlags:
    """One run of a recipe."""

    name: Positional[str]
    recipe: Path | None = None
    scale: Scale | None = None
    out: Path = OUT
    dry_run: bool = False
    until: int = 0
    no_test: bool = False
    wait: float = 0.0
    json: bool = False


@dataclasses.dataclass(frozen=True)
class EvaluateFlags:
    """Another measure of a finished run."""

    run_folder: Positional[Path]
    protocol: Positional[str]


def print_completion(shell: str, commands: Mapping[str, tuple[str, str]]) -> int:
    """Print tyro's completion script for a shell; `commands` has the module and the dataclass of each command.

    The flags of `opl train` and `opl evaluate` depend on the recipe and the protocol, so the script lacks some.
    """
    if shell not in get_args(Shell):
        raise OptionError(did_you_mean("shell", shell, get_args(Shell)))
    kinds: dict[str, Any] = {
        name: vars(import_module(f".{module}", __package__))[kind] for name, (module, kind) in commands.items()
    }
    kinds |= {"train": TrainFlags, "evaluate": EvaluateFlags}
    try:
        tyro.extras.subcommand_cli_from_dict(
            kinds, prog="opl", args=["--tyro-print-completion", shell], config=[tyro.conf.OmitSubcommandPrefixes]
        )
    except SystemExit as end:
        return int(end.code or 0)
    return 1


def existing_folder(folder: Path) -> Path:
    """Return a folder that the user named; raise `OptionError` if it does not exist."""
    if not folder.is_dir():
        raise OptionError(f"there is no folder {folder}: pass the --out folder of `opl train` or `opl reproduce`.")
    return folder


def existing_runs(folder: Path) -> "list[RunFolder]":
    """Return the runs below a folder that the user named; raise `OptionError` if there are none."""
    from ..run_folder import RunFolder

    if not (runs := RunFolder.below(existing_folder(folder))):
        raise OptionError(f"there are no runs in {folder}: pass the --out folder of `opl train` or `opl reproduce`.")
    return runs


@contextmanager
def show_status(sentence: str) -> Iterator[None]:
    """Show a sentence on a terminal while libraries are loaded; it is erased afterwards."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    with make_console(stderr=True).status(Text(sentence)):
        yield
