"""`opl evaluate RUN PROTOCOL`: words to a protocol and its settings."""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import tyro

from ...errors import OptionError, did_you_mean

Settings = tuple[Any, ...]


def _few_shot(words: list[str]) -> Settings:
    """The protocols that the flags ask for: `--shot 1 5` asks for two, of the same images."""
    from ..evaluation.few_shot.settings import FewShot

    parser = argparse.ArgumentParser(prog="opl evaluate RUN episodes", add_help=False)
    parser.add_argument("--shot", nargs="+", type=int, default=[1])
    shots, rest = parser.parse_known_args(words)
    chosen = tyro.cli(
        FewShot,
        args=rest,
        prog="opl evaluate RUN episodes",
        description="Few-shot episodes. Several numbers after --shot are measured in one go:",
    )
    return tuple(replace(chosen, shot=shot) for shot in shots.shot)


def _attacks(words: list[str]) -> Settings:
    """The attacks that the flags ask for: `--eps 4/255 8/255` asks for two radii."""
    from ..evaluation.attack.settings import Attack
    from ..radius import parse_radius

    parser = argparse.ArgumentParser(prog="opl evaluate RUN attack", add_help=False)
    parser.add_argument("--eps", nargs="+", default=["8/255"])
    given, rest = parser.parse_known_args(words)
    chosen = tyro.cli(
        Attack,
        args=rest,
        prog="opl evaluate RUN attack",
        description="Attacks. Radii are written 8/255 or 0.031; several after --eps are tried one after another:",
    )
    return tuple(replace(chosen, eps=parse_radius(word)) for word in given.eps)


class Protocol(NamedTuple):
    """A measure: where its function lives, what it does, and who reads its flags, where it has some."""

    module: str
    function: str
    does: str
    settings: Callable[[list[str]], Settings] | None = None


PROTOCOLS = {
    "geometry": Protocol(
        "predict",
        "evaluate_geometry",
        "the test features again, and how they stand to each other (writes test.npz)",
    ),
    "novel": Protocol("predict", "evaluate_novel", "the same of classes that the run never saw (novel.npz)"),
    "noise": Protocol(
        "predict",
        "evaluate_noise",
        "which wrong labels were learned, and which told (measures/)",
    ),
    "episodes": Protocol(
        "predict",
        "evaluate_episodes",
        "few-shot episodes of classes that the run never saw (measures/)",
        _few_shot,
    ),
    "attack": Protocol(
        "attack.evaluate",
        "evaluate_attacks",
        "accuracy under FGSM, PGD and AutoAttack (measures/)",
        _attacks,
    ),
}


@dataclass(frozen=True)
class Evaluate:
    """Another measure of a finished run."""

    run_folder: Path
    protocol: str
    settings: Settings = ()

    @classmethod
    def parse(cls, words: list[str]) -> "Evaluate":
        """RUN and PROTOCOL; every other flag is a setting of the protocol itself."""
        listed = "\n".join(f"  {name:<10} {protocol.does}" for name, protocol in PROTOCOLS.items())
        parser = argparse.ArgumentParser(
            prog="opl evaluate",
            description=f"Another measure of a finished run.\n\n{listed}\n\nFlags: opl evaluate RUN PROTOCOL --help",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
        )
        parser.add_argument("run", nargs="?", type=Path, help="for instance runs/digits-opl/seed-0")
        parser.add_argument("protocol", nargs="?")
        given, rest = parser.parse_known_args(words)
        if given.protocol is None:
            if {"-h", "--help"} & set(rest):
                parser.print_help()
                raise SystemExit(0)
            raise OptionError("opl evaluate needs a run and a protocol: opl evaluate runs/digits-opl/seed-0 geometry.")
        if given.protocol not in PROTOCOLS:
            raise OptionError(did_you_mean("protocol", given.protocol, PROTOCOLS))
        read = PROTOCOLS[given.protocol].settings
        if read is None:
            argparse.ArgumentParser(prog=f"opl evaluate {given.run} {given.protocol}").parse_args(rest)
        return cls(given.run, given.protocol, read(rest) if read else ())

    def run(self) -> int:
        """Measure, and print numbers."""
        from ..run_folder import RunFolder

        protocol = PROTOCOLS[self.protocol]
        measure = getattr(import_module(f"opl.experiments.evaluation.{protocol.module}"), protocol.function)
        found = measure(RunFolder(self.run_folder), *([self.settings] if protocol.settings else []))
        print(json.dumps(found, indent=1))
        return 0
