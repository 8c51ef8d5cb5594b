"""`opl evaluate RUN PROTOCOL`: another measure of a finished run."""

import json
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..._ranges import check_settings
from ...errors import OptionError
from ..evaluation.protocols import PROTOCOLS, Protocol, protocol
from ..run_folder import RunFolder
from ..runner.jobs import evaluate_all
from ..runner.placement import Placement
from .flags import Parser, read_flags

FLAGS = "opl evaluate RUN PROTOCOL --help lists the settings of a protocol."


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a finished run with another protocol."""

    run_folder: Path
    protocol: Protocol
    settings: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, argv: list[str]) -> "Evaluate | EvaluateMany":
        """Parse RUN and PROTOCOL; all other flags are settings of the protocol."""
        known, rest = _parser().parse_known_args(argv)
        if known.protocol is None:
            raise OptionError("opl evaluate needs a run and a protocol: opl evaluate runs/digits-opl/seed-0 geometry.")
        chosen = protocol(known.protocol)
        many = EvaluateMany.find(known.run, known.protocol, rest)
        if many:
            cls.parse([str(many.runs[0].path), known.protocol, *many.argv[1:]])  # report usage errors before any run
            return many
        if chosen.settings:
            return cls(known.run, chosen, _settings(chosen, chosen.settings, known.protocol, rest))
        Parser(prog=f"opl evaluate {known.run} {known.protocol}").parse_args(rest)
        return cls(known.run, chosen)

    @classmethod
    def show_help(cls, argv: list[str]) -> None:
        """Print the protocols or, if one is named, its settings."""
        from .help import Guide, parser_of, print_help

        parser = _parser()
        known, _ = parser.parse_known_args(argv)
        if known.protocol is None:
            listed = [f"{name}: {entry.summary}." for name, entry in PROTOCOLS.items()]
            print_help("evaluate", str(cls.__doc__), parser, ["Protocols:", *listed, "", FLAGS])
            return
        chosen = protocol(known.protocol)
        settings = parser_of(chosen.settings) if chosen.settings else None
        several = f"--{chosen.several} takes several values, which are evaluated together." if chosen.settings else ""
        sentence = f"Measure a finished run: {chosen.summary}."
        run, name = "opl evaluate runs/digits-opl/seed-0", known.protocol
        guide = Guide((f"{run} {name}", f"opl evaluate runs {name} --jobs 2"), argument_names=("RUN", name))
        more = [several] if several else []
        print_help("evaluate", sentence, settings or Parser(add_help=False), more, guide)

    def run(self) -> int:
        """Evaluate, and print the numbers."""
        folder = RunFolder(self.run_folder)
        if folder.done:
            folder.sweep()
        numbers = self.protocol.load()(folder, *([self.settings] if self.settings else []))
        print(json.dumps(numbers, indent=1))
        if self.protocol.note:
            print(textwrap.fill(self.protocol.note, 99), file=sys.stderr)
        return 0


def _parser() -> Parser:
    """Return the parser of the arguments; not tyro's, because the protocol decides which flags tyro parses."""
    parser = Parser(prog="opl evaluate", add_help=False)
    example = "A finished run such as runs/digits-opl/seed-0, or a folder of runs (with --jobs, --on)."
    parser.add_argument("run", nargs="?", type=Path, metavar="RUN", help=example)
    parser.add_argument("protocol", nargs="?", metavar="PROTOCOL", help="What to measure.")
    return parser


@dataclass(frozen=True)
class EvaluateMany:
    """The same measure of all finished runs below a folder, with one command per run."""

    folder: Path
    runs: tuple[RunFolder, ...]
    argv: tuple[str, ...]
    placement: Placement

    @classmethod
    def find(cls, folder: Path, protocol: str, argv: list[str]) -> "EvaluateMany | None":
        """Return the finished runs below a folder and where to evaluate them; None if the folder is a run itself."""
        if RunFolder(folder).begun:
            return None
        runs = tuple(RunFolder(run.path.absolute()) for run in RunFolder.below(folder) if run.done)
        if not runs:
            return None
        placement, rest = read_flags(Placement, argv, prog="opl evaluate DIR PROTOCOL", return_unknown_args=True)
        check_settings(placement, "--")
        return cls(folder.absolute(), runs, (protocol, *rest), placement)

    def run(self) -> int:
        """Evaluate all runs; a failure does not stop the others."""
        with self.placement.executor(self.folder, short=False) as executor:
            commands = [(run, self.argv) for run in self.runs]
            failed = evaluate_all(lambda: commands, self.folder, executor, self.placement.resources)
        print(f"{len(self.runs) - len(failed)} of {len(self.runs)} runs measured: {' '.join(self.argv)}")
        return 1 if failed else 0


def _settings(chosen: Protocol, kind: type[Any], name: str, argv: list[str]) -> tuple[Any, ...]:
    """Parse the settings of a protocol: `--shot 1 5` yields two settings that share their images."""
    flag = f"--{chosen.several}"
    parser = Parser(prog=f"opl evaluate RUN {name}", add_help=False)
    parser.add_argument(flag, nargs="+", default=None)
    known, rest = parser.parse_known_args(argv)
    base = read_flags(
        kind,
        rest,
        prog=f"opl evaluate RUN {name}",
        description=f"{chosen.summary}. {flag} accepts several values, which are evaluated together:",
    )
    values = getattr(known, chosen.several)
    return tuple(replace(base, **{chosen.several: _value(chosen, text)}) for text in values) if values else (base,)


def _value(chosen: Protocol, text: str) -> Any:
    try:
        return chosen.parse(text)
    except (ValueError, OverflowError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"--{chosen.several} is {text[:200]!r} but must be numbers separated by spaces.") from error
