"""Features and labels as rows that belong together: samples, tokens or pixels."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import FeatureError, LabelError, OptionError

BITS, COARSE, FINE = 2, 4, 4096  # bases of the numbers that are sent: blurred, in half and in single precision
TOLERANCE = {BITS: 0.75, COARSE: 0.1, FINE: 0.02}  # error of a received digit
GOLDEN = 0.6180339887498949  # multiples of it have fractional parts that differ
CURE = "return the features from the model and pass features=lambda output: output[1]"

Send = Callable[[Tensor], Tensor]
"""Takes one number per row of the logits; returns what every row of a layer's output receives of them, (M, K)."""


def as_vectors(features: Tensor, channels_first: bool) -> Tensor:
    """Return features as (N, D): one row per sample, token or pixel."""
    if features.ndim > 2 and channels_first:
        features = features.movedim(1, -1)
    return features.reshape(-1, features.shape[-1])


def squeeze_target(logits: Tensor, target: Tensor) -> Tensor:
    """Remove the channel of a (B, 1, ...) target of class ids for (B, C, ...) logits."""
    channel = target.ndim == logits.ndim > 2 and target.shape[1] == 1 != logits.shape[1]
    return target.squeeze(1) if channel and target.shape[2:] == logits.shape[2:] else target


def class_axis(logits: Tensor, target: Tensor) -> int | None:
    """Return the axis of the classes: 1, as for PyTorch's losses, or the last; None for (B,) logits of two classes."""
    if logits.ndim <= 1:
        return None
    if logits.ndim == 2 or target.shape == logits.shape:
        return 1
    second = target.shape == (len(logits), *logits.shape[2:])
    last = target.shape == logits.shape[:-1]
    if second and last:
        raise OptionError(
            f"logits of shape {tuple(logits.shape)} can have their classes second or last: flatten logits and target "
            "to (N, C) and (N,) before the criterion."
        )
    if not second and not last:
        raise LabelError(
            f"logits have shape {tuple(logits.shape)} and target {tuple(target.shape)}: pass a target of shape "
            f"{(len(logits), *logits.shape[2:])}, or {tuple(logits.shape[:-1])} if the classes come last."
        )
    return 1 if second else logits.ndim - 1


def as_labels(target: Tensor, logits: Tensor, axis: int | None) -> Tensor:
    """Return the target as (N,) class ids or (N, C) label rows, in the order of the logits' rows."""
    classes = 1 if axis is None else logits.shape[axis]
    if target.shape == logits.shape and axis is not None and classes > 1:
        rows = target.movedim(axis, -1).reshape(-1, classes)
        return rows if rows.is_floating_point() else rows.float()
    if classes == 1 and target.numel() == logits.numel():
        target = target.reshape(-1)
        return torch.stack([1 - target, target], 1) if target.is_floating_point() else target.long()
    return target if logits.ndim <= 2 else target.reshape(-1)


def count_rows(logits: Tensor, axis: int | None) -> int:
    """Return the number of rows of some logits."""
    return logits.numel() // max(1, 1 if axis is None else logits.shape[axis])


def resize_labels(target: Tensor, size: Sequence[int]) -> Tensor:
    """Return the nearest label for each pixel of a smaller or larger map, (B, H, W) to (B, h, w)."""
    resized = F.interpolate(target[:, None].double(), size=tuple(size), mode="nearest-exact")
    return resized[:, 0].to(target.dtype)


def spread(values: Tensor, like: Tensor, axis: int | None) -> Tensor:
    """Return a cotangent shaped like the logits: the value of each row times a fixed coefficient per class.

    The coefficients differ, so that what subtracts a mean over classes does not cancel them.
    """
    if axis is None:
        return values.view(like.shape).to(like.dtype)
    last = like.movedim(axis, -1)
    classes = torch.arange(last.shape[-1], device=like.device, dtype=torch.float64)
    coefficients = 1 + (classes * GOLDEN).frac()
    sent = values.double().view(last.shape[:-1])[..., None] * coefficients
    return sent.to(like.dtype).movedim(-1, axis)


