"""The Orthogonal Projection Loss as a pure function of features and labels.

Cosines are taken between pairs of different samples. With s the mean cosine over same-class pairs and d the mean over
different-class pairs,

    loss = (1 - s) + gamma * d.

**Algorithms.** All give the same value; `algorithm="auto"` chooses one, and `select_algorithm` shows which.

| algorithm | cost | used for |
|---|---|---|
| `"class_sums"` | O(B*D) | `form="mean"`, `"abs_mean"`; `"mean_abs"` of non-negative features, where cos = |cos| |
| `"pairs"` | one B x B product | signed features with `"mean_abs"`, up to 1,024 rows; tiny batches (B*B*D <= 2e6) |
| `"tiled"` | time of `"pairs"`, O(B*D) memory | signed features with `"mean_abs"`, more than 1,024 rows |

Pooled ReLU features are never negative. Soft labels use class sums if there are at least twice as many rows as classes.
On the CPU the choice reads the signs of the features and the label values, at negligible cost. On an accelerator
reading values forces a synchronization, so up to 2,048 rows use `"pairs"` without reading anything; only larger batches
have their classes counted and their signs read. Under `torch.compile` the same limit applies: smaller batches are
traced as pairs, larger ones run as one opaque operator. `torch.func` transforms always use the plain operations of
`"pairs"`.

**Edge cases.** A zero feature vector has no direction: its cosines are 0 and it gets no gradient. A mean over no pairs
is 0: d = 0 if the batch has one class, s = 0 if every class has one sample, and the loss is 1 without a gradient if at
most one row remains after `ignore_index`. At a cosine of exactly 0, |cos| has no derivative: pairs and tiles use 0,
class sums use the derivative of cos. On non-negative features this affects only entries that are 0, where a ReLU passes
no gradient. Invalid values (NaN, negative labels, soft rows that do not sum to 1) raise an error on the CPU. On an
accelerator the check would force a synchronization, so a NaN feature gives a NaN loss instead.
"""

import math
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ._kernels.class_sums import Classes, Layout, Soft, class_sums, classes_of, layout, sums_are_exact
from ._kernels.normalize import full_precision, is_traced
from ._kernels.pairs import fast_pairs, pairs
from ._kernels.tiled import tiled
from ._kernels.validate import (
    READ_FROM,
    ValidBatch,
    check_ignore_index,
    is_number,
    may_read_values,
    validate,
)
from .errors import OptionError, did_you_mean

Form = Literal["mean_abs", "abs_mean", "mean"]
Algorithm = Literal["auto", "pairs", "class_sums", "tiled"]
FORMS = get_args(Form)  # a constant: torch 2.6 cannot trace get_args
ALGORITHMS = get_args(Algorithm)

WEIGHT = 1.0  # the paper's lambda: weight of OPL relative to the criterion
GAMMA = 0.5  # weight of d relative to s
FORM: Form = "mean_abs"
IGNORE_INDEX = -100  # rows with this label are excluded

SMALL = 2_000_000  # up to this B*B*D, one small product is cheaper than the many small operations of class sums
TILED_FROM = 1024  # above this number of rows with signed features, tiles are faster than one B x B matrix


class Projection(NamedTuple):
    """The loss and its two parts, all differentiable: `same` is the paper's s, `other` is the paper's d."""

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
    """Compute OPL, `(1 - s) + gamma * d`, which aligns same-class features and makes classes orthogonal.

    Args:
        features: (B, D) or (B, D, 1, 1), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) or (B, 1) integers; or (B, C) soft labels whose rows sum to 1. A pair of soft labels has same-class
            weight w, the inner product of its two rows, and different-class weight 1 - w.
        gamma: weight of d relative to s.
        form: how d is computed: `"mean_abs"`, the mean of |cos| (Algorithm 1 and the released experiments);
            `"abs_mean"`, the absolute value of the mean of cos (Eq. 3-6); `"mean"`, signed (the released root loss).
        ignore_index: rows with this label are excluded; for soft labels, rows filled with this value.
        group: a process group. The loss is that of the combined batch of all its processes, and the gradient is exact
            after averaging over processes, as DDP and FSDP do.
        algorithm: `"auto"` or one of those listed in the module docstring. With a `group`, one of `"auto"`,
            `"class_sums"` and `"features"`: what is sent between processes.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> orthogonal_projection(features, torch.tensor([7, 7, 2]))
        Projection(loss=tensor(0.), same=tensor(1.), other=tensor(0.))
    """
    check_options(gamma, form, ignore_index)
    same, other, _ = similarities(features, labels, form, ignore_index, group, algorithm)
    return Projection(torch.add(1 - same, other, alpha=float(gamma)), same, other)


