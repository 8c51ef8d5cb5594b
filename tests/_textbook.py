"""The textbook loss by a matrix of all cosines in float64, and the check of a value with all its gradients."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def textbook(features: Tensor, labels: Tensor, gamma: float = 0.5, ignore_index: int = -100) -> Tensor:
    """(1 - s) + gamma * d over all pairs of rows that are not ignored."""
    kept = labels != ignore_index
    unit = F.normalize(features[kept].double(), dim=1)
    cosines, labels = unit @ unit.T, labels[kept]
    same = labels[:, None] == labels
    pairs = same & ~torch.eye(len(labels), dtype=torch.bool)
    s = cosines[pairs].mean() if pairs.any() else cosines.new_zeros(())
    d = cosines[~same].abs().mean() if (~same).any() else cosines.new_zeros(())
    return 1 - s + gamma * d


def expected_loss(model: nn.Module, images: Tensor, labels: Tensor, weight: float = 1.0, gamma: float = 0.5) -> Tensor:
    """Cross-entropy plus the textbook loss of what `model.embed` returns."""
    features = model.embed(images)
    return F.cross_entropy(model.fc(features), labels) + weight * textbook(features, labels, gamma)


def agrees(model: nn.Module, loss: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Both losses and their gradients with respect to every weight are the same."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    torch.testing.assert_close(loss.double(), expected.double(), rtol=tolerance, atol=tolerance)
    ours = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
    theirs = torch.autograd.grad(expected, weights, retain_graph=True, allow_unused=True)
    compared = 0
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one.double(), other.double(), rtol=10 * tolerance, atol=10 * tolerance)
            compared += 1
    assert compared
