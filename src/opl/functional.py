"""The Orthogonal Projection Loss as a pure function of features and labels.

Every cosine is between two different samples; s is the mean over same-class pairs, d over the others, and

    loss = (1 - s) + gamma * d.

**Which way it is computed** (`way="auto"`, inspect it with `which_way`). All ways give the same number.

| way | cost | used for |
|---|---|---|
| `"linear"` | O(B*D) | `form="mean"` and `"abs_mean"`; `"mean_abs"` when no feature is negative (pooled ReLU: |cos| = cos) |
| `"pairs"` | O(B*B*D), one small B x B product | batches up to 1,024 of signed features with `"mean_abs"`; tiny batches (B*B*D up to 2 million) |
| `"tiled"` | O(B*B*D) time, O(B*D) memory | larger batches of signed features with `"mean_abs"` |

On the CPU the sign of the features and the values of the labels are looked at, which costs next to nothing. On an
accelerator a look at values would wait for the device, so up to 2,048 rows `"pairs"` is taken unseen, and only beyond
are the classes counted and the signs read. Under `torch.compile` the same limit separates traced pairs from one opaque
operator. `torch.func` transforms always see the plain operations of `"pairs"`.

**Edges.** A zero feature has no direction: its cosines are 0 and it gets no gradient. A mean over no pairs is 0: a batch
of one class has d = 0; of singletons, s = 0; of one sample, or none after `ignore_index`, loss 1 and no gradient.
Values that cannot be used (NaN, negative labels, soft rows that do not sum to 1) are refused on the CPU; on an
accelerator looking would cost a synchronisation, so there a NaN feature makes a NaN loss.
"""

import difflib
import math
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from ._ways.classes import classes_of
from ._ways.linear import linear
from ._ways.pairs import fast_pairs, pairs
from ._ways.tiled import tiled
from ._ways.unit import watched
from .errors import FeatureError, LabelError, OptionError

Form = Literal["mean_abs", "abs_mean", "mean"]
Way = Literal["auto", "pairs", "linear", "tiled"]

SMALL = 2_000_000  # B*B*D up to here: a tiny product costs less than the many small steps of class sums
TILED_FROM = 1024  # rows of signed features beyond which tiles beat one B x B matrix
LOOK_FROM = 2048  # rows beyond which an accelerator may be waited for


class Projection(NamedTuple):
    """The loss and its two parts: `same` is the paper's s, `other` its d; all three are differentiable."""

    loss: Tensor
    same: Tensor
    other: Tensor


class Checked(NamedTuple):
    """A batch that can be used.

    `x` is (B, D) in fp32 or fp64, `ignored` the rows to leave out; `nonnegative` is None where nobody may look at the
    signs. Class ids come in the type of `x` where that is exact, because the CPU compares floats faster.
    """

    x: Tensor
    labels: Tensor
    ignored: Tensor | None
    nonnegative: bool | None


