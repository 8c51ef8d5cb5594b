"""`opl COMMAND --help`: one sentence, examples, the flags that people need first, and the others under headings."""

import argparse
import re
import shutil
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..terminal import escape

WIDEST, LEAST, INDENT, NAMES = 100, 40, 2, 30  # columns: of the text at most and at least, before flags, and of names
ALL = "--help-all"
METAVARS = {"INT": "N", "FLOAT": "NUMBER", "STR": "TEXT", "PATH": "FOLDER", "DIR": "FOLDER"}
"""The placeholder of a value, by tyro's name for its type."""
NAMED = {
    "--data.root": "FOLDER",
    "--file": "FILE",
    "--readme": "FILE",
    "--over": "SETTING=VALUES",
    "--weights": "FILE",
    "--hub": "REPOSITORY",
}
"""The placeholder of a flag's value, where its type is too vague."""
TEXTS = {
    "--seeds": "Runs per row.",
    "--seed": "Random seed of the run.",
    "--scale": "The paper's protocol, a small version that two cores can run, or a smoke test.",
    "--out": "The output folder.",
    "--jobs": "Runs in parallel.",
    "--epochs": "Passes over the training images.",
    "--batch-size": "Images per step.",
    "--optimizer.lr": "The learning rate.",
    "--optimizer.weight-decay": "The weight decay.",
    "--precision": "The numeric precision of training.",
    "--nodes": "Number of machines.",
    "--episodes": "Number of episodes.",
    "--norm": "The norm of the attack's radius.",
    "--name": "The name of the run's folder.",
}
"""The help of flags whose fields have no docstring."""
SETTINGS = (
    *("--seed", "--epochs", "--batch-size", "--method.weight", "--method.gamma", "--optimizer.lr"),
    *("--data.root", "--weights", "--precision", "--devices"),
)
"""The settings of a recipe that matter most."""
DEFAULT = re.compile(r"\s*\((?:required|default: (.*))\)$", re.DOTALL)


@dataclass(frozen=True)
class Guide:
    """What the help of a command shows besides its flags."""

    examples: tuple[str, ...]
    first: tuple[str, ...] = ()
    """The flags that people need first."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further flags by heading; flags of nested settings have the heading of these settings."""
    argument_names: tuple[str, ...] = ()
    """The names of the positional arguments, where they differ from their fields."""


GUIDES = {
    "demo": Guide(("opl demo", "opl demo --seeds 5 --gif"), ("--seeds", "--out", "--jobs", "--gif")),
    "try": Guide(
        ("opl try photos/", "opl try labels.csv --minutes 10 --seeds 3"),
        ("--minutes", "--seeds", "--gamma", "--out", "--dry-run"),
        {
            "The images": ("--images", "--size", "--flip", "--split-seed", "--image-column", "--label-column"),
            "Where and how it runs": ("--jobs", "--precision", "--json"),
        },
        argument_names=("FOLDER|FILE|HUB_ID",),
    ),
    "recipes": Guide(("opl recipes", "opl recipes table-3 opl"), argument_names=("[ITEM]", "[TERM ...]")),
    "train": Guide(
        ("opl train digits-opl", "opl train mnist-opl --scale small --seed 1 --method.gamma 2"),
        ("--scale", "--out", "--dry-run", "--recipe", "--json"),
        argument_names=("RECIPE",),
    ),
    "reproduce": Guide(
        ("opl reproduce table-s1", "opl reproduce table-1 --scale tiny --dry-run"),
        ("--scale", "--seeds", "--jobs", "--out", "--dry-run"),
        {"Output": ("--json", "--order")},
    ),
    "evaluate": Guide(
        (
            "opl evaluate runs/digits-opl/seed-0 geometry",
            "opl evaluate runs/small/table-6/cifar-fs-rfs/seed-0 episodes --shot 1 5",
        ),
        argument_names=("RUN", "PROTOCOL"),
    ),
    "check": Guide(("opl check runs", "opl check runs/small/table-1")),
    "search": Guide(
        (
            "opl search digits-opl --over method.gamma=0.5,1,2",
            "opl search digits-opl --by optuna --trials 10 --over method.weight=0.1:2:log",
        ),
        ("--over", "--by", "--scale", "--jobs", "--out"),
        {"Trials": ("--seeds", "--trials", "--batch", "--prune-at", "--metric")},
    ),
    "report": Guide(("opl report runs/small/demo", "opl report runs")),
    "results": Guide(
        ("opl results add runs/small/table-1", "opl results write --check"), argument_names=("add|write|draw",)
    ),
    "results add": Guide(
        ("opl results add runs/small/table-1", "opl results add runs --replace"), ("--to", "--replace")
    ),
    "results write": Guide(("opl results write", "opl results write --check"), ("--records", "--file", "--check")),
    "results draw": Guide(
        ("opl results draw figure-6", "opl results draw table-8 --to figures"), ("--to", "--scale", "--records")
    ),
    "export": Guide(
        ("opl export runs/digits-opl/seed-0 exported", "opl export runs/digits-opl/seed-0 --hub somebody/digits-opl"),
        ("--hub", "--private", "--license"),
        argument_names=("RUN", "[FOLDER]"),
    ),
    "data": Guide(("opl data", "opl data cifar100"), argument_names=("[NAME]",)),
    "bench": Guide(
        ("opl bench", "opl bench losses --seconds 1 --no-memory"),
        ("--seconds", "--threads", "--memory"),
        argument_names=("[WHAT]",),
    ),
}


