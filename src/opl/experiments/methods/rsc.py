"""RSC, representation self-challenging: training without the parts of a map that speak loudest for the right class.

Huang, Wang, Xing, Huang: Self-challenging improves cross-domain generalization (ECCV 2020). The paper, the versions of
its code and DomainBed differ; here are the last version of the code ("released") and DomainBed's.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..._support.step_counter import StepCounter
from ...errors import OptionError, did_you_mean
from ..models import Network
from ..models.modes import unwrap
from ..types import Batch, Output, TaskShape
from .auxiliaries import Auxiliary, AuxiliaryMethod, build_terms
from .base import Objective, SupervisedObjective

Rule = Literal["released", "domainbed"]
Place = Literal["after", "before"]
LEAST = 1e-4  # a drop of the probability by less than this is none


@dataclass(frozen=True)
class RSC(AuxiliaryMethod):
    """Cross-entropy of maps from which the cells or channels with the largest gradient were blanked.

    In each batch a coin decides between cells and channels. Only the images whose probability of the right class falls
    most keep their mask. Nothing is blanked at test. Over several processes each decides for its own share of a batch.

    Example:
        >>> from opl.experiments.methods import OPL
        >>> RSC(auxiliary=(OPL(),)).share_at(epoch=10)
        0.5
    """

    rule: Rule = "released"
    """What counts as most: entries above the one at a place in their order ("released"), or entries that are not below
    a percentile, and channels alone ("domainbed", which has 1/3 for `channels` and `share`, and no `rise`)."""
    cells: float = 1 / 3
    """The part of the cells that is blanked."""
    channels: float = 1 / 3.2
    """The part of the channels that is blanked."""
    spatial: float = 0.5
    """How often it is cells, not channels."""
    share: float = 0.3
    """The part of the images that may keep their mask, at first."""
    rise: float = 0.2
    """What that grows by, every so many epochs."""
    every: int = 10
    """Epochs."""
    place: Place = "after"
    """Where auxiliary losses see the averaged features: after the blanking, as the classifier does, or before."""

    @classmethod
    def domainbed(cls, auxiliary: tuple[Auxiliary, ...] = ()) -> "RSC":
        """With the settings of DomainBed."""
        return cls("domainbed", channels=1 / 3, spatial=0.0, share=1 / 3, rise=0.0, auxiliary=auxiliary)

    def share_at(self, epoch: int) -> float:
        """The part of the images that may keep their mask."""
        return min(1.0, self.share + self.rise * (epoch // self.every))

    def build(self, shape: TaskShape) -> Objective:
        """The objective; it has no parameters."""
        for name in ("cells", "channels", "spatial", "share"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name} is {getattr(self, name)}: give a part, from 0 to 1.")
        if self.rise < 0 or self.every < 1:
            raise OptionError(f"rise={self.rise}, every={self.every}: give a rise from 0 up, and epochs from 1 up.")
        for what, kinds in (("rule", get_args(Rule)), ("place", get_args(Place))):
            if getattr(self, what) not in kinds:
                raise OptionError(did_you_mean(what, getattr(self, what), kinds))
        if self.rule == "domainbed" and self.spatial:
            raise OptionError(f"DomainBed's rule blanks channels alone, and spatial is {self.spatial}: set it to 0.")
        return RSCObjective(self, shape)


class RSCObjective(SupervisedObjective):
    """The objective: the model's last map is challenged on its way."""

    def __init__(self, settings: RSC, shape: TaskShape) -> None:
        super().__init__(nn.CrossEntropyLoss(reduction="sum"), terms=build_terms(settings.auxiliary, shape))
        self.challenge, self.place = FeatureMask(settings, shape.steps), settings.place

    def predict(self, model: nn.Module, batch: Batch) -> Output:
        """What the model says with its map blanked in parts; with `place="before"`, beside features from before."""
        network, before = unwrap(model), []
        if not isinstance(network, Network):
            raise OptionError("RSC blanks the last map of a network, so it needs one of `opl.experiments.models`.")

        def change(maps: Tensor) -> Tensor:
            if self.place == "before":
                before.append(network.after(maps).features)
            mask: Tensor = self.challenge(network, maps.detach(), batch.labels)
            return maps * mask.to(maps.dtype)

        output: Output = model(batch.images, change=change if self.training else None)
        return output._replace(features=before[0]) if before else output


