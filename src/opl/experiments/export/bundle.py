"""The files of an export: made in memory and checked first, then written to a folder or uploaded to the Hub."""

import dataclasses
import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ... import __version__
from ...errors import FolderError, OplError, OptionError
from ...heads import LinearHead
from ..data import Normalize
from ..files import write_whole
from ..models import Network, ResNet
from ..models.exported import CONFIG, WEIGHTS, HeadConfig, NetworkConfig, parse_config, read_config, rebuild
from ..models.network import STANDARDIZE
from ..recipe import Recipe
from ..results.records import without_roots
from ..run_folder import RunFolder
from ..settings import to_json
from ..training.build import finished_model, image_statistics, input_statistics, parse_recipe
from .card import write_card
from .drawings import PICTURES, draw_pictures
from .subject import measure, read_subject

CARD, TRAINING = "README.md", "training.json"
FILES = (WEIGHTS, TRAINING, *PICTURES, CARD, CONFIG)
"""Every file that an export may have, in the order of writing."""


def export_run(path: Path, target: Path, *, license: str, source: str = "") -> list[Path]:
    """Export a finished run into a folder; return the files.

    Args:
        path: the folder of the run.
        target: a new or empty folder, or a folder with an earlier export of the same run.
        license: the license of the weights, as the Hub spells it.
        source: the location of the network in the examples of the card; by default, the name of the target.
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
        TRAINING: _json(without_roots(subject.run.about)),
        **pictures,
        CARD: card.encode(errors="backslashreplace"),
        CONFIG: _json(to_json(config)),
    }
    return _write(files, target)


def check_target(target: Path, config: NetworkConfig) -> None:
    """Raise an error if a folder contains anything but an earlier export of the same run."""
    if target.exists() and not target.is_dir():
        raise OptionError(f"{target} is a file: pass a folder to export to.")
    if not target.exists() or not any(target.iterdir()):
        return
    if not (target / CONFIG).exists():
        raise OptionError(f"{target} contains files that do not belong to an export: choose a new folder.")
    earlier = read_config(target)
    if (earlier.recipe, earlier.seed, earlier.scale) != (config.recipe, config.seed, config.scale):
        raise OptionError(
            f"{target} contains the export of another run ({earlier.recipe}, seed {earlier.seed}, {earlier.scale}): "
            "choose another folder."
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
        raise FolderError(f"cannot write to {target} ({error.strerror}): choose another folder.") from error
    return [target / name for name in FILES if name in files]


def _json(content: object) -> bytes:
    return f"{json.dumps(content, indent=1)}\n".encode()


TORCHVISION = {18: "resnet18", 34: "resnet34", 50: "resnet50", 101: "resnet101"}
"""The function of torchvision.models for each depth of a ResNet."""


def export_network(folder: RunFolder) -> tuple[NetworkConfig, bytes]:
    """Return the config and the safetensors of a finished run, after checking that they reproduce its logits."""
    from safetensors.torch import load, save

    recipe, network = parse_recipe(folder.recipe()), finished_model(folder)
    mean, std = image_statistics(recipe) if recipe.normalize != "none" else ((), ())
    config = NetworkConfig(
        recipe=recipe.name,
        seed=recipe.seed,
        scale=recipe.scale,
        data=recipe.data.name,
        model=recipe.model.rebuilt(folder.result()),
        head=_head(recipe, network),
        channels=recipe.data.channels,
        size=recipe.data.size,
        num_classes=recipe.data.num_classes,
        class_names=folder.class_names(),
        mean=mean,
        std=std,
        torchvision=torchvision_name(recipe, network),
        precision=recipe.precision,
        opl_version=__version__,
    )
    weights = {name: value for name, value in folder.weights().items() if not name.startswith(f"{STANDARDIZE}.")}
    data = save(weights, metadata={"format": "pt"})
    config = dataclasses.replace(config, sha256=hashlib.sha256(data).hexdigest())
    _check_equal(rebuild(parse_config(to_json(config)), load(data)), network, recipe)
    return config, data


def torchvision_name(recipe: Recipe, network: Network) -> str:
    """Return the function of torchvision.models with the same names and shapes; empty if there is none."""
    model, linear = recipe.model, isinstance(network.fc, nn.Linear | LinearHead)
    if not isinstance(model, ResNet) or not linear or recipe.data.channels != 3:
        return ""
    return TORCHVISION.get(model.depth, "") if model.stem == "imagenet" and model.width == 64 else ""


def _head(recipe: Recipe, network: Network) -> HeadConfig | None:
    """Return the head that replaced the linear classifier; settings that are not its arguments belong to the loss."""
    settings: Any = recipe.method.head
    if settings is None:
        return None
    known = inspect.signature(type(network.fc)).parameters
    options = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    arguments = {name: value for name, value in options.items() if name in known}
    return HeadConfig(type(network.fc).__name__, arguments)


@torch.no_grad()
def _check_equal(exported: Network, network: Network, recipe: Recipe) -> None:
    data = recipe.data
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(2, data.channels, data.size, data.size, generator=generator)
    images = images.contiguous(memory_format=torch.channels_last)
    expected = network.eval()(Normalize(*input_statistics(recipe))(images)).logits
    if not torch.equal(exported(images).logits, expected):
        raise FolderError(
            f"the network of {recipe.name} is not exported, because its logits differ after it is rebuilt from its "
            "config: report this as a bug."
        )


BLANK = {".gitattributes", "LICENSE", CARD}  # files that a new repository may contain


def upload(folder: Path, repository: str, *, private: bool = False) -> str:
    """Upload an export to the Hub as one commit; return the address of the repository.

    Args:
        folder: an export; other files in it are not uploaded.
        repository: such as `somebody/cifar100-resnet56-opl`; it is created if it does not exist.
        private: make a private repository; an existing public repository is refused.
    """
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise OplError("the Hub client is not installed: run pip install 'orthogonal-projection-loss[hub]'.") from error
    api = HfApi()
    try:
        address = str(api.create_repo(repository, private=private, exist_ok=True))
        if private and not api.model_info(repository).private:
            raise OptionError(f"the Hub's {repository} is public: make it private there, or omit --private.")
        files = {*api.list_repo_files(repository)} - BLANK
        if files and TRAINING not in files:
            raise OptionError(
                f"the Hub's {repository} contains files that do not belong to an export: name a new repository."
            )
        api.upload_folder(
            repo_id=repository, folder_path=folder, allow_patterns=list(FILES), commit_message="Export by opl"
        )
    except OplError:
        raise
    except Exception as error:  # not logged in, no right to write, no network, invalid name, ...
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise OplError(
            f"uploading to {repository} failed ({reason}): log in with `hf auth login` to an account with write "
            "access, and check the network."
        ) from error
    return address


def check_repository(repository: str) -> None:
    """Raise an error for a name that cannot be a repository."""
    if repository.count("/") != 1 or not all(repository.split("/")):
        raise OptionError(f"--hub is {repository!r} but must be a repository such as somebody/cifar100-resnet56-opl.")
