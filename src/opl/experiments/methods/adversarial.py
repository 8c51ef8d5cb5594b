"""Adversarial training of Madry et al.: cross-entropy of adversarial examples alone."""

from dataclasses import dataclass

from torch import nn

from ..types import Batch, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective, SupervisedObjective
from .inner_loop import InnerLoop, attack_loss


@dataclass(frozen=True)
class AdversarialTraining(InnerLoop, AuxiliaryMethod):
    """Every image is moved up its cross-entropy, then the network learns from the moved images, and from no others.

    Auxiliary losses, OPL for instance, see the features of the moved images and take no part in moving them. On a
    recipe that inherits the weights of an adversarially trained network, it is the fine-tuning of Hendrycks et al.

    Example:
        >>> from opl.experiments.methods import OPL
        >>> method = AdversarialTraining(eps=8 / 255, step=2 / 255, steps=10, auxiliary=(OPL(),))
    """

    def build(self, shape: TaskShape) -> Objective:
        """The objective; it has no parameters of its own."""
        return AdversarialObjective(self, shape)


class AdversarialObjective(SupervisedObjective):
    """The objective of the moved batch."""

    def __init__(self, settings: AdversarialTraining, shape: TaskShape) -> None:
        super().__init__(nn.CrossEntropyLoss(reduction="sum"), terms=build_terms(settings.auxiliary, shape))
        self.settings = settings

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """The criterion of the moved images."""
        return super().losses(model, batch._replace(images=self.settings.attack(model, batch, attack_loss)))
