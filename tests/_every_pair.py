"""Features of a named kind, and the numbers of their geometry by a loop over every pair."""

import math

import pytest
import torch

NUMBERS = ("s", "d", "orthogonality", "expected_orthogonality")


def cosine(a, b):
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def mean(values):
    return math.fsum(values) / len(values) if values else 0.0


def every_pair(features, labels, ignore_index=-100):
    """All numbers by a double loop over the samples, on plain Python floats."""
    rows = [(r, c) for r, c in zip(features.double().tolist(), labels.tolist(), strict=True) if c != ignore_index]
    between = {}
    for i, (a, one) in enumerate(rows):
        for j, (b, two) in enumerate(rows):
            if i != j:
                between.setdefault((one, two), []).append(cosine(a, b))
    classes = sorted({label for _, label in rows})
    expected = {(i, j): mean(between[i, j]) if (i, j) in between else 1.0 for i in classes for j in classes}
    others = [value for (i, j), values in between.items() if i != j for value in values]
    s = mean([value for (i, j), values in between.items() if i == j for value in values])
    eq8 = math.fsum(abs(value - (i == j)) for (i, j), value in expected.items())
    return {
        "s": s,
        "mean": mean(others),
        "d": abs(mean(others)),
        "mean_abs": mean([abs(value) for value in others]),
        "orthogonality": (1 - s) + abs(mean(others)),
        "expected_orthogonality": eq8,
        "mean of Eq. 8": eq8 / len(expected) if expected else 0.0,
        "matrix": expected,
    }


def numbers(geometry):
    values = (geometry.same, geometry.other(), geometry.orthogonality(), geometry.expected_orthogonality())
    return dict(zip(NUMBERS, values, strict=True))


def exactly(expected, tolerance=1e-10):
    return pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True)


def some(kind, rows=24, dim=5, classes=4, seed=0):
    """Features and labels of a named kind, in float64."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (rows,), generator=generator)
    if kind == "without a negative":
        features = features.relu()
    if kind == "zero rows":
        features[::4] = 0
    if kind == "a singleton and an absent class":
        labels = labels.clamp(max=1)
        labels[5] = 3
    if kind == "only singletons":
        features, labels = features[:6], torch.arange(6)
    if kind == "opposed classes":
        labels = labels % 2
        features[:, 0] += 4 * labels - 2
    if kind == "one class":
        labels = torch.full_like(labels, 2)
    if kind == "one sample":
        features, labels = features[:1], labels[:1]
    return features, labels


KINDS = (
    "signed",
    "without a negative",
    "zero rows",
    "a singleton and an absent class",
    "only singletons",
    "opposed classes",
    "one class",
    "one sample",
)


def uneven_halves():
    features, labels = some("signed")
    return [(features[:9], labels[:9]), (features[9:].abs(), labels[9:])]


def whole():
    return [torch.cat(parts) for parts in zip(*uneven_halves(), strict=True)]
