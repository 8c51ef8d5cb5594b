"""The Orthogonal Projection Loss as a pure function of features and labels.

Cosines are taken between pairs of different samples. With s the mean cosine over same-class pairs and d the mean over
different-class pairs,

    loss = (1 - s) + gamma * d.

**Algorithms.** All give the same value; `algorithm="auto"` chooses one, and `select_algorithm` shows which.

| algorithm | cost | used for |
|---|---|---|
| `"class_sums"` | O(B*D) | `form="mean"`, `"abs_mean"`; `"mean_abs"` of non-negative features, where cos = |cos| |
| `"pairs"` | one B x B product | `"mean_abs"` of signed features and `"squared"`, up to 1,024 rows; tiny batches |
| `"tiled"` | time of `"pairs"`, O(B*D) memory | the same with more than 1,024 rows; `"squared"` in O(B*D^2) if less |

Tiny means B*B*D <= 2e6. Pooled ReLU features are never negative. Label rows use class sums if there are at least twice
as many rows as classes. On the CPU the choice reads the signs of the features and the label values, at negligible cost.
On an accelerator reading values forces a synchronization, so up to 2,048 rows use `"pairs"` without reading anything;
only larger batches have their classes counted and their signs read. Under `torch.compile` the same limit applies:
smaller batches are traced as pairs, larger ones run as one opaque operator. `torch.func` transforms always use the
plain operations of `"pairs"`.

**Edge cases.** A zero feature vector has no direction: its cosines are 0 and it gets no gradient. A vector shorter than
5e-38 (fp32 and bf16), 1e-300 (fp64) or 6.2e-5 (fp16) counts as zero, because its gradient would overflow. Vectors of
any other length have exact cosines, even if their squares overflow. A mean over no pairs is 0: d = 0 if the batch has
one class, s = 0 if every class has one sample, and the loss is 1 without a gradient if at most one row remains after
`ignore_index`. At a cosine of exactly 0, |cos| has no derivative: pairs and tiles use 0, class sums use the derivative
of cos. On non-negative features this affects only entries that are 0, where a ReLU passes no gradient. Invalid values
(NaN, negative labels) raise an error on the CPU. On an accelerator the check would force a synchronization, so a NaN
feature gives a NaN loss instead.
"""

import math
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ._kernels.class_sums import Classes, Layout, Soft, class_sums, classes_of, layout, sums_are_exact
from ._kernels.normalize import full_precision, is_traced
from ._kernels.pairs import Kind, Weights, fast_pairs, pairs
from ._kernels.tiled import cross, tiled
from ._kernels.validate import READ_FROM, ValidBatch, check_ignore_index, is_number, join, may_read_values, validate
from .errors import OptionError, did_you_mean

Form = Literal["mean_abs", "abs_mean", "mean", "squared"]
Algorithm = Literal["auto", "pairs", "class_sums", "tiled"]
FORMS = get_args(Form)  # a constant: torch 2.6 cannot trace get_args
ALGORITHMS = get_args(Algorithm)
KINDS: dict[str, Kind] = {"mean_abs": "absolute", "abs_mean": "signed", "mean": "signed", "squared": "squared"}

WEIGHT = 1.0  # the paper's lambda: weight of OPL relative to the criterion
GAMMA = 0.5  # weight of d relative to s
SAME_WEIGHT = 1.0  # weight of 1 - s
FORM: Form = "mean_abs"
IGNORE_INDEX = -100  # rows with this label are excluded
ONE_MINUS_S = Weights()

SMALL = 2_000_000  # up to this B*B*D, one small product is cheaper than the many small operations of class sums
TILED_FROM = 1024  # above this number of rows with signed features, tiles are faster than one B x B matrix


class Projection(NamedTuple):
    """The loss and its two parts, all differentiable: `same` is the paper's s, `other` is the paper's d."""

    loss: Tensor
    same: Tensor
    other: Tensor


class Similarities(NamedTuple):
    """`same` is s, `other` is d, and `loss` weights 1 - s and d as requested; `layout` describes the classes."""

    loss: Tensor
    same: Tensor
    other: Tensor
    layout: Layout | None = None


