"""RSC, representation self-challenging: training with the strongest evidence for the true class masked out.

Huang, Wang, Xing, Huang: Self-challenging improves cross-domain generalization (ECCV 2020). The paper, the versions of
its code and DomainBed differ; this file implements the last version of the code ("released") and DomainBed's version.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..._ranges import Count, Fraction, NotNegative
from ...errors import OptionError
from ...schedules import StepCounter
from ..models import Network
from ..models.modes import unwrap
from ..types import Batch, Output, TaskShape
from .auxiliaries import Auxiliary, AuxiliaryMethod, build_terms
from .base import Objective, SupervisedObjective

Rule = Literal["released", "domainbed"]
Place = Literal["after", "before"]
LEAST = 1e-4  # smaller drops in probability count as none


@dataclass(frozen=True)
class RSC(AuxiliaryMethod):
    """Cross-entropy on feature maps whose cells or channels with the largest gradient are masked.

    Each batch masks either cells or channels, chosen at random. Only the images whose probability of the true class
    drops most keep their mask. Nothing is masked at test time. With several processes, every process chooses
    for its shard of the batch.

    Example:
        >>> from opl.experiments.methods import OPL
        >>> RSC(auxiliary=(OPL(),)).share_at(epoch=10)
        0.5
    """

    rule: Rule = "released"
    """How the largest entries are selected: those above the entry at a given rank ("released"), or those at or above a
    percentile, with channels only ("domainbed", which uses 1/3 for `channels` and `share`, and no `rise`)."""
    cells: Fraction = 1 / 3
    """Fraction of the cells to mask."""
    channels: Fraction = 1 / 3.2
    """Fraction of the channels to mask."""
    spatial: Fraction = 0.5
    """Probability of masking cells instead of channels."""
    share: Fraction = 0.3
    """Initial fraction of the images that keep their mask."""
    rise: NotNegative = 0.2
    """Increase of `share` after every `every` epochs."""
    every: Count = 10
    """Epochs between increases of `share`."""
    place: Place = "after"
    """Whether auxiliary losses use the averaged features after masking, as the classifier does, or before."""

    @classmethod
    def domainbed(cls, auxiliary: tuple[Auxiliary, ...] = ()) -> "RSC":
        """Return RSC with the settings of DomainBed."""
        return cls("domainbed", channels=1 / 3, spatial=0.0, share=1 / 3, rise=0.0, auxiliary=auxiliary)

    def share_at(self, epoch: int) -> float:
        """Return the fraction of the images that keep their mask in an epoch."""
        return min(1.0, self.share + self.rise * (epoch // self.every))

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; only its auxiliary losses can have parameters."""
        if self.rule == "domainbed" and self.spatial:
            raise OptionError(f"spatial is {self.spatial}, but DomainBed's rule masks only channels: set it to 0.")
        return RSCObjective(self, shape)


class RSCObjective(SupervisedObjective):
    """Supervised objective that masks the model's last feature map in training."""

    def __init__(self, settings: RSC, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.challenge, self.place = FeatureMask(settings, shape.steps), settings.place

    def predict(self, model: nn.Module, batch: Batch) -> Output:
        """Run the model with its last map masked; with `place="before"`, return the features from before masking."""
        network, before = unwrap(model), []
        if not isinstance(network, Network):
            raise OptionError("RSC masks the last map of a Network: use a model of opl.experiments.models.")

        def change(maps: Tensor) -> Tensor:
            if self.place == "before":
                before.append(network.after(maps).features)
            mask: Tensor = self.challenge(network, maps.detach(), batch.labels)
            return maps * mask.to(maps.dtype)

        output: Output = model(batch.images, change=change if self.training else None)
        return output._replace(features=before[0]) if before else output


class FeatureMask(StepCounter):
    """Computes the mask of a batch of maps: (B, C, 1, 1) or (B, 1, H, W), 0 for masked entries and 1 elsewhere."""

    def __init__(self, settings: RSC, steps: int) -> None:
        super().__init__()
        self.settings, self.steps = settings, max(1, steps)

    @torch.no_grad()
    def forward(self, network: Network, maps: Tensor, labels: Tensor) -> Tensor:
        """Draw cells or channels (global generator), mask the largest, and unmask images that lose too little."""
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
    """Return (B, C, 1, 1) scores: the gradient of the true class's logit for the map, averaged over positions.

    If the map is averaged and passed to a linear classifier, the gradient is `weight[label] / positions` everywhere;
    with other layers in between, autograd computes it.
    """
    if network.path[-2:] == ("avgpool", "flatten") and isinstance(network.fc, nn.Linear):
        return (network.fc.weight[labels] / maps.shape[2:].numel())[:, :, None, None]
    with torch.enable_grad():
        maps = maps.detach().requires_grad_()
        chosen = network.after(maps).logits.gather(1, labels[:, None]).sum()
        [gradient] = torch.autograd.grad(chosen, maps)
    return gradient.mean((2, 3), keepdim=True)


def label_probability(network: Network, maps: Tensor, labels: Tensor) -> Tensor:
    """Return the (B,) probabilities of the true classes."""
    return network.after(maps).logits.float().softmax(1).gather(1, labels[:, None]).squeeze(1)


def mask_largest(scores: Tensor, part: float, rule: Rule = "released") -> Tensor:
    """Return a (B, K) mask that is 0 for the largest scores of each row and 1 elsewhere.

    Args:
        scores: (B, K), scores of cells or channels.
        part: fraction of each row to mask, rounded up; scores tied at the threshold are all kept.
        rule: "domainbed" masks the scores at or above the quantile `1 - part`.

    Example:
        >>> mask_largest(torch.tensor([[3.0, 1.0, 2.0, 4.0]]), 1 / 3)
        tensor([[0., 1., 1., 0.]])
    """
    if rule == "domainbed":
        return (scores < scores.quantile(1 - part, 1, keepdim=True)).to(scores.dtype)
    rank = min(math.ceil(scores.shape[1] * part), scores.shape[1] - 1)
    border = scores.sort(1, descending=True).values[:, rank]
    return (scores <= border[:, None]).to(scores.dtype)


def select_largest(drops: Tensor, share: float, rule: Rule = "released") -> Tensor:
    """Return a (B,) boolean mask of the images with the largest drops.

    Args:
        drops: (B,), drops in the probability of the true class.
        share: fraction of the images, rounded; drops tied at the threshold and drops below 1e-4 are not selected.
        rule: "domainbed" selects the drops at or above the quantile `1 - share`.

    Example:
        >>> select_largest(torch.tensor([0.1, 0.4, -0.2, 0.3]), 0.5)
        tensor([False,  True, False,  True])
    """
    if not len(drops):
        return drops > 0
    if rule == "domainbed":
        return drops >= drops.quantile(1 - share)
    drops = (drops - LEAST).clamp(min=0)
    return drops > drops.sort(descending=True).values[min(round(len(drops) * share), len(drops) - 1)]