def orthogonal_projection(
    features: Tensor,
    labels: Tensor,
    *,
    gamma: float = 0.5,
    form: Form = "mean_abs",
    ignore_index: int = -100,
    group: Any = None,
    way: str = "auto",
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
        way: `"auto"`, or one of the ways of the module's docstring; with a `group`, what crosses the network:
            `"sums"` of classes or the `"features"`.

    Example:
        >>> features = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> orthogonal_projection(features, torch.tensor([7, 7, 2]))
        Projection(loss=tensor(0.), same=tensor(1.), other=tensor(0.))
    """
    check_options(gamma, form, ignore_index)
    if isinstance(features, Tensor) and torch.is_autocast_enabled(features.device.type):
        with torch.autocast(features.device.type, enabled=False):
            same, other = _similarities(features, labels, form, ignore_index, group, way)
    else:
        same, other = _similarities(features, labels, form, ignore_index, group, way)
    if form == "abs_mean":
        other = other.abs()
    return Projection(torch.add(1 - same, other, alpha=gamma), same, other)


def which_way(features: Tensor, labels: Tensor, *, form: Form = "mean_abs", ignore_index: int = -100) -> str:
    """The way that `way="auto"` takes for this batch.

    Example:
        >>> which_way(torch.rand(4096, 8), torch.zeros(4096, dtype=torch.long))
        'linear'
    """
    check_options(0.0, form, ignore_index)
    return _choose(check(features, labels, ignore_index), form)


def check_options(gamma: float, form: str, ignore_index: int) -> None:
    """Refuse settings that mean nothing, with the nearest that do."""
    if isinstance(gamma, bool) or not isinstance(gamma, int | float) or not math.isfinite(gamma):
        raise OptionError(f"gamma is {gamma!r}: give a finite number such as 0.5, the paper's choice.")
    if form not in get_args(Form):
        raise OptionError(_unknown("form", form, get_args(Form)))
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise OptionError(f"ignore_index is {ignore_index!r}: give the integer label of rows to leave out, such as -100.")


def check(features: Tensor, labels: Tensor, ignore_index: int) -> Checked:
    """Bring features and labels into one shape and type, and refuse what cannot be used."""
    x = _check_features(features)
    labels = _check_labels(labels, x)
    if not _can_look(x, ordinary=False):
        return Checked(x, labels, _ignored(labels, ignore_index), None)
    some_ignored, largest = _check_label_values(labels, ignore_index)
    ignored = _ignored(labels, ignore_index) if some_ignored else None
    if largest < 1 / torch.finfo(x.dtype).eps:
        labels = labels.to(x.dtype)
    if x.numel() == 0:
        return Checked(x, labels, ignored, True)
    low, high = (value.item() for value in torch.aminmax(x.detach()))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise FeatureError(
            f"the features hold {'NaN' if math.isnan(low) else 'infinite values'}: the model has diverged or its input is "
            "broken; lower the learning rate, clip gradients, or check the batch before the loss."
        )
    return Checked(x, labels, ignored, low >= 0)


def _ignored(labels: Tensor, ignore_index: int) -> Tensor:
    ignored = labels == ignore_index
    return ignored if labels.ndim == 1 else ignored.all(1)


def _similarities(
    features: Tensor, labels: Tensor, form: Form, ignore_index: int, group: Any, way: str
) -> tuple[Tensor, Tensor]:
    """S and d; for `"abs_mean"` d is still signed."""
    if group is not None:
        from ._ways.across import across

        return across(features, labels, form, ignore_index, group, way, check)
    if way not in get_args(Way):
        raise OptionError(_unknown("way", way, get_args(Way)))
    batch = check(features, labels, ignore_index)
    if way == "auto":
        way = _choose(batch, form)
    x, labels, ignored, _ = batch
    absolute = form == "mean_abs"
    if way == "tiled" and len(x):
        return tiled(x, labels, ignored, absolute)
    if way == "linear" and len(x):
        if absolute and not batch.nonnegative and bool((x.detach() < 0).any()):
            raise OptionError(
                "way='linear' with form='mean_abs' needs features without a negative value, and these have some: "
                "use way='auto', or form='abs_mean' or 'mean'."
            )
        return linear(x, classes_of(labels, ignored))
    if labels.ndim == 2 and ignored is not None:
        labels = labels.masked_fill(ignored[:, None], 0)
    return (pairs if watched() else fast_pairs)(x, labels, ignored, absolute)


def _choose(batch: Checked, form: Form) -> str:
    x, labels, _, nonnegative = batch
    rows = len(x)
    if torch.compiler.is_compiling():
        return "pairs" if rows <= LOOK_FROM else "tiled"
    if rows * rows * x.shape[1] <= SMALL or not _can_look(x):
        return "pairs"
    if nonnegative is None:
        nonnegative = bool((x.detach() >= 0).all())
    if (form != "mean_abs" or nonnegative) and (labels.ndim == 1 or _soft_sums_are_safe(labels)):
        return "linear"
    return "pairs" if rows <= TILED_FROM else "tiled"


def _soft_sums_are_safe(labels: Tensor) -> bool:
    """Whether soft labels have enough rows a class, and pairs of both kinds, for differences of sums to keep digits."""
    rows, classes = labels.shape
    if rows < 2 * classes:
        return False
    mass = labels.sum(0, dtype=torch.float32)
    return bool(mass.square().sum() < 0.99 * rows * rows)


def _can_look(x: Tensor, ordinary: bool = True) -> bool:
    """Whether values may decide: always on the CPU, on an accelerator only where the batch is large (`ordinary`)."""
    if watched():
        return False
    return x.device.type == "cpu" or (ordinary and len(x) > LOOK_FROM)


def _check_features(features: Tensor) -> Tensor:
    if not isinstance(features, Tensor):
        raise FeatureError(f"features are a {type(features).__name__}: give a torch.Tensor of shape (B, D).")
    if not features.is_floating_point():
        raise FeatureError(f"features are {features.dtype}: give floating point, for instance features.float().")
    if features.ndim == 4 and features.shape[2:] == (1, 1):
        features = features.flatten(1)
    if features.ndim != 2:
        raise FeatureError(
            f"features have shape {tuple(features.shape)}: give (B, D) or (B, D, 1, 1), one vector a sample; pool or "
            "flatten the rest first, for instance with features.mean((2, 3))."
        )
    if features.shape[1] == 0:
        raise FeatureError(f"features have shape {tuple(features.shape)}: a vector needs at least one number.")
    return features if features.dtype in (torch.float32, torch.float64) else features.float()


def _check_labels(labels: Tensor, x: Tensor) -> Tensor:
    if not isinstance(labels, Tensor):
        raise LabelError(f"labels are a {type(labels).__name__}: give a torch.Tensor of (B,) class ids.")
    shape, soft = tuple(labels.shape), labels.is_floating_point()
    if labels.is_complex() or not (1 <= labels.ndim <= 2):
        raise LabelError(f"labels have shape {shape} and type {labels.dtype}: give (B,) class ids or (B, C) soft labels.")
    if len(labels) != len(x):
        raise LabelError(f"{len(labels)} labels for {len(x)} features: give one label for each row of the features.")
    if soft and labels.ndim == 1:
        raise LabelError(f"labels are {labels.dtype} of shape {shape}: class ids are integers, for instance labels.long().")
    if not soft and labels.ndim == 2 and labels.shape[1] != 1:
        raise LabelError(
            f"labels are {labels.dtype} of shape {shape}: for one-hot rows use labels.float() or labels.argmax(1); "
            "class ids have shape (B,)."
        )
    if labels.device != x.device:
        raise LabelError(f"labels are on {labels.device} and features on {x.device}: move them with labels.to(features.device).")
    labels = labels.detach()
    if soft:
        return labels.to(x.dtype)
    return labels.reshape(-1).long()


def _check_label_values(labels: Tensor, ignore_index: int) -> tuple[bool, float]:
    """Refuse labels that mean nothing; say whether any row is to be left out, and the largest label."""
    if len(labels) == 0:
        return False, 0
    low, high = (value.item() for value in torch.aminmax(labels))
    if labels.ndim == 1:
        if low >= 0:
            return low <= ignore_index <= high, high
        wrong = labels[(labels < 0) & (labels != ignore_index)]
        if len(wrong):
            raise LabelError(
                f"label {int(wrong[0])} is negative: class ids start at 0, and rows to leave out carry "
                f"ignore_index ({ignore_index})."
            )
        return True, max(high, -low)
    ignored = _ignored(labels, ignore_index)
    wrong = ~(((labels.sum(1) - 1).abs() <= 1e-2) & (labels >= 0).all(1)) & ~ignored
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise LabelError(
            f"row {row} of the soft labels sums to {labels[row].sum().item():.4g} with a smallest value of "
            f"{labels[row].min().item():.4g}: rows must be non-negative and sum to 1; integer labels have shape (B,)."
        )
    return bool(ignored.any()), high


def _unknown(what: str, given: object, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(given), known, n=1, cutoff=0.0)
    return f"{what} {given!r} does not exist: did you mean {near[0]!r}? There are {', '.join(map(repr, known))}."