class Entry(NamedTuple):
    """A flag or argument in a help text."""

    name: str
    text: str
    flags: tuple[str, ...]
    heading: str
    """The heading of its group of settings; empty for flags of the command itself."""


def show_help(command: str, kind: Any, argv: list[str]) -> None:
    """Print the help of a command; a command whose flags depend on its arguments has its own `show_help`."""
    try:
        if "show_help" in vars(kind):
            kind.show_help(argv)
        else:
            print_help(command, str(kind.__doc__), parser_of(kind))
    except ImportError:
        kind.parse(argv)  # tyro prints its own help


def parser_of(kind: Any, **options: Any) -> argparse.ArgumentParser:
    """Return the parser that tyro makes of a dataclass.

    Raises:
        ImportError: this version of tyro does not expose it.
    """
    from tyro.extras import get_parser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser: Any = get_parser(kind, **options)
    return parser  # type: ignore[no-any-return]


def print_help(
    command: str, sentence: str, parser: argparse.ArgumentParser, more: Sequence[str] = (), guide: Guide | None = None
) -> None:
    """Print the help of a command.

    Args:
        command: a key of `GUIDES`.
        sentence: what it does.
        parser: its flags.
        more: lines below the examples.
        guide: replaces the guide of the command.
    """
    guide, entries = guide or GUIDES[command], list(_entries(parser))
    arguments = [entry for entry in entries if not entry.flags]
    argument_names = guide.argument_names or [entry.name for entry in arguments]
    flags = [entry for entry in entries if entry.flags]
    _print(" ".join(["usage: opl", command, *argument_names, *(["[flags]"] if flags else [])]))
    _print("", sentence, "")
    print("\n".join(f"  {example}" for example in guide.examples))
    _print(*["", *more] if more else [])
    _print_entries("", [entry._replace(name=name) for entry, name in zip(arguments, argument_names, strict=False)])
    named = {name: entry for entry in flags for name in entry.flags}
    for heading, names in {"Flags to start with": guide.first, **guide.groups}.items():
        chosen = [named[name] for name in names if name in named]
        _print_entries(heading, chosen)
        flags = [entry for entry in flags if entry not in chosen]
    _print_groups(flags, "More flags" if guide.first else "Flags")


def print_settings(name: str, sentence: str, parser: argparse.ArgumentParser, everything: bool) -> None:
    """Print the settings of a recipe as flags: those that matter most, or all of them."""
    entries = [entry for entry in _entries(parser) if entry.flags]
    first = [entry for flag in SETTINGS for entry in entries if flag in entry.flags]
    _print(f"usage: opl train {name} [flags] [settings]", "", sentence, "")
    print(f"  opl train {name} --seed 1\n  opl train {name} --epochs 5 --out trial")
    if everything:
        _print_groups(entries, "Settings of the run")
        return
    _print_entries("Settings to start with", first)
    others = len(entries) - len(first)
    _print("", f"opl train {name} {ALL} lists {others} more settings; opl train --help lists the flags.")


