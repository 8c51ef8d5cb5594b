"""The inner loop of adversarial training: settings that its methods share, and objectives of what it makes."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..._support.arguments import check_positive
from ...errors import OptionError
from ..models.modes import evaluation_mode, unwrap
from ..radius import check_radius
from ..types import Batch, Output, TaskShape
from .ascent import Norm, ascend, random_start
from .auxiliaries import AuxiliaryMethod, build_terms
from .base import Losses, Objective
from .terms import is_distributed

Loss = Callable[[Tensor, Batch, Tensor], Tensor]
"""What the attack raises: a sum over images, from the logits of moved images, the batch, and the clean logits."""


@dataclass(frozen=True)
class InnerLoop:
    """Projected gradient ascent at every training step. Images are pixels in [0, 1]."""

    takes_pixels: ClassVar[bool] = True

    eps: float = 8 / 255
    """How far a pixel (or with norm l2 an image) may move."""
    step: float = 2 / 255
    steps: int = 10
    random_start: bool = True
    """Start somewhere in the ball; otherwise at the image."""
    norm: Norm = "linf"
    inner: Literal["train", "eval"] = "train"
    """The model's mode in the loop. In "train" batch norm takes the statistics of the moving batch, and remembers
    them, as the published code does."""

    def __post_init__(self) -> None:
        check_radius(self.eps, self.norm)
        check_positive("step", self.step)
        if self.steps < 1:
            raise OptionError(f"steps is {self.steps}: give a whole number of at least 1.")

    def start(self, images: Tensor) -> Tensor | None:
        """Where the loop begins; chance is the global generator's, which the trainer seeds at every step."""
        return random_start(images, self.eps, self.norm) if self.random_start else None

    def attack(self, model: nn.Module, batch: Batch, loss: Loss, *, clean: bool = False) -> Tensor:
        """The moved images; `clean` if the loss looks at the clean logits too, which are taken once."""
        network = unwrap(model)  # no engine around it: this is no training step, and other processes need not wait
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
    """The loop of MART and TRADES: from a normal cloud of deviation 0.001, in evaluation mode."""

    eps: float = 0.031
    step: float = 0.007
    inner: Literal["train", "eval"] = "eval"

    def start(self, images: Tensor) -> Tensor | None:
        """Hardly away from the images."""
        return images + 0.001 * torch.randn_like(images) if self.random_start else None


def attack_loss(logits: Tensor, batch: Batch, clean: Tensor) -> Tensor:
    """Cross-entropy, summed: what most attacks raise."""
    return F.cross_entropy(logits, batch.labels, reduction="sum")


class TwoPassObjective(Objective):
    """An objective of clean and of moved images, each in a pass of its own; terms see the moved ones."""

    def __init__(self, settings: AuxiliaryMethod, shape: TaskShape) -> None:
        super().__init__(build_terms(settings.auxiliary, shape))
        self.settings = settings

    def two_pass_losses(self, clean: Output, moved: Output, batch: Batch) -> dict[str, tuple[float, Tensor]]:
        """By name, a weight and a sum over images."""
        raise NotImplementedError(f"{type(self).__name__} has no two_pass_losses: define the method in the class.")

    def perturb(self, model: nn.Module, batch: Batch) -> Tensor:
        """The adversarial examples."""
        raise NotImplementedError(f"{type(self).__name__} has no perturb: define the method in the class.")

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Both passes, and what is computed of them."""
        images = self.perturb(model, batch)
        clean: Output = model(batch.images)
        # Among several processes DDP overwrites batch norm's buffers before each of its passes, and the first pass
        # still waits for its backward: so the second goes around it. Gradients meet in the parameters either way.
        output: Output = (unwrap(model) if is_distributed() else model)(images)
        return Losses(self.two_pass_losses(clean, output, batch), output, batch)