def orthogonal_projection(
    features: Tensor,
    labels: Tensor,
    *,
    gamma: float = GAMMA,
    form: Form = FORM,
    same_weight: float = SAME_WEIGHT,
    references: tuple[Tensor, Tensor] | None = None,
    ignore_index: int = IGNORE_INDEX,
    group: Any = None,
    algorithm: str = "auto",
) -> Projection:
    """Compute OPL, `(1 - s) + gamma * d`, which aligns same-class features and makes classes orthogonal.

    Args:
        features: (B, D) or (B, D, 1, 1), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        labels: (B,) or (B, 1) integer class ids; or (B, C) label rows, C > 1: probabilities that sum to 1 (mixup,
            cutmix), or 1 for each class of the sample (multi-label). A pair has same-class weight w and different-class
            weight 1 - w. For probabilities w is the inner product of the two rows, for multi-label rows it is their
            cosine.
        gamma: weight of d relative to s. With 0 the loss depends on s alone.
        form: how d is computed: `"mean_abs"`, the mean of |cos| (Algorithm 1 and the released experiments);
            `"abs_mean"`, the absolute value of the mean of cos (Eq. 3-6); `"mean"`, signed (the released root loss);
            `"squared"`, the mean of cos^2.
        same_weight: weight of `1 - s`. With 0 the loss depends on d alone.
        references: (R, D) features and their (R,) or (R, C) labels. A pair then consists of a feature and a reference:
            another modality, prototypes, or earlier batches (`opl.Queue`). Both sides get gradients.
        ignore_index: rows with this label are excluded; for label rows, rows filled with this value.
        group: a process group. The loss is that of the combined batch of all its processes, and the gradient is exact
            after averaging over processes, as DDP and FSDP do.
        algorithm: `"auto"` or an algorithm of the module docstring. With a `group`, one of `"auto"`,
            `"class_sums"` and `"features"`: what is sent between processes. With `references`, only `"auto"`.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> orthogonal_projection(features, torch.tensor([7, 7, 2]))
        Projection(loss=tensor(0.), same=tensor(1.), other=tensor(0.))

        Faces and voices of the same people, where a pair is a face and a voice:

        >>> faces, voices, people = torch.eye(3), 2 * torch.eye(3), torch.tensor([0, 1, 2])
        >>> orthogonal_projection(faces, people, references=(voices, people))
        Projection(loss=tensor(0.), same=tensor(1.), other=tensor(0.))
    """
    check_options(gamma, form, ignore_index, same_weight)
    weights = Weights(same_weight, float(gamma))
    parts = similarities(features, labels, form, ignore_index, group, algorithm, references, weights=weights)
    return Projection(parts.loss, parts.same, parts.other)


def gamma_needed(
    same: Tensor | float, other: Tensor | float, num_classes: Tensor | float, per_class: Tensor | float
) -> Tensor:
    """Return the gamma above which OPL lowers d; below it, OPL raises d. NaN if there is no such threshold.

    It follows from the gradients of free unit features in C classes of n samples each: with m = s + (1 - s) / n, the
    mean cosine of a sample to all samples of its class,

        gamma > d (1 - s) / (d (1 - d) + (m - d) / (C - 1)).

    For many classes this is (1 - s) / (1 - d). If s = d, as at the start of training, it is nearly 1. The d is a mean
    of signed cosines: the rule holds for `form="mean"`, and for the mean of |cos| where no cosine is negative. There
    is no threshold if d is not positive, if there is one class, or if no sample has a positive.

    Args:
        same: s.
        other: d, a mean of signed cosines.
        num_classes: C; infinity for the limit of many classes.
        per_class: n, the number of samples per class; infinity for a whole data set.

    Example:
        >>> gamma_needed(0.94, 0.30, num_classes=100, per_class=6).round(decimals=3)
        tensor(0.0830)
        >>> gamma_needed(0.424, 0.005, num_classes=20, per_class=50).round(decimals=3)
        tensor(0.1040)
    """
    s, d, classes, count = (torch.as_tensor(value) for value in (same, other, num_classes, per_class))
    tiny = 1e-6  # all features in one direction: s = d = 1
    within, between = (1 - s).clamp(min=tiny), (1 - d).clamp(min=tiny)
    spread = (between - within * (1 - 1 / count)) / (classes - 1)  # (m - d) / (C - 1)
    needed = d * within / (d * between + spread)
    defined = (d > 0) & (classes > 1) & (count > 1) & (needed >= 0)
    return needed.where(defined, torch.nan)


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


