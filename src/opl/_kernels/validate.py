"""Validation of features and labels, and conversion to one shape and dtype."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import FeatureError, LabelError
from .normalize import is_traced

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
    if not may_read_values(x, ordinary=False):
        return ValidBatch(x, labels, _ignored(labels, ignore_index), None)
    some_ignored, largest = _check_label_values(labels, ignore_index)
    ignored = _ignored(labels, ignore_index) if some_ignored else None
    if largest < 1 / torch.finfo(x.dtype).eps:
        labels = labels.to(x.dtype)
    if x.numel() == 0:
        return ValidBatch(x, labels, ignored, True)
    low, high = (value.item() for value in torch.aminmax(x.detach()))
    if not (math.isfinite(low) and math.isfinite(high)):
        raise FeatureError(
            f"the features hold {'NaN' if math.isnan(low) else 'infinite values'}: the model has diverged or its input "
            "is broken; lower the learning rate, clip gradients, or check the batch before the loss."
        )
    return ValidBatch(x, labels, ignored, low >= 0)


def _ignored(labels: Tensor, ignore_index: int) -> Tensor:
    ignored = labels == ignore_index
    return ignored if labels.ndim == 1 else ignored.all(1)


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
        raise FeatureError(f"{name} are a {type(x).__name__}: give a torch.Tensor of shape (B, D).")
    if not x.is_floating_point():
        raise FeatureError(f"{name} are {x.dtype}: give floating point, for instance {name}.float().")
    if x.ndim == 4 and x.shape[2:] == (1, 1):
        x = x.flatten(1)
    if x.ndim != 2:
        raise FeatureError(
            f"{name} have shape {tuple(x.shape)}: give (B, D) or (B, D, 1, 1), one vector a sample; pool or "
            f"flatten the rest first, for instance with {name}.mean((2, 3))."
        )
    if x.shape[1] == 0:
        raise FeatureError(f"{name} have shape {tuple(x.shape)}: a vector needs at least one number.")
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def check_labels(labels: Tensor, x: Tensor) -> Tensor:
    """Return (B,) class ids or (B, C) soft labels that match `x`; raise `LabelError` if they are invalid."""
    if not isinstance(labels, Tensor):
        raise LabelError(f"labels are a {type(labels).__name__}: give a torch.Tensor of (B,) class ids.")
    shape, soft = tuple(labels.shape), labels.is_floating_point()
    if labels.is_complex() or not (1 <= labels.ndim <= 2):
        raise LabelError(
            f"labels have shape {shape} and type {labels.dtype}: give (B,) class ids or (B, C) soft labels."
        )
    if len(labels) != len(x):
        raise LabelError(f"{len(labels)} labels for {len(x)} features: give one label for each row of the features.")
    if soft and labels.ndim == 1:
        raise LabelError(
            f"labels are {labels.dtype} of shape {shape}: class ids are integers, for instance labels.long()."
        )
    if not soft and labels.ndim == 2 and labels.shape[1] != 1:
        raise LabelError(
            f"labels are {labels.dtype} of shape {shape}: for one-hot rows use labels.float() or labels.argmax(1); "
            "class ids have shape (B,)."
        )
    if labels.device != x.device:
        raise LabelError(
            f"labels are on {labels.device} and features on {x.device}: move them with labels.to(features.device)."
        )
    labels = labels.detach()
    if soft:
        return labels.to(x.dtype)
    return labels.reshape(-1).long()


def _check_label_values(labels: Tensor, ignore_index: int) -> tuple[bool, float]:
    """Raise `LabelError` for invalid values; return whether any row is ignored, and the largest label."""
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
            f"{labels[row].min().item():.4g}: rows must be non-negative and sum to 1, since OPL has no "
            "meaning for several labels a sample; integer labels have shape (B,)."
        )
    return bool(ignored.any()), high
