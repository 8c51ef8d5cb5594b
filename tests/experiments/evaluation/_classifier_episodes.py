"""Episodes of features for the tests of classifiers."""

import pytest
import torch
from torch.nn import functional as F

from opl.experiments.evaluation.classifiers import CLASSIFIERS

DIM = 24
KINDS = (torch.float32, torch.float64)


def episodes(count=6, way=5, shots=5, copies=1, queries=15, dim=DIM, scale=1.0, kind=torch.float64, seed=0):
    """Pooled ReLU features of length `scale`, of classes that overlap; copies are jittered."""
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(*shape, dim, generator=chance, dtype=torch.float64)

    means = 0.5 + 0.6 * noise(count, way, 1)
    images = means + noise(count, way, shots)
    support = images[:, :, :, None] + 0.4 * noise(count, way, shots, copies)
    questions = means + noise(count, way, queries)
    support, questions = (scale * F.normalize(x.relu(), dim=-1).to(kind) for x in (support, questions))
    labels = torch.arange(way).repeat_interleave(shots * copies)
    return support.reshape(count, -1, dim), labels, questions.reshape(count, -1, dim), way


def each_of(support, labels):
    return zip(support.double().numpy(), labels.expand(len(support), -1).numpy(), strict=True)


ALL = pytest.mark.parametrize("name", CLASSIFIERS)