def check_options(gamma: float, form: str, ignore_index: int, same_weight: float = SAME_WEIGHT) -> None:
    """Raise `OptionError` for an invalid setting, with a valid value to use instead."""
    for name, value, example in (("gamma", gamma, "0.5, the paper's choice"), ("same_weight", same_weight, "1")):
        if not is_number(value) or not 0 <= value < math.inf:
            raise OptionError(f"{name} is {value!r} but must be a finite number of at least 0, such as {example}.")
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
    references: tuple[Tensor, Tensor] | None = None,
    with_layout: bool = False,
    weights: Weights = ONE_MINUS_S,
) -> Similarities:
    """Return s and d, and with `with_layout` how the classes of the batch lie, all as in `orthogonal_projection`."""
    used = ONE_MINUS_S if form == "abs_mean" else weights
    with full_precision(features):
        if references is not None:
            parts = _with_references(features, labels, references, form, ignore_index, group, algorithm, used)
        elif group is not None:
            from ._kernels.distributed import global_similarities

            same, other, of = global_similarities(
                features, labels, KINDS[form], ignore_index, group, algorithm, with_layout
            )
            parts = Similarities(used.combine(1 - same, other), same, other, of)
        else:
            if algorithm not in ALGORITHMS:
                raise OptionError(did_you_mean("algorithm", algorithm, ALGORITHMS))
            batch = validate(features, labels, ignore_index)
            chosen = _choose(batch, form) if algorithm == "auto" else algorithm
            parts = _local_similarities(batch, form, chosen, used)
            if with_layout:
                of = layout(batch.x, batch.labels, batch.ignored)
                parts = Similarities(parts.loss, parts.same, parts.other, of)
    if form != "abs_mean":
        return parts
    # torch 2.6 can trace neither _replace nor a slice of a named tuple
    other = parts.other.abs()
    return Similarities(weights.combine(parts.loss, other), parts.same, other, parts.layout)


def _with_references(
    features: Tensor,
    labels: Tensor,
    references: tuple[Tensor, Tensor],
    form: Form,
    ignore_index: int,
    group: Any,
    algorithm: str,
    weights: Weights,
) -> Similarities:
    if algorithm != "auto":
        raise OptionError(f"algorithm is {algorithm!r}: only 'auto' works with references.")
    if not isinstance(references, tuple) or len(references) != 2:
        raise OptionError("references must be a pair (features, labels), such as the output of opl.Queue.")
    if group is not None:
        from ._kernels.distributed import global_cross

        same, other = global_cross(features, labels, references, KINDS[form], ignore_index, group)
    else:
        batch = validate(features, labels, ignore_index)
        both = join(batch, validate(*references, ignore_index))
        same, other = cross(both.x, both.labels, both.ignored, len(batch.x), KINDS[form], both.nonnegative)
    return Similarities(weights.combine(1 - same, other), same, other)


def _local_similarities(batch: ValidBatch, form: Form, algorithm: str, weights: Weights) -> Similarities:
    """Return s and d of a batch; for `"abs_mean"`, d is still signed."""
    x, labels, ignored, _ = batch
    kind = KINDS[form]
    if algorithm == "tiled" and len(x):
        same, other = tiled(x, labels, ignored, kind)
    elif algorithm == "class_sums" and len(x):
        same, other = _by_class_sums(batch, kind)
    else:
        if labels.ndim == 2 and ignored is not None:
            labels = labels.masked_fill(ignored[:, None], 0)
        if not is_traced():
            return Similarities(*fast_pairs(x, labels, ignored, kind, weights))
        same, other = pairs(x, labels, ignored, kind)
    return Similarities(weights.combine(1 - same, other), same, other)


def _by_class_sums(batch: ValidBatch, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return s and d by class sums; raise `OptionError` where they would not be exact."""
    x = batch.x
    if kind == "squared" or (kind == "absolute" and not batch.nonnegative and bool((x.detach() < 0).any())):
        raise OptionError(
            "algorithm='class_sums' cannot compute form='squared', nor form='mean_abs' of negative features: use "
            "algorithm='auto', or form='abs_mean' or 'mean'."
        )
    classes = classes_of(batch.labels, batch.ignored)
    if not _exact(classes):
        raise OptionError(
            "algorithm='class_sums' is inaccurate for label rows with fewer than two rows per class, or without "
            "pairs of different classes: use algorithm='auto'."
        )
    return class_sums(x, classes)


def _choose(batch: ValidBatch, form: Form) -> str:
    x, labels, _, nonnegative = batch
    rows = x.shape[0]
    if torch.compiler.is_compiling():
        return "pairs" if rows <= READ_FROM else "tiled"
    if rows * rows * x.shape[1] <= SMALL or not may_read_values(x):
        return "pairs"
    if nonnegative is None:
        nonnegative = bool((x.detach() >= 0).all())
    straight = KINDS[form] == "signed" or (form == "mean_abs" and nonnegative)
    if straight and (labels.ndim == 1 or _exact(classes_of(labels, batch.ignored))):
        return "class_sums"
    return "pairs" if rows <= TILED_FROM else "tiled"


def _exact(classes: Classes) -> bool:
    """Return whether class sums are numerically accurate for these labels, as they always are for class ids."""
    return not isinstance(classes, Soft) or sums_are_exact(classes.rows, classes.weights.sum(0))
