"""The weights of domains in an episode, fitted on its support set, and nearest centroids by cosine.

An image is represented by the unit features of all domains, each multiplied by the weight of its domain, one after the
other. The cosine between an image and a class centroid therefore needs only, for each domain, the inner products of
unit features and centroids and the squared lengths of the centroids. These are computed once per episode; the steps of
the fit do not depend on the number of features, and many episodes are fitted together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ....errors import FeatureError

NUMBERS = 1 << 19  # of the inner products that are worked on together; more do not fit into a processor's cache


class DomainProducts(NamedTuple):
    """What the cosines between images and class centroids are made of, for each of K domains."""

    inner: Tensor
    """(K, n, C): inner products of unit features and centroids."""
    squares: Tensor
    """(K, C): squared lengths of the centroids."""
    present: Tensor
    """(K, n): 1 where an image has a feature; 0 where it is zero and has no direction."""


class SupportSet(NamedTuple):
    """The support set of an episode: its products, its labels and the number of classes."""

    products: DomainProducts
    labels: Tensor
    way: int


def centroids_of(features: Tensor, labels: Tensor, way: int) -> Tensor:
    """Return (K, C, D), the mean unit feature of each class in each domain, from features (K, n, D)."""
    members = F.one_hot(labels, way).T.to(features.dtype)
    return torch.einsum("cn,knd->kcd", members / members.sum(1, keepdim=True), unit(features))


def products_of(features: Tensor, centroids: Tensor) -> DomainProducts:
    """Return the products of features (K, n, D) with centroids (K, C, D)."""
    directions = unit(features)
    inner = torch.einsum("knd,kcd->knc", directions, centroids)
    return DomainProducts(inner.double(), centroids.double().square().sum(2), directions.any(2).double())


def unit(features: Tensor) -> Tensor:
    """Divide features (..., D) by their lengths; zeros stay zeros."""
    return F.normalize(features.float(), dim=-1)


def cosines(weights: Tensor, products: DomainProducts) -> Tensor:
    """Return (..., n, C): cosines between images and centroids, of which domain k counts `weights[..., k]`.

    Example:
        >>> features = torch.eye(2)[None]
        >>> products = products_of(features, centroids_of(features, torch.tensor([0, 1]), 2))
        >>> cosines(torch.tensor([0.5], dtype=torch.float64), products)
        tensor([[1., 0.],
                [0., 1.]], dtype=torch.float64)
    """
    inner, squares, present = products
    shares = weights.square()
    top = torch.einsum("...k,...knc->...nc", shares, inner)
    images = torch.einsum("...k,...kn->...n", shares, present)
    centroids = torch.einsum("...k,...kc->...c", shares, squares)
    return top * _inverse_root(images)[..., :, None] * _inverse_root(centroids)[..., None, :]


def _inverse_root(squares: Tensor) -> Tensor:
    """The inverse of lengths, from their squares; 0 for a length of 0."""
    return torch.where(squares > 0, torch.where(squares > 0, squares, 1.0).rsqrt(), 0.0)


def fit_weights(support: Sequence[SupportSet], *, steps: int = 40, rate: float = 3000.0, scale: float = 10.0) -> Tensor:
    """Return (E, K): the weights of K domains in each of E episodes, from 0 to 1.

    In each episode, the cross-entropy of `scale` times the cosines between support images and centroids is minimized
    over K numbers, whose sigmoids are the weights, by Adadelta with a learning rate of `rate` divided by the number of
    classes, starting at 0.

    Args:
        support: the support set of each episode.
        steps: number of steps.
        rate: learning rate of an episode times its number of classes.
        scale: factor of the cosines.
    """
    logits = [torch.zeros(len(each.products.inner), dtype=torch.float64, requires_grad=True) for each in support]
    if not support:
        return torch.zeros(0, 0)
    if not steps or len(logits[0]) == 1:  # the weight of a single domain changes no cosine
        return torch.stack(logits).detach().sigmoid()
    groups = [{"params": [each], "lr": rate / episode.way} for each, episode in zip(logits, support, strict=True)]
    optimizer = torch.optim.Adadelta(groups)
    padded = _pad(support)
    with torch.enable_grad():
        for _ in range(steps):
            optimizer.zero_grad()
            torch.autograd.backward(_loss(torch.stack(logits).sigmoid(), padded, scale))
            optimizer.step()
    found = torch.stack(logits).detach().sigmoid()
    if not found.isfinite().all():
        raise FeatureError("the weights of the domains are not finite: look at the networks that made the features.")
    return found


class _Padded(NamedTuple):
    products: DomainProducts
    labels: Tensor
    """(E, n); -100 where an episode has fewer images."""
    ways: Tensor
    """(E, C): whether a class exists in the episode."""


def _pad(support: Sequence[SupportSet]) -> _Padded:
    """Stack episodes of different sizes."""
    images = max(len(each.labels) for each in support)
    way = max(each.way for each in support)
    inner, squares, present, labels, ways = [], [], [], [], []
    for each in support:
        more, left = images - len(each.labels), way - each.way
        inner.append(F.pad(each.products.inner, (0, left, 0, more)))
        squares.append(F.pad(each.products.squares, (0, left)))
        present.append(F.pad(each.products.present, (0, more)))
        labels.append(F.pad(each.labels, (0, more), value=-100))
        ways.append(torch.arange(way) < each.way)
    products = DomainProducts(torch.stack(inner), torch.stack(squares), torch.stack(present))
    return _Padded(products, torch.stack(labels), torch.stack(ways))


def _loss(weights: Tensor, padded: _Padded, scale: float) -> Tensor:
    """The sum over episodes of their mean cross-entropy."""
    logits = (scale * cosines(weights, padded.products)).masked_fill(~padded.ways[:, None], -torch.inf)
    each = F.cross_entropy(logits.flatten(0, 1), padded.labels.flatten(), reduction="none", ignore_index=-100)
    there = padded.labels != -100
    return (torch.where(there, each.view_as(padded.labels), 0.0).sum(1) / there.sum(1)).sum()
