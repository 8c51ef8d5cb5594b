"""`opl evaluate RUN PROTOCOL`: another measure of a finished run."""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..._ranges import check_settings
from ...errors import OptionError
from ..evaluation.registry import PROTOCOLS, Protocol, protocol
from ..run_folder import RunFolder
from ..runner.measures import evaluate_all
from ..runner.placement import Placement
from .flags import HELP, Parser, read_flags


@dataclass(frozen=True)
class Evaluate:
    """Another measure of a finished run."""

    run_folder: Path
    protocol: Protocol
    settings: tuple[Any, ...] = ()

    @classmethod
    def parse(cls, words: list[str]) -> "Evaluate | EvaluateMany":
        """RUN and PROTOCOL; every other flag is a setting of the protocol itself."""
        listed = "\n".join(f"  {name:<10} {each.does}" for name, each in PROTOCOLS.items())
        parser = Parser(  # not tyro, since the protocol named here decides which flags tyro gets
            prog="opl evaluate",
            description=f"Another measure of a finished run.\n\n{listed}\n\nFlags: opl evaluate RUN PROTOCOL --help",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
        )
        parser.add_argument(
            "run",
            nargs="?",
            type=Path,
            help="for instance runs/digits-opl/seed-0, or a folder of runs (with --jobs, --on)",
        )
        parser.add_argument("protocol", nargs="?")
        given, rest = parser.parse_known_args(words)
        if given.protocol is None:
            if HELP & set(rest):
                parser.print_help()
                raise SystemExit(0)
            raise OptionError("opl evaluate needs a run and a protocol: opl evaluate runs/digits-opl/seed-0 geometry.")
        chosen = protocol(given.protocol)
        several = EvaluateMany.find(given.run, given.protocol, rest)
        if several:
            cls.parse([str(several.runs[0].path), given.protocol, *several.words[1:]])  # wrong words are found here
            return several
        if chosen.settings:
            return cls(given.run, chosen, _settings(chosen, given.protocol, rest))
        Parser(prog=f"opl evaluate {given.run} {given.protocol}").parse_args(rest)
        return cls(given.run, chosen)

    def run(self) -> int:
        """Measure, and print the numbers."""
        folder = RunFolder(self.run_folder)
        if folder.done:
            folder.sweep()
        numbers = self.protocol.load()(folder, *([self.settings] if self.settings else []))
        print(json.dumps(numbers, indent=1))
        return 0


@dataclass(frozen=True)
class EvaluateMany:
    """The same measure of all finished runs below a folder, each by a command of its own."""

    folder: Path
    runs: tuple[RunFolder, ...]
    words: tuple[str, ...]
    place: Placement

    @classmethod
    def find(cls, folder: Path, protocol: str, words: list[str]) -> "EvaluateMany | None":
        """Return the runs below a folder, with the flags that say where they are measured; None for one run."""
        if RunFolder(folder).begun:
            return None
        runs = tuple(RunFolder(run.path.absolute()) for run in RunFolder.below(folder) if run.done)
        if not runs:
            return None
        place, rest = read_flags(Placement, words, prog="opl evaluate DIR PROTOCOL", return_unknown_args=True)
        check_settings(place, "--")
        return cls(folder.absolute(), runs, (protocol, *rest), place)

    def run(self) -> int:
        """Measure all; one that fails does not stop the others."""
        with self.place.executor(self.folder, short=False) as executor:
            wanted = [(run, self.words) for run in self.runs]
            failed = evaluate_all(wanted, self.folder, executor, self.place.resources)
        print(f"{len(self.runs) - len(failed)} of {len(self.runs)} runs measured: {' '.join(self.words)}")
        return 1 if failed else 0


def _settings(chosen: Protocol, name: str, words: list[str]) -> tuple[Any, ...]:
    """The settings that the flags ask for: `--shot 1 5` asks for two, of the same images."""
    kind, several = chosen.settings_type(), chosen.several
    parser = Parser(prog=f"opl evaluate RUN {name}", add_help=False)
    parser.add_argument(f"--{several}", nargs="+", default=None)
    given, rest = parser.parse_known_args(words)
    base = read_flags(
        kind,
        rest,
        prog=f"opl evaluate RUN {name}",
        description=f"{chosen.does}. --{several} takes several values, which are measured in one go:",
    )
    values = getattr(given, several)
    return tuple(replace(base, **{several: _parse(chosen, word)}) for word in values) if values else (base,)


def _parse(chosen: Protocol, word: str) -> Any:
    try:
        return chosen.parse(word)
    except (ValueError, OverflowError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"--{chosen.several} is {word[:200]!r}: give numbers, with spaces between them.") from error
