"""OLE: nuclear norms that make each class low-rank and different classes orthogonal."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .._kernels.normalize import accumulation_dtype, full_precision, outside_graphs
from .._kernels.tiled import first_derivative_only
from .._kernels.validate import as_integers, as_vectors, check_ignore_index, is_number, kept_rows
from ..errors import FeatureError, LabelError, OptionError
from ..functional import IGNORE_INDEX

DELTA = 1.0
THRESHOLD = 1e-6

FIRST_DERIVATIVE_ONLY = (
    "OLE has a first derivative only: leave it out of a gradient penalty, or detach the gradient first."
)


@outside_graphs
def ole(
    features: Tensor,
    labels: Tensor,
    *,
    delta: float = DELTA,
    threshold: float = THRESHOLD,
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the nuclear norms of the classes minus that of the batch: `(sum_c max(delta, |F_c|_*) - |F|_*) / B`.

    OLE: Orthogonal Low-rank Embedding, A Plug and Play Geometric Loss for Deep Learning (Lezama et al., CVPR 2018).
    F is the (B, D) matrix of unnormalized features, F_c its rows of class c; `|.|_*` is the sum of the singular values.
    The minimum is reached if each class spans few directions and no two classes share one.

    The gradient is that of the paper: `U V^T` over the singular values of at least `threshold`, and 0 for a class whose
    norm is at most `delta`. Directions that contain no feature get no gradient, which autograd through the SVD would
    not guarantee. The weight of the loss is applied outside, as for any other loss. Only the first derivative is
    available. `torch.compile` does not compile this function (graph break), and on an accelerator it synchronizes to
    read the labels. There is no `reduction`: a nuclear norm belongs to a class or the batch, not to a sample.

    Args:
        features: (B, D), any floating dtype; the singular values are computed in fp64.
        labels: (B,) class ids, any integers from 0 up.
        delta: nuclear norm below which a class is not reduced further.
        threshold: singular values below it count as 0 in the gradient.
        ignore_index: rows with this label are excluded, also from B.

    Example:
        >>> apart, alike = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[2.0, 0.0], [3.0, 0.0]])
        >>> ole(apart, torch.tensor([0, 1])), ole(alike, torch.tensor([0, 1]))
        (tensor(0.), tensor(0.6972))
    """
    _check_options(delta, threshold)
    features = as_vectors(features)
    features, labels = _counted_rows(features, labels, ignore_index)
    if not bool(features.isfinite().all()):
        raise FeatureError(
            "the features contain NaN or infinite values, so they have no singular values: lower the learning rate, "
            "clip gradients, or check the batch before the loss."
        )
    value: Tensor = _OLE.apply(features, labels, float(delta), float(threshold))  # type: ignore[no-untyped-call]
    return value


class OLELoss(nn.Module):
    """Orthogonal low-rank embedding loss of a batch of features: see `ole`.

    Args:
        delta: nuclear norm below which a class is not reduced further.
        threshold: singular values below it count as 0 in the gradient.
        ignore_index: rows with this label are excluded.

    Example:
        >>> loss = OLELoss()
        >>> features, labels, logits = torch.randn(8, 64), torch.arange(8), torch.randn(8, 10)
        >>> total = F.cross_entropy(logits, labels) + 0.25 * loss(features, labels)
    """

    def __init__(self, *, delta: float = DELTA, threshold: float = THRESHOLD, ignore_index: int = IGNORE_INDEX) -> None:
        super().__init__()
        _check_options(delta, threshold)
        check_ignore_index(ignore_index)
        self.delta, self.threshold, self.ignore_index = delta, threshold, ignore_index

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        loss: Tensor = ole(features, labels, delta=self.delta, threshold=self.threshold, ignore_index=self.ignore_index)
        return loss

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"delta={self.delta}, threshold={self.threshold}"


class _OLE(torch.autograd.Function):
    """Computes the gradient in `forward`, where the singular vectors are available; `backward` only scales it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, labels: Tensor, delta: float, threshold: float) -> Tensor:
        with full_precision(x):
            value, gradient = _value_and_gradient(x.to(accumulation_dtype(x)), labels, delta, threshold)
        ctx.save_for_backward(x, gradient.to(x.dtype))
        return value.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        x, gradient = ctx.saved_tensors
        return first_derivative_only(incoming * gradient, x, FIRST_DERIVATIVE_ONLY), None, None, None


def _value_and_gradient(x: Tensor, labels: Tensor, delta: float, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient for `x`; classes of equal size are decomposed in one batch, without padding."""
    rows, dim = x.shape
    norms, pulls = _nuclear_norms(x[None], threshold)
    value, gradient = -norms.sum(), -pulls[0]
    _, ids, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    by_class = ids.argsort(stable=True)  # rows grouped by class
    class_sizes = counts[ids[by_class]]
    for size in torch.unique(counts).tolist():
        chosen = by_class[class_sizes == size]
        norms, pulls = _nuclear_norms(x[chosen].view(-1, size, dim), threshold)
        value += norms.clamp(min=delta).sum()
        gradient[chosen] += (pulls * (norms > delta)[:, None, None]).view(-1, dim)
    return value / max(1, rows), gradient / max(1, rows)


def _nuclear_norms(blocks: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Return the (G,) nuclear norms of (G, n, D) blocks, and the (G, n, D) gradients of these norms."""
    if blocks.shape[1] == 1:  # the only singular value of a row is its norm
        norms = torch.linalg.vector_norm(blocks, dim=(1, 2))
        directions = blocks / norms.clamp(min=threshold)[:, None, None]
        return norms, directions * (norms >= threshold)[:, None, None]
    left, values, right = torch.linalg.svd(blocks, full_matrices=False)
    return values.sum(1), (left * (values >= threshold)[:, None, :]) @ right


def _counted_rows(features: Tensor, labels: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Return the features and class ids of the rows that are not ignored."""
    labels = as_integers(labels, features)
    kept = kept_rows(labels, features, ignore_index)
    if kept is not None:
        features, labels = features[kept], labels[kept]
    if len(labels) and int(labels.min()) < 0:
        raise LabelError(
            f"label {int(labels.min())} is negative: number classes from 0 and label excluded rows ignore_index "
            f"({ignore_index})."
        )
    return features, labels


def _check_options(delta: float, threshold: float) -> None:
    if not is_number(delta) or not math.isfinite(delta) or delta < 0:
        raise OptionError(f"delta is {delta!r} but must be a finite number of at least 0, such as 1 (the paper).")
    if not is_number(threshold) or not math.isfinite(threshold) or threshold <= 0:
        raise OptionError(f"threshold is {threshold!r} but must be a finite number above 0, such as 1e-6.")
