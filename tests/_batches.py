"""Batches of the loss with all that can be odd in them, and the algorithms that accept them."""

import torch
from hypothesis import strategies as st

from opl._kernels.validate import scale_rows

FORMS = ("mean_abs", "abs_mean", "mean", "squared")


@st.composite
def batches(draw):
    """Small batches with zero rows, copies, extreme norms, ignored rows, soft and multiple labels."""
    rows, dim, classes = draw(st.integers(1, 9)), draw(st.integers(1, 5)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 2**31))
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, dim, dtype=torch.float64, generator=generator)
    if draw(st.booleans()):
        features = features.abs()
    for row in range(rows):
        kind = draw(st.sampled_from(["plain"] * 6 + ["zero", "copy", "huge", "tiny", "sparse"]))
        if kind == "zero":
            features[row] = 0
        elif kind == "copy":
            features[row] = features[0]
        elif kind in ("huge", "tiny"):
            features[row] *= 1e18 if kind == "huge" else 1e-18
        elif kind == "sparse":
            features[row, torch.rand(dim, generator=generator) < 0.5] = 0
    kind_of_labels = draw(st.sampled_from(["hard", "hard", "soft", "several"]))
    columns = max(2, classes)  # a single column of floats is refused
    if kind_of_labels == "hard":
        labels = torch.randint(0, classes, (rows,), generator=generator)
        if draw(st.booleans()):
            labels = torch.arange(rows) * 1000  # all singletons, and ids that are not 0..C-1
    elif kind_of_labels == "several":
        labels = (torch.rand(rows, columns, generator=generator) < 0.5).double()
    else:
        labels = torch.rand(rows, columns, dtype=torch.float64, generator=generator) + 1e-3
        labels[torch.rand(labels.shape, generator=generator) < 0.3] = 0
        labels[:, 0] += labels.sum(1) == 0
        labels /= labels.sum(1, keepdim=True)
    for row in range(rows):
        if draw(st.integers(0, 7)) == 0:
            labels[row] = -100
    return features, labels


def by_class_sums(algorithm, features, labels):
    """Where a cosine is exactly 0, |cos| has no derivative: class sums take that of cos, the others 0."""
    return algorithm == "class_sums" or (algorithm == "tiled" and labels.ndim == 1 and bool((features >= 0).all()))


def algorithms_for(features, labels, form):
    linear = form in ("mean", "abs_mean") or (form == "mean_abs" and bool((features >= 0).all()))
    if labels.ndim == 2:  # class sums need rows enough for each class, and pairs of both kinds
        kept = scale_rows(labels[labels[:, 0] != -100], None)
        linear &= len(kept) >= 2 * labels.shape[1] and bool(kept.sum(0).square().sum() < 0.99 * len(kept) ** 2)
    return ["auto", "pairs", "tiled"] + ["class_sums"] * linear
