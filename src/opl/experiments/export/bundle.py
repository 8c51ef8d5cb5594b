"""The files of an export, made in memory first; and writing them into a folder in which nothing is lost."""

import json
from pathlib import Path

from ...errors import FolderError, OptionError
from ..files import write_whole
from ..models.exported import CONFIG, WEIGHTS, NetworkConfig, read_config
from ..settings import to_json
from .card import write_card
from .checked_network import export_network
from .drawings import PICTURES, draw_pictures
from .numbers import measure
from .origin import portable_about
from .subject import read_subject

CARD, TRAINING = "README.md", "training.json"
FILES = (WEIGHTS, TRAINING, *PICTURES, CARD, CONFIG)
"""Every file that an export may have, in the order in which they are written."""


def export_run(path: Path, target: Path, *, license: str, source: str = "") -> list[Path]:
    """Export a finished run into a folder; return the files.

    Args:
        path: the folder of the run.
        target: a new or empty folder, or one with an earlier export of the same run.
        license: the license of the weights, as the Hub spells it.
        source: where the card says that the network is loaded from; by default, the name of the target.
    """
    subject = read_subject(path)
    config, weights = export_network(subject.run.folder)
    check_target(target, config)
    pictures = draw_pictures(subject)
    card = write_card(
        subject, config, measure(subject), pictures, license=license, source=source or target.resolve().name
    )
    files = {
        WEIGHTS: weights,
        TRAINING: _json(portable_about(subject.run.about)),
        **pictures,
        CARD: card.encode(),
        CONFIG: _json(to_json(config)),
    }
    return _write(files, target)


def check_target(target: Path, config: NetworkConfig) -> None:
    """Refuse a folder that holds anything but an earlier export of the same run."""
    if target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file: give a folder to export to.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not (target / CONFIG).exists():
        raise OptionError(f"{target} holds other files than an export: give a new folder.")
    there = read_config(target)
    if (there.recipe, there.seed, there.scale) != (config.recipe, config.seed, config.scale):
        raise OptionError(
            f"{target} holds the export of another run ({there.recipe}, seed {there.seed}, {there.scale}): give "
            "another folder."
        )


def _write(files: dict[str, bytes], target: Path) -> list[Path]:
    """Write the files, the config last; pictures of an earlier export that were not drawn again are deleted."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if name in files:
                write_whole(target / name, files[name])
            else:
                (target / name).unlink(missing_ok=True)
    except OSError as error:
        raise FolderError(f"cannot write to {target} ({error.strerror}): give another folder.") from error
    return [target / name for name in FILES if name in files]


def _json(content: object) -> bytes:
    return f"{json.dumps(content, indent=1)}\n".encode()
