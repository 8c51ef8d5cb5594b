"""Adversarial training (Madry et al.), and what its variants share: the inner loop and a two-pass objective."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._ranges import Count, Positive, check_settings
from ..models.modes import evaluation_mode, unwrap
from ..radius import check_radius
from ..types import Batch, Output, TaskShape
from .ascent import Norm, ascend, random_point
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective, SupervisedObjective, is_distributed

Loss = Callable[[Tensor, Batch, Tensor], Tensor]
"""The loss that the attack increases: a sum over images, from the adversarial logits, the batch, the clean logits."""


@dataclass(frozen=True)
class InnerLoop:
    """Projected gradient ascent in every training step, on pixels in [0, 1]."""

    takes_pixels: ClassVar[bool] = True

    eps: Positive = 8 / 255
    """Maximum change of a pixel, or of an image in the l2 norm."""
    step: Positive = 2 / 255
    steps: Count = 10
    random_start: bool = True
    """Start at a random point of the ball; otherwise at the image."""
    norm: Norm = "linf"
    inner: Literal["train", "eval"] = "train"
    """The model's mode in the loop. In "train", batch norm uses the statistics of the perturbed batch and updates its
    running statistics with them, as in the published code."""

    def __post_init__(self) -> None:
        check_settings(self, "method.")
        check_radius(self.eps, self.norm)

    def start(self, images: Tensor) -> Tensor | None:
        """Return the starting point, drawn from the global generator, which the trainer seeds at every step."""
        return random_point(images, self.eps, self.norm) if self.random_start else None

    def attack(self, model: nn.Module, batch: Batch, loss: Loss, *, clean: bool = False) -> Tensor:
        """Return adversarial images; `clean` computes the clean logits once and passes them to the loss."""
        network = unwrap(model)  # without DDP, which would wait for the other processes
        images = batch.images.to(next(network.parameters()).dtype)
        with evaluation_mode(network) if self.inner == "eval" else nullcontext():
            with torch.no_grad():
                logits = network(images).logits if clean else images.new_zeros(())
            return ascend(
                lambda moved: loss(network(moved).logits, batch, logits),
                images,
                eps=self.eps,
                step=self.step,
                steps=self.steps,
                norm=self.norm,
                start=self.start(images),
            )


@dataclass(frozen=True)
class NearInnerLoop(InnerLoop):
    """The loop of MART and TRADES: it starts from normal noise with std 0.001 and runs in evaluation mode."""

    eps: Positive = 0.031
    step: Positive = 0.007
    inner: Literal["train", "eval"] = "eval"

    def start(self, images: Tensor) -> Tensor | None:
        """Return the images with normal noise of std 0.001."""
        return images + 0.001 * torch.randn_like(images) if self.random_start else None


def attack_loss(logits: Tensor, batch: Batch, clean: Tensor) -> Tensor:
    """Return the summed cross-entropy, which most attacks increase."""
    return F.cross_entropy(logits, batch.labels, reduction="sum")


@dataclass(frozen=True)
class TwoPassMethod(NearInnerLoop, AuxiliaryMethod):
    """A method on clean and adversarial images, in separate forward passes; terms use the adversarial images."""

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective; only its auxiliary losses can have parameters."""
        return TwoPassObjective(self, shape)

    def perturb(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return adversarial examples; by default, they increase the cross-entropy."""
        return self.attack(model, batch, attack_loss)

    def losses(self, clean: Output, moved: Output, batch: Batch) -> dict[str, tuple[float, Tensor]]:
        """Return, by name, the weight of a loss and its sum over images."""
        raise NotImplementedError(f"{type(self).__name__} has no losses: define the method in the class.")


class TwoPassObjective(Objective):
    """The objective of a method with two forward passes."""

    def __init__(self, settings: TwoPassMethod, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.settings = settings

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Run both forward passes and compute the losses."""
        with self.autocast():
            images = self.settings.perturb(model, batch)
        clean: Output = model(batch.images)
        # With several processes, DDP overwrites the batch norm buffers before each of its forward passes, while the
        # first pass still needs them for backward: so the second bypasses DDP. Gradients accumulate either way.
        output: Output = (unwrap(model) if is_distributed() else model)(images)
        return Losses(self.settings.losses(clean, output, batch), output, batch)


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

        def perturb(model: nn.Module, batch: Batch) -> Batch:
            return batch._replace(images=self.attack(model, batch, attack_loss))

        return SupervisedObjective(build_terms(self.auxiliary, shape), change=perturb)
