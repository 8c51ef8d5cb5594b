"""Adversarial examples by gradient ascent on a loss, inside a ball around the images and inside [0, 1].

Used by both training and evaluation. There are no side effects: the images and the gradients of the parameters are
unchanged.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ...errors import OptionError

Norm = Literal["linf", "l2"]


def ascend(
    loss: Callable[[Tensor], Tensor],
    images: Tensor,
    *,
    eps: float,
    step: float,
    steps: int,
    norm: Norm = "linf",
    start: Tensor | None = None,
) -> Tensor:
    """Run projected gradient ascent (PGD): `steps` steps of size `step` that increase the loss.

    Only the gradient for the images is computed, so the gradients of the parameters do not change.

    Args:
        loss: a function from perturbed images to a scalar; a sum over images, so that every image follows its loss.
        images: (B, C, H, W) in [0, 1]; not modified.
        eps: the radius of the ball.
        step: the step size, in the same norm.
        steps: the number of steps; 0 returns the start.
        norm: "linf" moves every pixel by `step` along the sign of its gradient; "l2" along the image's unit gradient.
        start: the starting point, projected into the ball first; by default the images.

    Example:
        >>> moved = ascend(lambda x: x.sum(), torch.full((1, 1, 2, 2), 0.5), eps=0.1, step=0.04, steps=3)
        >>> moved[0, 0, 0]
        tensor([0.6000, 0.6000])
    """
    check_pixels(images)
    low, high = (images - eps).clamp_(min=0), (images + eps).clamp_(max=1)

    def project(moved: Tensor) -> Tensor:
        return moved.clamp(low, high) if norm == "linf" else _into_sphere(moved, images, eps)

    direction = torch.sign if norm == "linf" else _unit
    moved = images.detach().clone() if start is None else project(start.detach())
    for _ in range(steps):
        at = moved.detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(loss(at), at)
        moved = project(direction(gradient).mul_(step).add_(at.detach()))
    return moved


def random_point(images: Tensor, eps: float, norm: Norm = "linf", generator: torch.Generator | None = None) -> Tensor:
    """Return a uniformly random point of the ball around each image; it may leave [0, 1] until `ascend` projects it.

    Args:
        images: (B, C, H, W).
        eps: the radius of the ball.
        norm: the norm of the ball.
        generator: random generator; by default PyTorch's global one, as in dropout.
    """
    if norm == "linf":
        return images + eps * (2 * _draw(torch.rand, images, generator) - 1)
    radius = _draw(torch.rand, images[:, :1, :1, :1], generator) ** (1 / images[0].numel()) if len(images) else 0.0
    return images + eps * radius * _unit(_draw(torch.randn, images, generator))


def check_pixels(images: Tensor) -> None:
    """Raise `OptionError` if images are outside [0, 1]; checked only on the CPU, to avoid a synchronization."""
    if images.device.type != "cpu" or not images.numel():
        return
    low, high = (float(value) for value in torch.aminmax(images))
    if low < 0 or high > 1:
        raise OptionError(
            f"the pixels range from {low:.3g} to {high:.3g}, but attacks need pixels in [0, 1]: put the normalization "
            "inside the model (normalize='model' in a recipe), and pass images without normalization."
        )


def _draw(distribution: Callable[..., Tensor], like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw on the generator's device, which may differ from the device of the images."""
    device = generator.device if generator is not None else like.device
    return distribution(like.shape, generator=generator, dtype=like.dtype, device=device).to(like.device)


def _unit(vectors: Tensor) -> Tensor:
    """Divide each image by its norm; a zero image stays zero."""
    return vectors / _lengths(vectors).clamp(min=torch.finfo(vectors.dtype).tiny)


def _into_sphere(moved: Tensor, images: Tensor, eps: float) -> Tensor:
    """Project onto the ball along the radius, then clamp to [0, 1]; this never moves away from an image in [0, 1]."""
    delta = moved - images
    return (images + delta * (eps / _lengths(delta).clamp(min=eps))).clamp_(0, 1)


def _lengths(vectors: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=(1, 2, 3), keepdim=True)
    return lengths
