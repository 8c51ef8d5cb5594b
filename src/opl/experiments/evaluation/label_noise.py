"""What became of wrong labels: whether a network learned them, and whether its loss tells them from right ones."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ...losses.truncated import cross_entropies
from ..types import Batch


@torch.no_grad()
def label_noise(model: nn.Module, batches: Iterable[Batch], true: Tensor) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Shares in per cent, and what they were made of: each image's cross-entropy and the class that it is taken for.

    `noise/fitted`: of the right labels, those that the network gives too. `noise/memorized`: of the wrong labels, the
    same. `noise/recovered`: of the images with a wrong label, those that are taken for what they are. `noise/told`: how
    often a wrong label has a larger cross-entropy than a right one (the area under the ROC curve; 50 is chance). What
    has no image to be a share of is left out.

    Args:
        model: returns `Output`; it is put into evaluation mode and back.
        batches: the training images, plain, with the labels that they were given.
        true: (N,) the labels that they had before.
    """
    was_training = model.training
    model.eval()
    predicted, entropy, given = torch.empty_like(true), torch.empty(len(true)), torch.empty_like(true)
    for batch in batches:
        logits = model(batch.images).logits.float()
        rows = batch.rows.cpu()
        predicted[rows], given[rows] = logits.argmax(1).cpu(), batch.labels.cpu()
        entropy[rows] = cross_entropies(logits, batch.labels).cpu()
    model.train(was_training)
    wrong = given != true
    shares = {
        "noise/fitted": (predicted == given)[~wrong],
        "noise/memorized": (predicted == given)[wrong],
        "noise/recovered": (predicted == true)[wrong],
    }
    numbers = {name: 100 * float(share.double().mean()) for name, share in shares.items() if len(share)}
    if wrong.any() and not wrong.all():
        numbers["noise/told"] = 100 * probability_larger(entropy[wrong], entropy[~wrong])
    return numbers, {"predicted": predicted, "entropy": entropy}


def probability_larger(these: Tensor, those: Tensor) -> float:
    """How often one of these is larger than one of those, over all pairs; equal ones count half.

    Example:
        >>> larger(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 2.0]))
        0.625
    """
    order = those.double().sort().values
    below = torch.searchsorted(order, these.double()).double()
    up_to = torch.searchsorted(order, these.double(), right=True).double()
    return float(((below + up_to) / 2).mean() / len(order))
