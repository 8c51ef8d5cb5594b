"""The networks that are evaluated together: a run, the base that it started from, and the members of its family."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from ....errors import FolderError, OptionError
from ...data.augment import Normalize
from ...data.meta_dataset import MetaDataSet
from ...models import Network
from ...recipe import Recipe
from ...run_folder import RunFolder
from ...training.build import finished_model, input_statistics, parse_recipe
from ...types import Images
from .stored_features import Watch, stored_features


class Extractor:
    """A finished run as a source of features, which are computed once for each target and kept in its folder."""

    def __init__(self, folder: RunFolder, device: torch.device) -> None:
        if not folder.done:
            raise FolderError(f"{folder.path} is no finished run, and one is needed: finish it with opl train first.")
        self.folder, self.device = folder, device
        self.recipe = parse_recipe(folder.recipe())

    @cached_property
    def network(self) -> Network:
        """The network, loaded when it is needed."""
        network = finished_model(self.folder).to(self.device).eval()
        return network.requires_grad_(False)

    @property
    def data(self) -> MetaDataSet:
        """The source that the run was trained on."""
        return meta_data(self.recipe)

    def features(self, name: str, part: Images, rows: torch.Tensor, watch: Watch) -> torch.Tensor:
        """Return (n, D) features of some images of a part, which is called `name`."""
        return stored_features(self.folder, name, part, rows, self._encode, watch)

    def _encode(self, pixels: torch.Tensor) -> torch.Tensor:
        images = Normalize(*input_statistics(self.recipe))(pixels.to(self.device).float().div_(255))
        images = images.to(next(self.network.parameters()).dtype).contiguous(memory_format=torch.channels_last)
        features: torch.Tensor = self.network(images).features
        return features.float().cpu()


def open_family(folder: RunFolder, device: torch.device) -> list[Extractor]:
    """Return the base that a run started from, if it did, the members of its family, and the run itself.

    Raises:
        FolderError: a run is missing, or started from another base.
    """
    own = Extractor(folder, device)
    recipe = own.recipe
    names = [*([recipe.after] if recipe.inherit else []), *recipe.members]
    family = [*(Extractor(folder.beside(name), device) for name in names), own]
    sizes = {each.data.size for each in family}
    if len(sizes) > 1:
        raise FolderError(
            f"the family of {folder.path} was trained on images of {' and '.join(map(str, sorted(sizes)))} pixels: "
            "take runs of one size."
        )
    for each in family:
        _check_base(each)
    return family


def _check_base(member: Extractor) -> None:
    """Check that a member of a parametric family started from the base network that is there now."""
    if not member.recipe.inherit:
        return
    base = member.folder.beside(member.recipe.after)
    told: dict[str, Any] = member.folder.result().get("after", {})
    if told.get("sha256") != base.weights_sum():
        raise FolderError(
            f"{member.folder.path} started from other weights of {member.recipe.after} than are there now: delete the "
            "folder and run it again."
        )


def meta_data(recipe: Recipe) -> MetaDataSet:
    """Return the data of a recipe, if they are a source of Meta-Dataset."""
    if not isinstance(recipe.data, MetaDataSet):
        raise OptionError(
            f"{recipe.name} was trained on {recipe.data.name}, which is no source of Meta-Dataset: take a run of "
            "table-7, or one with MetaSource data."
        )
    return recipe.data


def alone(recipe: Recipe) -> Recipe:
    """Return a recipe for one process."""
    return replace(recipe, devices=1, nodes=1)
