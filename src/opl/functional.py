"""The Orthogonal Projection Loss as a pure function of features and labels.

Every cosine is between two different samples; s is the mean over same-class pairs, d over the others, and

    loss = (1 - s) + gamma * d.

**The algorithm** (`algorithm="auto"`, inspect it with `select_algorithm`). All algorithms give the same number.

| algorithm | cost | taken for |
|---|---|---|
| `"class_sums"` | O(B*D) | `form="mean"`, `"abs_mean"`; `"mean_abs"` of features that are not negative: cos = |cos| |
| `"pairs"` | one B x B product | signed features with `"mean_abs"`, up to 1,024 rows; tiny batches (B*B*D to 2e6) |
| `"tiled"` | its time, O(B*D) memory | signed features with `"mean_abs"`, more rows |

Pooled ReLU features are never negative. Soft labels take class sums from twice as many rows as classes.
On the CPU the sign of the features and the values of the labels are looked at, which costs next to nothing. On an
accelerator a look at values would wait for the device, so up to 2,048 rows `"pairs"` is taken unseen, and only beyond
are the classes counted and the signs read. Under `torch.compile` the same limit separates traced pairs from one opaque
operator. `torch.func` transforms always see the plain operations of `"pairs"`.

**Edges.** A zero feature has no direction: its cosines are 0 and it gets no gradient. A mean over no pairs is 0: a
batch of one class has d = 0; of singletons, s = 0; of one sample, or none after `ignore_index`, loss 1, no gradient.
Where a cosine is exactly 0, |cos| has no derivative: pairs and tiles take 0, class sums that of cos. The two differ
only in numbers that are 0 in a non-negative feature, where a ReLU lets no gradient through.
Values that cannot be used (NaN, negative labels, soft rows that do not sum to 1) are refused on the CPU; on an
accelerator looking would cost a synchronization, so there a NaN feature makes a NaN loss.
"""

import math
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ._kernels.class_sums import class_sums
from ._kernels.classes import Classes, Soft, classes_of, sums_are_exact
from ._kernels.normalize import full_precision, is_traced
from ._kernels.pairs import fast_pairs, pairs
from ._kernels.tiled import tiled
from ._kernels.validate import READ_FROM, ValidBatch, may_read_values, validate
from .errors import OptionError, did_you_mean

Form = Literal["mean_abs", "abs_mean", "mean"]
Algorithm = Literal["auto", "pairs", "class_sums", "tiled"]

WEIGHT = 1.0  # the paper's lambda, of OPL against the criterion
GAMMA = 0.5  # of d against s
FORM: Form = "mean_abs"
IGNORE_INDEX = -100  # the label of rows that take no part

SMALL = 2_000_000  # B*B*D up to here: a tiny product costs less than the many small steps of class sums
TILED_FROM = 1024  # rows of signed features beyond which tiles beat one B x B matrix


class Projection(NamedTuple):
    """The loss and its two parts: `same` is the paper's s, `other` its d; all three are differentiable."""

    loss: Tensor
    same: Tensor
    other: Tensor


def orthogonal_projection(
    features: Tensor,
    labels: Tensor,
    *,
    gamma: float = GAMMA,
    form: Form = FORM,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
    algorithm: str = "auto",
) -> Projection:
    """Pull same-class features together and set different classes at right angles: `(1 - s) + gamma * d`.

    Args:
        features: (B, D) or (B, D, 1, 1), of any floating type; computed in fp32, or in fp64 if given so.
        labels: (B,) or (B, 1) integers; or (B, C) soft labels whose rows sum to 1, where a pair counts as same-class to
            the inner product of its rows and as other-class to the rest.
        gamma: weight of d against s.
        form: how d is made: `"mean_abs"`, the mean of |cos| (Algorithm 1 and the released experiments); `"abs_mean"`,
            |the mean of cos| (Eq. 3-6); `"mean"`, signed (the released root loss).
        ignore_index: rows with this label (soft: rows filled with it) take no part.
        group: a process group: the loss is that of all its processes' batches together, and the gradient is exact once
            the processes' gradients are averaged, as DDP and FSDP do.
        algorithm: `"auto"`, or one of the module's docstring; with a `group`, what crosses the network:
            `"class_sums"` or the `"features"`.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> orthogonal_projection(features, torch.tensor([7, 7, 2]))
        Projection(loss=tensor(0.), same=tensor(1.), other=tensor(0.))
    """
    check_options(gamma, form, ignore_index)
    with full_precision(features):
        same, other = _similarities(features, labels, form, ignore_index, group, algorithm)
    if form == "abs_mean":
        other = other.abs()
    return Projection(torch.add(1 - same, other, alpha=float(gamma)), same, other)


