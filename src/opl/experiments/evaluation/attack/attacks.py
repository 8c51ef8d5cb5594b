"""FGSM and PGD, and what all attacks share: the pixel classifier, the choice of images, and clean accuracy.

Attacks have no side effects: the model's mode and gradients and the global random state are restored. All randomness
depends only on the settings' seed.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...methods.ascent import ascend, random_point
from ...models.modes import evaluation_mode, frozen_parameters
from ...seeds import Purpose
from ...types import Images
from .settings import Attack

Watch = Callable[[str, int, int], None]


class PixelClassifier(nn.Module):
    """A network as attacks need it: from (B, C, H, W) pixels in [0, 1] to logits.

    Args:
        network: returns `Output`.
        before: applied to the pixels first, for networks that take normalized images.
    """

    def __init__(self, network: nn.Module, before: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.before = network, before or nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.network(self.before(images).contiguous(memory_format=torch.channels_last)).logits
        return logits


def choose_images(part: Images, settings: Attack) -> Tensor:
    """Return the indices of the images to attack within a part, ascending; the same for every network."""
    count = min(settings.images, len(part)) or len(part)
    chance = Purpose.ATTACKED_IMAGES.generator(settings.seed)
    return torch.randperm(len(part), generator=chance)[:count].sort().values


def is_correct(model: nn.Module, images: Tensor, labels: Tensor, batch: int = 250) -> Tensor:
    """Return (N,) bool: whether each image is classified correctly. The model's mode is restored."""
    with evaluation_mode(model), torch.no_grad():
        starts = range(0, len(images), batch)
        answers = [model(images[start : start + batch]).argmax(1) for start in starts]
    return torch.cat([labels[:0], *answers]) == labels


def fgsm(model: nn.Module, images: Tensor, labels: Tensor, settings: Attack) -> Tensor:
    """Take one step of length eps from the original images; return the (N, C, H, W) adversarial images."""
    return _moved(model, images, labels, settings, 1, settings.eps, [None] * len(images))


def pgd(
    model: nn.Module, images: Tensor, labels: Tensor, settings: Attack, numbers: Sequence[int] | None = None
) -> Tensor:
    """Take `settings.steps` steps from a random point in the ball; return the (N, C, H, W) adversarial images.

    Args:
        model: maps pixels in [0, 1] to logits.
        images: (N, C, H, W).
        labels: (N,).
        settings: radius, norm, steps, batch size and seed.
        numbers: seed the random start of each image, together with the settings' seed; by default, its index.
    """
    numbers = range(len(images)) if numbers is None else numbers
    starts = [_somewhere(image[None], settings, number) for image, number in zip(images, numbers, strict=True)]
    return _moved(model, images, labels, settings, settings.steps, settings.stride, starts)


def _moved(
    model: nn.Module, images: Tensor, labels: Tensor, settings: Attack, steps: int, step: float,
    starts: Sequence[Tensor | None],
) -> Tensor:  # fmt: skip
    found = [images[:0]]
    with evaluation_mode(model), frozen_parameters(model):
        for first in range(0, len(images), settings.batch):
            some = slice(first, first + settings.batch)
            truth = labels[some]
            begin = [start for start in starts[some] if start is not None]
            found.append(
                ascend(
                    lambda moved, truth=truth: F.cross_entropy(model(moved), truth, reduction="sum"),  # type: ignore[misc]
                    images[some],
                    eps=settings.eps,
                    step=step,
                    steps=steps,
                    norm=settings.norm,
                    start=torch.cat(begin) if begin else None,
                )
            )
    return torch.cat(found)


def _somewhere(image: Tensor, settings: Attack, number: int) -> Tensor:
    """Draw a random start that does not depend on the other images."""
    chance = Purpose.ATTACK_START.generator(settings.seed, number)
    return random_point(image, settings.eps, settings.norm, chance)
