"""The weights of domains, against a plain loop over concatenated features; the informative domain gets them."""

import pytest
import torch
from torch.nn import functional as F

from opl.errors import FeatureError
from opl.experiments.evaluation.selection.weights import (
    SupportSet,
    centroids_of,
    cosines,
    fit_weights,
    products_of,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def episode(seed, way=6, domains=3, good=1, dim=48, clear=0.3):
    """Features (K, n, D), labels and ways: domain `good` separates the classes, the others are noise."""
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(way).repeat_interleave(torch.randint(1, 8, (way,), generator=chance))
    features = torch.randn(domains, len(labels), dim, generator=chance).abs()
    features[good] = 2 * torch.randn(way, dim, generator=chance).abs()[labels] + clear * features[good]
    return features, labels, way


def support_set(features, labels, way):
    return SupportSet(products_of(features, centroids_of(features, labels, way)), labels, way)


def by_definition(features, labels, way, steps=40):
    """SUR as it is described: one episode, concatenated features, torch's optimizer, cosine similarities."""
    units = [F.normalize(each.double(), dim=1) for each in features]
    numbers = torch.zeros(len(units), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adadelta([numbers], lr=3000 / way)
    for _ in range(steps):
        optimizer.zero_grad()
        together = torch.cat([weight * each for weight, each in zip(numbers.sigmoid(), units, strict=True)], dim=1)
        centroids = torch.stack([together[labels == number].mean(0) for number in range(way)])
        cosine = F.normalize(together, dim=1) @ F.normalize(centroids, dim=1).T
        F.cross_entropy(10 * cosine, labels).backward()
        optimizer.step()
    return numbers.detach().sigmoid()


def test_many_episodes_of_different_sizes_have_the_weights_of_a_plain_loop():
    episodes = [episode(seed, way=5 + 3 * seed, good=seed % 3) for seed in range(5)]
    found = fit_weights([support_set(*each) for each in episodes])
    expected = torch.stack([by_definition(*each) for each in episodes])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)
    alone = torch.cat([fit_weights([support_set(*each)]) for each in episodes])
    torch.testing.assert_close(found, alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("domains", [3, 8])
def test_nine_tenths_of_the_weight_are_on_the_informative_domain(domains):
    episodes = [episode(seed, way=5 + seed % 4, domains=domains, good=seed % domains) for seed in range(24)]
    found = fit_weights([support_set(*each) for each in episodes])
    informative = torch.arange(24) % domains
    counted = found.square() / found.square().sum(1, keepdim=True)  # a weight enters cosines as its square
    assert counted[torch.arange(24), informative].min() >= 0.9
    shares = found / found.sum(1, keepdim=True)
    assert shares[torch.arange(24), informative].min() >= (0.9 if domains == 3 else 0.8)  # seven others keep 0.02 each


def test_without_steps_all_domains_count_the_same():
    found = fit_weights([support_set(*episode(0)), support_set(*episode(1))], steps=0)
    assert torch.equal(found, torch.full((2, 3), 0.5, dtype=torch.float64))


def test_cosines_are_those_of_concatenated_features():
    features, labels, way = episode(3)
    weights = torch.tensor([0.2, 0.9, 0.05], dtype=torch.float64)
    queries = torch.randn(3, 7, 48).abs()
    found = cosines(weights, products_of(queries, centroids_of(features, labels, way)))
    support, asked = (
        torch.cat([w * F.normalize(each.double(), dim=1) for w, each in zip(weights, part, strict=True)], dim=1)
        for part in (features, queries)
    )
    centroids = torch.stack([support[labels == number].mean(0) for number in range(way)])
    expected = F.cosine_similarity(asked[:, None], centroids[None], dim=2)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_a_feature_of_zeros_has_no_direction_and_does_no_harm():
    features, labels, way = episode(4)
    features[0] = 0
    features[2, 0] = 0
    found = fit_weights([support_set(features, labels, way)])
    assert found.isfinite().all()
    assert found[0, 1] > 0.5
    everything = torch.zeros_like(features)
    scores = cosines(found[0], products_of(everything, centroids_of(everything, labels, way)))
    assert (scores == 0).all()


def test_features_that_are_not_finite_are_refused():
    features, labels, way = episode(5)
    features[1, 2, 3] = torch.nan
    with pytest.raises(FeatureError, match="not finite"):
        fit_weights([support_set(features, labels, way)])