def route(send: Send, rows: Tensor, count: int, fine: bool) -> Tensor:
    """Bring feature rows into the order of the logits' rows, combined as the outputs of their layer were.

    What lies between is linear but for functions of single numbers, so a logit's gradient shows from which outputs it
    was made: every row of the logits sends its number back, and an output row receives the number of the row that it
    went to, times its weight there.

    Args:
        send: sends numbers back from the rows of the logits.
        rows: (M, D) features, one row per output row.
        count: number of rows of the logits.
        fine: whether everything between has at least single precision.
    """
    weights = send(torch.ones(count, device=rows.device)).to(torch.promote_types(rows.dtype, torch.float32))
    used = _used(weights)
    index = _receive(send, count, weights, used, FINE if fine else COARSE)
    sizes = _sizes(index, count)
    if len(rows) != len(weights):
        raise FeatureError(f"the layer has {len(rows)} rows of features and {len(weights)} rows of output: {CURE}.")
    if int(sizes.max()) == 1:
        return rows[used][index.argsort()]
    weights = weights[used]
    largest = weights[weights.square().sum(1).argmax()]
    shares = (weights @ largest / largest.square().sum())[:, None]
    if bool(((weights - shares * largest).norm(dim=1) > 0.02 * weights.norm(dim=1)).any()):
        raise FeatureError(
            f"the classes of one row of the logits come from several rows of the layer's output: {CURE}."
        )
    shares = shares.to(rows.dtype)
    total = shares.new_zeros(count, 1).index_add(0, index, shares.abs())
    return rows.new_zeros(count, rows.shape[1]).index_add(0, index, rows[used] * shares) / total


def find_order(send: Send, count: int) -> Tensor:
    """Return which sample of a deep layer each row of the logits was made from, where a network lies between.

    Batch normalization lets every sample depend a little on all others, and removes what is equal in all. So numbers
    are sent with alternating signs, and bit by bit if the digits are blurred: then the largest part decides.
    """
    signs = 1.0 - 2.0 * (torch.randperm(count, generator=torch.Generator().manual_seed(0)) % 2)

    def send_signed(values: Tensor) -> Tensor:
        return send(values * signs.to(values.device))

    weights = send_signed(torch.ones(count))
    used = _used(weights)
    try:
        index = _receive(send_signed, count, weights, used, FINE)
    except FeatureError:
        index = _receive(send_signed, count, weights, used, BITS)
    if int(_sizes(index, count).max()) > 1:
        raise FeatureError(f"several samples of the named layer are combined into one row of the logits: {CURE}.")
    return torch.arange(len(used), device=index.device)[used][index.argsort()]


def _used(weights: Tensor) -> Tensor:
    norms = weights.square().sum(1)
    return norms > 1e-12 * norms.max()


def _sizes(index: Tensor, count: int) -> Tensor:
    sizes = torch.bincount(index, minlength=count)
    if index.numel() == 0 or len(sizes) > count or int(sizes.min()) == 0:
        raise FeatureError(f"some rows of the logits depend on no row of the layer's output: {CURE}.")
    return sizes


def _receive(send: Send, count: int, weights: Tensor, used: Tensor, base: int) -> Tensor:
    """Return for each used output row the row of the logits that it went to; its number is sent digit by digit.

    A fractional part that depends on the row is added to each digit, so that a mean of several digits is noticed. Bits
    are sent as -1 and 1, whose means are near 0.
    """
    numbers = torch.arange(count, device=weights.device)
    kept = weights[used].double()
    powers = [base**power for power in range(max(1, math.ceil(math.log(max(2, count), base))))]

    def encode(index: Tensor, power: int) -> Tensor:
        digit = (index // power % base).double()
        return 2 * digit - 1 if base == BITS else digit + 0.5 * (index.double() * GOLDEN).frac()

    received = [(send(encode(numbers, power))[used].double() * kept).sum(1) / kept.square().sum(1) for power in powers]
    index = torch.zeros(len(kept), dtype=torch.long, device=weights.device)
    for value, power in zip(received, powers, strict=True):
        index += power * ((value > 0).long() if base == BITS else (value + 0.25).floor().long())
    known = index.clamp(0, count - 1)
    for value, power in zip(received, powers, strict=True):
        wrong = (value - encode(known, power)).abs() > TOLERANCE[base]
        if bool((wrong | (index != known)).any()):
            raise FeatureError(f"one sample is part of several rows of the logits: {CURE}.")
    return index
