"""Validation of features, labels and options, and conversion to one shape and dtype."""

import math
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import FeatureError, LabelError, OptionError
from .normalize import drop_short_halves, is_traced

DISTRIBUTION = 1e-2  # a row of labels whose sum is this close to 1 is a distribution over classes
READ_FROM = 2048  # above this number of rows, a synchronization with the accelerator is acceptable


class ValidBatch(NamedTuple):
    """A validated batch.

    `x` is (B, D) in fp32 or fp64, `ignored` masks the rows to exclude; `nonnegative` is None if the signs may not be
    read. Class ids have the dtype of `x` if it represents them exactly, because the CPU compares floats faster.
    """

    x: Tensor
    labels: Tensor
    ignored: Tensor | None
    nonnegative: bool | None


def validate(features: Tensor, labels: Tensor, ignore_index: int) -> ValidBatch:
    """Convert features and labels to one shape and dtype; raise an error if they are invalid."""
    x = check_vectors(features)
    labels = check_labels(labels, x)
    x = drop_short_halves(x, features.dtype)
    if not may_read_values(x, ordinary=False):
        unread = _ignored(labels, ignore_index)
        return ValidBatch(x, labels if labels.ndim == 1 else scale_rows(labels, unread), unread, None)
    some_ignored, largest = _check_label_values(labels, ignore_index)
    ignored = _ignored(labels, ignore_index) if some_ignored else None
    if labels.ndim == 2:
        labels = scale_rows(labels, ignored)
    elif largest < 1 / torch.finfo(x.dtype).eps:
        labels = labels.to(x.dtype)
    if x.numel() == 0:
        return ValidBatch(x, labels, ignored, True)
    smallest, greatest = torch.aminmax(x.detach())
    low, high = smallest.item(), greatest.item()
    if not (math.isfinite(low) and math.isfinite(high)):
        raise FeatureError(
            f"the features contain {'NaN' if math.isnan(low) else 'infinite values'}: the model has diverged or its "
            "input is broken; lower the learning rate, clip gradients, or check the batch before the loss."
        )
    return ValidBatch(x, labels, ignored, low >= 0)


def join(batch: ValidBatch, references: ValidBatch) -> ValidBatch:
    """Return the rows of a batch followed by those of its references; raise an error if they are not of one kind."""
    if batch.x.shape[1] != references.x.shape[1]:
        raise FeatureError(
            f"features have {batch.x.shape[1]} numbers per row and references {references.x.shape[1]}: project both to "
            "the same size first."
        )
    ours, theirs = batch.labels, references.labels
    if ours.shape[1:] != theirs.shape[1:]:
        raise LabelError(
            f"labels have shape {tuple(ours.shape)} and reference labels {tuple(theirs.shape)}: pass both class "
            "ids, or both label rows of the same number of classes."
        )
    if ours.dtype != theirs.dtype:
        ours, theirs = ours.long(), theirs.long()
    kind = torch.promote_types(batch.x.dtype, references.x.dtype)
    if ours.ndim == 2:
        ours, theirs = ours.to(kind), theirs.to(kind)
    ignored = None
    if batch.ignored is not None or references.ignored is not None:
        ignored = torch.cat(
            [
                torch.zeros_like(part.x[:, 0], dtype=torch.bool) if part.ignored is None else part.ignored
                for part in (batch, references)
            ]
        )
    known = batch.nonnegative is not None and references.nonnegative is not None
    nonnegative = bool(batch.nonnegative and references.nonnegative) if known else None
    x = torch.cat([batch.x.to(kind), references.x.to(kind)])
    return ValidBatch(x, torch.cat([ours, theirs]), ignored, nonnegative)


def _ignored(labels: Tensor, ignore_index: int) -> Tensor:
    ignored = labels == ignore_index
    return ignored if labels.ndim == 1 else ignored.all(1)


def scale_rows(labels: Tensor, ignored: Tensor | None) -> Tensor:
    """Return (B, C) label rows whose inner product is the same-class weight of a pair.

    A row that sums to 1 is a distribution over classes and stays as it is. Any other row is a set of labels and is
    scaled to length 1, so that the inner product of two sets is their cosine. A one-hot row is both. A row of zeros
    shares no class with any row. Ignored rows stay, because they are recognized by their values.
    """
    stays = (labels.sum(1) - 1).abs() <= DISTRIBUTION
    stays = stays if ignored is None else stays | ignored
    if may_read_values(labels, ordinary=False) and bool(stays.all()):
        return labels
    lengths: Tensor = torch.linalg.vector_norm(labels, dim=1)
    return labels / lengths.masked_fill(stays | (lengths == 0), 1)[:, None]


