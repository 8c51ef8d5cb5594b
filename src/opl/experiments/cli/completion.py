"""`opl --completion SHELL`: tyro's completion script of the command line, from the dataclasses of the commands."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

import tyro
from tyro.conf import Positional
from tyro.extras import subcommand_cli_from_dict

from ...errors import OptionError, did_you_mean
from ..scales import FULL, Scale
from .flags import OUT

Shell = Literal["bash", "zsh"]
SHELLS = get_args(Shell)


@dataclass(frozen=True)
class TrainWords:
    """One run of a recipe."""

    recipe: Positional[str]
    scale: Scale = FULL
    out: Path = OUT
    dry_run: bool = False


@dataclass(frozen=True)
class EvaluateWords:
    """Another measure of a finished run."""

    run_folder: Positional[Path]
    protocol: Positional[str]


# The other flags of these two depend on the recipe or protocol, and so are in no fixed script.
SHORT: dict[str, Any] = {"train": TrainWords, "evaluate": EvaluateWords}


def print_completion(shell: str, homes: dict[str, tuple[str, str]]) -> int:
    """Print the script for a shell.

    Args:
        shell: one of `SHELLS`.
        homes: the module of this package and the dataclass of each command.
    """
    if shell not in SHELLS:
        raise OptionError(did_you_mean("shell", shell, SHELLS))
    commands = {
        word: SHORT.get(word) or vars(import_module(f".{module}", __package__))[name]
        for word, (module, name) in homes.items()
    }
    try:
        subcommand_cli_from_dict(
            commands, prog="opl", args=["--tyro-print-completion", shell], config=[tyro.conf.OmitSubcommandPrefixes]
        )
    except SystemExit as end:
        return int(end.code or 0)
    return 1