def _entries(parser: argparse.ArgumentParser) -> Iterator[Entry]:
    """Yield the flags and arguments of a parser, group by group."""
    for group in parser._action_groups:
        heading = _first_sentence(group.description or "")
        for action in group._group_actions:
            if "-h" not in action.option_strings and action.help != argparse.SUPPRESS:
                yield _entry(action, heading)


def _entry(action: argparse.Action, heading: str) -> Entry:
    match = DEFAULT.search(action.help or "")
    default = (match[1] if match else "") or ""
    text = re.sub(r"\s+", " ", DEFAULT.sub("", action.help or "")).replace("`", "")
    flags = tuple(action.option_strings)
    if not flags:
        metavar = str(action.metavar or action.dest)
        braces = re.search(r"\{(.*)\}", metavar)
        name = action.dest.rpartition(".")[2].upper() if braces or metavar in METAVARS else metavar
        return Entry(name, _join(text, braces[1] if braces else "", default), (), heading)
    text = text or TEXTS.get(flags[0], "")
    if action.nargs == 0:
        on = default == "True"
        name = re.sub(r"^--(.*\.)?", r"--\1[no-]", flags[0]) if on else flags[0]
        return Entry(name, _join(text, "", "yes" if on else ""), flags, heading)
    metavar, choices = (NAMED[flags[0]], "") if flags[0] in NAMED else _metavar(action)
    return Entry(f"{flags[0]} {metavar}", _join(text, choices, default), flags, heading)


def _metavar(action: argparse.Action) -> tuple[str, str]:
    """Return the placeholder of a flag's value, and its choices if they are too long for a placeholder."""
    written = str(action.metavar or ("|".join(map(str, action.choices)) if action.choices else "") or "TEXT")
    several = " ..." if "..." in written or action.nargs == "+" else ""
    plain = re.sub(r"[\[\]]| \.\.\.", "", written).split(" ")[0].replace("{None}|", "")
    plain = plain.strip("{}").replace(",", "|")
    if len(action.option_strings[0]) + len(plain) > NAMES - INDENT - 2 and "|" in plain:
        return "NAME" + several, plain.replace("|", ", ")
    return METAVARS.get(plain, plain) + several, ""


def _join(text: str, choices: str, default: str) -> str:
    """Return the text of a flag with its choices and its default; an empty default is omitted."""
    value = re.sub(r"^(-?\d+)\.0$", r"\1", default.strip("'\""))
    note = f"(default: {value})" if value not in ("", "False", "None") else ""
    listed = f"One of {choices.replace(',', ', ').replace('  ', ' ')}." if choices else ""
    return " ".join(part for part in (text, listed, note) if part)


def _first_sentence(text: str) -> str:
    """Return the first sentence of a description, without its period.

    Example:
        >>> _first_sentence("Where runs are executed. It is `local` by default.")
        'Where runs are executed'
    """
    return re.sub(r"\s+", " ", text.partition("\n\n")[0]).partition(". ")[0].rstrip(".").replace("`", "")


def _print_groups(entries: Sequence[Entry], title: str) -> None:
    """Print entries under the headings of their groups; entries of the command itself get the heading `title`."""
    for heading in dict.fromkeys(entry.heading for entry in entries):
        _print_entries(heading or title, [entry for entry in entries if entry.heading == heading])


def _print_entries(heading: str, entries: Sequence[Entry]) -> None:
    if not entries:
        return
    _print("", *([f"{heading}:"] if heading else []))
    width = min(NAMES, max(len(entry.name) for entry in entries) + INDENT + 2)
    for entry in entries:
        start = f"{' ' * INDENT}{entry.name}"
        lines = _wrap(entry.text, _columns() - width)
        first = lines.pop(0) if len(start) + 2 <= width and lines else ""
        print(escape(f"{start.ljust(width)}{first}".rstrip()))
        for line in lines:
            print(escape(f"{' ' * width}{line}"))


def _columns() -> int:
    return max(LEAST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False)


def _print(*texts: str) -> None:
    for text in texts:
        print(escape("\n".join(_wrap(text, _columns()))))