class FeatureMask(StepCounter):
    """The mask of a batch of maps: (B, C, 1, 1) or (B, 1, H, W), 0 where they are blanked and 1 elsewhere."""

    def __init__(self, settings: RSC, steps: int) -> None:
        super().__init__()
        self.settings, self.steps = settings, max(1, steps)

    @torch.no_grad()
    def forward(self, network: Network, maps: Tensor, labels: Tensor) -> Tensor:
        """A coin of the global generator, the mask of its kind, and back to 1 for images that lose too little."""
        settings, maps = self.settings, maps.to(torch.promote_types(maps.dtype, torch.float32))
        share = settings.share_at(int(self.tick()) // self.steps)
        scores = channel_scores(network, maps, labels)
        if torch.rand(()).item() < settings.spatial:
            mask = mask_largest((maps * scores).sum(1).flatten(1), settings.cells).view(len(maps), 1, *maps.shape[2:])
        else:
            mask = mask_largest(scores.flatten(1), settings.channels, settings.rule)[:, :, None, None]
        drops = label_probability(network, maps, labels) - label_probability(network, maps * mask, labels)
        return torch.where(select_largest(drops, share, settings.rule)[:, None, None, None], mask, 1.0)


def channel_scores(network: Network, maps: Tensor, labels: Tensor) -> Tensor:
    """(B, C, 1, 1): the gradient of the right logit by the map, averaged over its positions.

    A map that is averaged and goes to a linear classifier has the gradient `weight[label] / positions` everywhere; with
    other layers between, it is asked of autograd.
    """
    if network.path[-2:] == ("avgpool", "flatten") and isinstance(network.fc, nn.Linear):
        return (network.fc.weight[labels] / maps.shape[2:].numel())[:, :, None, None]
    with torch.enable_grad():
        maps = maps.detach().requires_grad_()
        chosen = network.after(maps).logits.gather(1, labels[:, None]).sum()
        [gradient] = torch.autograd.grad(chosen, maps)
    return gradient.mean((2, 3), keepdim=True)


def label_probability(network: Network, maps: Tensor, labels: Tensor) -> Tensor:
    """(B,): the probability of the right class."""
    return network.after(maps).logits.float().softmax(1).gather(1, labels[:, None]).squeeze(1)


def mask_largest(scores: Tensor, part: float, rule: Rule = "released") -> Tensor:
    """(B, K) scores to masks: 0 for the largest of each row.

    Args:
        scores: of cells or channels.
        part: how many of each row are blanked, rounded up; equal scores at the border all stay.
        rule: "domainbed" blanks what is not below the percentile `1 - part`.

    Example:
        >>> mask_largest(torch.tensor([[3.0, 1.0, 2.0, 4.0]]), 1 / 3)
        tensor([[0., 1., 1., 0.]])
    """
    if rule == "domainbed":
        return (scores < scores.quantile(1 - part, 1, keepdim=True)).to(scores.dtype)
    border = scores.sort(1, descending=True).values[:, _place(math.ceil(scores.shape[1] * part), scores.shape[1])]
    return (scores <= border[:, None]).to(scores.dtype)


def select_largest(drops: Tensor, share: float, rule: Rule = "released") -> Tensor:
    """(B,): which images have the largest drops.

    Args:
        drops: of the probability of the right class.
        share: how many of the images, rounded; equal drops at the border are not among them, nor drops below 1e-4.
        rule: "domainbed" takes what is not below the percentile `1 - share`.

    Example:
        >>> select_largest(torch.tensor([0.1, 0.4, -0.2, 0.3]), 0.5)
        tensor([False,  True, False,  True])
    """
    if not len(drops):
        return drops > 0
    if rule == "domainbed":
        return drops >= drops.quantile(1 - share)
    drops = (drops - LEAST).clamp(min=0)
    return drops > drops.sort(descending=True).values[_place(round(len(drops) * share), len(drops))]


def _place(place: int, count: int) -> int:
    """A place in an order of so many, the last one at most."""
    return min(place, count - 1)
