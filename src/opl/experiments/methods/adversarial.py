"""Adversarial training (Madry et al.): cross-entropy on adversarial examples only."""

from dataclasses import dataclass

from torch import nn

from ..types import Batch, TaskShape
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective, SupervisedObjective
from .inner_loop import InnerLoop, attack_loss


@dataclass(frozen=True)
class AdversarialTraining(InnerLoop, AuxiliaryMethod):
    """Perturb every image to increase its cross-entropy, then train on the perturbed images only.

    Auxiliary losses such as OPL use the features of the perturbed images and do not influence the perturbation. In a
    recipe that inherits the weights of an adversarially trained network, this is the fine-tuning of Hendrycks et al.

    Example:
        >>> from opl.experiments.methods import OPL
        >>> method = AdversarialTraining(eps=8 / 255, step=2 / 255, steps=10, auxiliary=(OPL(),))
    """

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; only its auxiliary losses can have parameters."""
        return AdversarialObjective(self, shape)


class AdversarialObjective(SupervisedObjective):
    """Cross-entropy and auxiliary losses of the adversarial batch."""

    def __init__(self, settings: AdversarialTraining, shape: TaskShape) -> None:
        super().__init__(nn.CrossEntropyLoss(reduction="sum"), terms=build_terms(settings.auxiliary, shape))
        self.settings = settings

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Compute the criterion on the adversarial images."""
        return super().losses(model, batch._replace(images=self.settings.attack(model, batch, attack_loss)))