def may_read_values(x: Tensor, ordinary: bool = True) -> bool:
    """Return whether code may branch on tensor values.

    True on the CPU; on an accelerator only if `ordinary` is set and the batch is large; never while tracing.
    """
    if is_traced():
        return False
    return x.device.type == "cpu" or (ordinary and len(x) > READ_FROM)


def check_vectors(x: Tensor, name: str = "features") -> Tensor:
    """Return features or logits as (B, D) in fp32 or fp64; raise `FeatureError` if they are invalid."""
    if not isinstance(x, Tensor):
        raise FeatureError(f"{name} have type {type(x).__name__}: pass a torch.Tensor of shape (B, D).")
    if x.layout != torch.strided or x.is_nested:
        raise FeatureError(_layout_error(x, name))
    if not x.is_floating_point():
        raise FeatureError(f"{name} are {x.dtype}: pass a floating-point tensor, for instance {name}.float().")
    if x.ndim == 4 and x.shape[2:] == (1, 1):
        x = x.flatten(1)
    if x.ndim != 2:
        raise FeatureError(
            f"{name} have shape {tuple(x.shape)}: pass (B, D) or (B, D, 1, 1), one vector per sample; pool or "
            f"flatten the rest first, for instance with {name}.mean((2, 3))."
        )
    if x.shape[1] == 0:
        raise FeatureError(f"{name} have shape {tuple(x.shape)}: a vector needs at least one number.")
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def _layout_error(x: Tensor, name: str) -> str:
    if x.is_nested:
        return f"{name} are a nested tensor: pass a dense one, for instance {name}.to_padded_tensor(0.0)."
    return f"{name} have the layout {x.layout}: pass a dense tensor, for instance {name}.to_dense()."


def check_labels(labels: Tensor, x: Tensor) -> Tensor:
    """Return (B,) class ids or (B, C) label rows that match `x`; raise `LabelError` if they are invalid."""
    if not isinstance(labels, Tensor):
        raise LabelError(f"labels have type {type(labels).__name__}: pass a torch.Tensor of (B,) class ids.")
    if labels.layout != torch.strided or labels.is_nested:
        raise LabelError(_layout_error(labels, "labels"))
    shape, soft = tuple(labels.shape), labels.is_floating_point()
    if labels.is_complex() or not (1 <= labels.ndim <= 2) or 0 in shape[1:]:
        raise LabelError(
            f"labels have shape {shape} and type {labels.dtype}: pass (B,) class ids or (B, C) soft labels."
        )
    if labels.shape[0] != x.shape[0]:  # `len` of a tensor takes a microsecond
        raise LabelError(f"{len(labels)} labels for {len(x)} features: pass one label per row of the features.")
    if soft and shape[1:] in ((), (1,)):
        raise LabelError(
            f"labels are {labels.dtype} of shape {shape}: class ids are integers, for instance labels.long()."
        )
    if labels.device != x.device:
        raise LabelError(
            f"labels are on {labels.device} and features on {x.device}: move them with labels.to(features.device)."
        )
    if soft or (labels.ndim == 2 and labels.shape[1] != 1):
        return labels.detach().to(x.dtype)
    return labels if labels.ndim == 1 and labels.dtype == torch.long else labels.reshape(-1).long()


def _check_label_values(labels: Tensor, ignore_index: int) -> tuple[bool, float]:
    """Raise `LabelError` for invalid values; return whether any row is ignored, and the largest label."""
    if labels.shape[0] == 0:
        return False, 0
    smallest, largest = torch.aminmax(labels)
    low, high = smallest.item(), largest.item()
    if labels.ndim == 1:
        if low >= 0:
            return low <= ignore_index <= high, high
        wrong = labels[(labels < 0) & (labels != ignore_index)]
        if len(wrong):
            raise LabelError(
                f"label {int(wrong[0])} is negative: number classes from 0 and label excluded rows "
                f"ignore_index ({ignore_index}), or pass ignore_index={int(wrong[0])}."
            )
        return True, max(high, -low)
    ignored = _ignored(labels, ignore_index)
    wrong = ~((labels >= 0) & labels.isfinite()).all(1) & ~ignored
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise LabelError(
            f"row {row} of the labels has a value of {labels[row].min().item():.4g}: label rows must not be negative; "
            "pass probabilities that sum to 1, or 1 for each class of the sample and 0 elsewhere."
        )
    return bool(ignored.any()), high