def select_algorithm(features: Tensor, labels: Tensor, *, form: Form = FORM, ignore_index: int = IGNORE_INDEX) -> str:
    """The algorithm that `algorithm="auto"` takes for this batch.

    Example:
        >>> select_algorithm(torch.rand(4096, 8), torch.zeros(4096, dtype=torch.long))
        'class_sums'
    """
    check_options(0.0, form, ignore_index)
    return _choose(validate(features, labels, ignore_index), form)


def check_options(gamma: float, form: str, ignore_index: int) -> None:
    """Refuse settings that mean nothing, with the nearest that do."""
    if not is_number(gamma) or not math.isfinite(gamma):
        raise OptionError(f"gamma is {gamma!r}: give a finite number such as 0.5, the paper's choice.")
    if form not in get_args(Form):
        raise OptionError(did_you_mean("form", form, get_args(Form)))
    if not is_number(ignore_index) or ignore_index != int(ignore_index):
        raise OptionError(
            f"ignore_index is {ignore_index!r}: give the integer label of rows to leave out, such as -100."
        )


def is_number(value: object) -> bool:
    """A real number, Python's or NumPy's, and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _similarities(
    features: Tensor, labels: Tensor, form: Form, ignore_index: int, group: Any, algorithm: str
) -> tuple[Tensor, Tensor]:
    """S and d; for `"abs_mean"` d is still signed."""
    if group is not None:
        from ._kernels.distributed import global_similarities

        same, other = global_similarities(features, labels, form, ignore_index, group, algorithm)
        return same, other
    if algorithm not in get_args(Algorithm):
        raise OptionError(did_you_mean("algorithm", algorithm, get_args(Algorithm)))
    batch = validate(features, labels, ignore_index)
    if algorithm == "auto":
        algorithm = _choose(batch, form)
    x, labels, ignored, _ = batch
    absolute = form == "mean_abs"
    if algorithm == "tiled" and len(x):
        return tiled(x, labels, ignored, absolute)
    if algorithm == "class_sums" and len(x):
        if absolute and not batch.nonnegative and bool((x.detach() < 0).any()):
            raise OptionError(
                "algorithm='class_sums' with form='mean_abs' needs features without a negative value, and these have "
                "some: use algorithm='auto', or form='abs_mean' or 'mean'."
            )
        classes = classes_of(labels, ignored)
        if not _exact(classes):
            raise OptionError(
                "algorithm='class_sums' with soft labels needs twice as many rows as classes, and pairs of different "
                "classes among them: use algorithm='auto'."
            )
        return class_sums(x, classes)
    if labels.ndim == 2 and ignored is not None:
        labels = labels.masked_fill(ignored[:, None], 0)
    return (pairs if is_traced() else fast_pairs)(x, labels, ignored, absolute)


def _choose(batch: ValidBatch, form: Form) -> str:
    x, labels, _, nonnegative = batch
    rows = len(x)
    if torch.compiler.is_compiling():
        return "pairs" if rows <= READ_FROM else "tiled"
    if rows * rows * x.shape[1] <= SMALL or not may_read_values(x):
        return "pairs"
    if nonnegative is None:
        nonnegative = bool((x.detach() >= 0).all())
    straight = form != "mean_abs" or nonnegative
    if straight and (labels.ndim == 1 or _exact(classes_of(labels, batch.ignored))):
        return "class_sums"
    return "pairs" if rows <= TILED_FROM else "tiled"


def _exact(classes: Classes) -> bool:
    """Whether class sums of these labels keep their digits: always for class ids."""
    return not isinstance(classes, Soft) or sums_are_exact(classes.rows, classes.weights.sum(0))