def gamma_needed(same: Tensor, other: Tensor) -> Tensor:
    """Return `(1 - s) / (1 - d)`, the gamma above which OPL lowers d; below it, OPL raises d.

    It follows from the flow of free unit features in many classes of equal size, where the pull on a sample of class c
    is proportional to `(1 - gamma) g + (1 + gamma / (C - 1)) delta_c`, g being the mean direction of all samples and
    delta_c the deviation of the class from it. With few classes a slightly smaller gamma is enough. If s = d, as at
    the start of training, it is 1.

    Example:
        >>> gamma_needed(torch.tensor(0.94), torch.tensor(0.30)).round(decimals=2)
        tensor(0.0900)
    """
    tiny = 1e-6  # all features in one direction: s = d = 1
    return (1 - same).clamp(min=tiny) / (1 - other).clamp(min=tiny)


def gamma_limit(same: Tensor, other: Tensor, positives: float = math.inf) -> Tensor:
    """Return `(s + 1 / positives) / d`, the gamma below which OPL raises s; above it, OPL lowers s.

    Args:
        same: s.
        other: d.
        positives: the number of positives of a sample, one less than the samples of its class in the batch.

    Example:
        >>> gamma_limit(torch.tensor(0.5), torch.tensor(0.25))
        tensor(2.)
    """
    return (same + 1 / positives) / other


def select_algorithm(features: Tensor, labels: Tensor, *, form: Form = FORM, ignore_index: int = IGNORE_INDEX) -> str:
    """Return the algorithm that `algorithm="auto"` uses for this batch.

    Example:
        >>> select_algorithm(torch.rand(4096, 8), torch.zeros(4096, dtype=torch.long))
        'class_sums'
    """
    check_options(0.0, form, ignore_index)
    return _choose(validate(features, labels, ignore_index), form)


def check_options(gamma: float, form: str, ignore_index: int) -> None:
    """Raise `OptionError` for an invalid setting, with a valid value to use instead."""
    if not is_number(gamma) or not math.isfinite(gamma):
        raise OptionError(f"gamma is {gamma!r}: give a finite number such as 0.5, the paper's choice.")
    if form not in FORMS:
        raise OptionError(did_you_mean("form", form, FORMS))
    check_ignore_index(ignore_index)


def similarities(
    features: Tensor,
    labels: Tensor,
    form: Form = FORM,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
    algorithm: str = "auto",
    with_layout: bool = False,
) -> tuple[Tensor, Tensor, Layout | None]:
    """Return s and d, and with `with_layout` how the classes of the batch lie, all as in `orthogonal_projection`."""
    with full_precision(features):
        if group is not None:
            from ._kernels.distributed import global_similarities

            same, other, found = global_similarities(
                features, labels, form, ignore_index, group, algorithm, with_layout
            )
        else:
            if algorithm not in ALGORITHMS:
                raise OptionError(did_you_mean("algorithm", algorithm, ALGORITHMS))
            batch = validate(features, labels, ignore_index)
            same, other = _local_similarities(batch, form, _choose(batch, form) if algorithm == "auto" else algorithm)
            found = layout(*batch[:3]) if with_layout else None
    return same, other.abs() if form == "abs_mean" else other, found


def _local_similarities(batch: ValidBatch, form: Form, algorithm: str) -> tuple[Tensor, Tensor]:
    """Return s and d of a batch; for `"abs_mean"`, d is still signed."""
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
    """Return whether class sums are numerically accurate for these labels, as they always are for class ids."""
    return not isinstance(classes, Soft) or sums_are_exact(classes.rows, classes.weights.sum(0))
