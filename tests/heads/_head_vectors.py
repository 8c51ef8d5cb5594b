"""Features and class vectors to try a head on, answers found another way, and calls yet to be made."""

import os

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

often = settings(max_examples=30, derandomize="CI" in os.environ, deadline=None)
SEEDS = st.integers(0, 2**31)


def batch(seed: int = 0, rows: int = 12, dim: int = 3, classes: int = 7):
    """Features, class vectors and labels in float64; three dimensions hold every angle from 0 to pi."""
    chance = torch.Generator().manual_seed(seed)
    features = 2 * torch.randn(rows, dim, dtype=torch.float64, generator=chance)
    vectors = torch.randn(classes, dim, dtype=torch.float64, generator=chance)
    return features.requires_grad_(), vectors.requires_grad_(), torch.randint(classes, (rows,), generator=chance)


def assert_trains_as(oracle, logits, features, weight, labels):
    """The same loss, and the same gradient to features and class vectors, as a loss of pytorch-metric-learning."""
    oracle.W = nn.Parameter(weight.detach().T.clone())
    theirs = oracle(features, labels)
    ours = F.cross_entropy(logits, labels)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    to_features, to_weight = torch.autograd.grad(theirs, (features, oracle.W))
    got = torch.autograd.grad(ours, (features, weight))
    torch.testing.assert_close(got, (to_features, to_weight.T), rtol=1e-7, atol=1e-9)


def half_squares(features, centers):
    rows = [[((f - c) ** 2).sum() / 2 for c in centers] for f in features]
    return torch.stack([torch.stack(row) for row in rows])


X, Y = torch.randn(4, 5), torch.tensor([0, 1, 2, 8])
SOFT = torch.full((4, 9), 1 / 9)


def call(head, *arguments):
    return lambda: head(*arguments)


def build(kind, **options):
    return lambda: kind(5, num_classes=9, **options)