class LabeledBatch(NamedTuple):
    """A batch with its class ids; `kept` masks the rows that count, and is None if all do.

    Rows that do not count have zeros in `x` and class id 0, so that a NaN or infinity there reaches nothing.
    """

    x: Tensor
    labels: Tensor
    kept: Tensor | None


def as_vectors(x: Tensor, width: int | None = None, name: str = "features") -> Tensor:
    """Return features or logits as (B, width) in fp32 or fp64, for any floating dtype."""
    x = check_vectors(x, name)
    if width is not None and x.shape[1] != width:
        raise OptionError(
            f"{name} have {x.shape[1]} numbers per sample, but this was built for {width}: use "
            f"feature_dim={x.shape[1]}, or pass {name} of width {width}."
        )
    return x


def as_labeled_batch(x: Tensor, labels: Tensor, num_classes: int, ignore_index: int) -> LabeledBatch:
    """Return (B, ...) rows with class ids from 0 to `num_classes - 1`, without those labeled `ignore_index`.

    On the CPU the labels are read: their range is checked, and a batch without ignored rows is returned as it is. On an
    accelerator reading would force a synchronization, so every batch is masked.
    """
    labels = as_integers(labels, x)
    kept = kept_rows(labels, x, ignore_index)
    if kept is not None:
        x = x.masked_fill(~kept.view(-1, *[1] * (x.ndim - 1)), 0)
        labels = labels.where(kept, 0)
    return LabeledBatch(x, check_range(labels, x, num_classes), kept)


def as_integers(labels: Tensor, x: Tensor) -> Tensor:
    """Return labels as (B,) integers, of any value."""
    labels = check_labels(labels, x)
    if labels.ndim != 1:
        raise LabelError("label rows are not supported here: pass (B,) class ids, for instance labels.argmax(1).")
    return labels


def kept_rows(labels: Tensor, x: Tensor, ignore_index: int) -> Tensor | None:
    """Return a (B,) mask of the rows whose label is not `ignore_index`; None if the labels can be read and all are."""
    check_ignore_index(ignore_index)
    kept = labels != ignore_index
    return None if may_read_values(x, ordinary=False) and bool(kept.all()) else kept


def check_range(labels: Tensor, x: Tensor, num_classes: int) -> Tensor:
    """Return labels if they are from 0 to `num_classes - 1`, which is checked on the CPU only."""
    if len(labels) and may_read_values(x, ordinary=False):
        low, high = (int(value) for value in torch.aminmax(labels))
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            cure = (
                "number classes from 0 and label excluded rows ignore_index"
                if low < 0
                else f"build it with num_classes={high + 1}"
            )
            raise LabelError(
                f"label {wrong} does not exist: this was built for {num_classes} classes (0 to {num_classes - 1}); "
                f"{cure}, or check the data set's label map."
            )
    return labels


def check_steps(name: str, value: int) -> int:
    """Return the value if it is a valid number of steps; raise `OptionError` otherwise."""
    if value < 0:
        raise OptionError(f"{name} is {value} but must be a number of steps of at least 0.")
    return value


def check_sizes(feature_dim: int, num_classes: int) -> None:
    """Raise `OptionError` unless both sizes are at least 1."""
    if num_classes < 1 or feature_dim < 1:
        raise OptionError(f"feature_dim is {feature_dim} and num_classes is {num_classes}: both must be at least 1.")


def check_positive(name: str, value: float) -> float:
    """Return the value if it is a finite number above 0; raise `OptionError` otherwise."""
    if not 0 < value < float("inf"):
        raise OptionError(f"{name} is {value} but must be a finite number above 0.")
    return value


def check_ignore_index(ignore_index: int) -> None:
    """Raise `OptionError` unless `ignore_index` is a whole number."""
    if not is_number(ignore_index) or ignore_index != int(ignore_index):
        raise OptionError(
            f"ignore_index is {ignore_index!r} but must be the integer label of excluded rows, such as -100."
        )


def is_number(value: object) -> bool:
    """Return whether `value` is a real number, from Python or NumPy, and not a bool."""
    return type(value) in (int, float) or (isinstance(value, Real) and not isinstance(value, bool))


def is_readable(value: Tensor) -> bool:
    """Return whether Python may read a number at no cost: on the CPU, outside of a graph that is compiled."""
    return value.is_cpu and not torch.compiler.is_compiling()


def mean_or_zero(values: Tensor, kept: Tensor | None = None) -> Tensor:
    """Return the mean over the rows in the mask `kept`, by default over all; 0 if there are none."""
    if kept is None:
        return values.sum() / max(1, values.numel())
    return values.where(kept, 0).sum() / kept.sum().clamp(min=1)
