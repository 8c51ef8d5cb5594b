"""Features and labels as rows that belong together: samples, tokens or pixels."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge

from ..errors import FeatureError, LabelError, OptionError

COARSE, FINE = 16, 4096  # digits below these survive a scale factor in half precision, and in single precision
GIVE = "say what the features are with features=lambda output: ..."


def as_vectors(features: Tensor, channels_first: bool) -> Tensor:
    """Features as (N, D): one row for each sample, token or pixel."""
    if features.ndim > 2 and channels_first:
        features = features.movedim(1, -1)
    return features.reshape(-1, features.shape[-1])


def class_axis(logits: Tensor, target: Tensor) -> int:
    """Which axis of the logits is that of the classes: 1, as for PyTorch's losses, or the last."""
    if logits.ndim <= 2 or target.shape == logits.shape:
        return min(1, logits.ndim - 1)
    second = target.shape == (len(logits), *logits.shape[2:])
    last = target.shape == logits.shape[:-1]
    if second and last:
        raise OptionError(
            f"logits of shape {tuple(logits.shape)} can be read in two ways, with classes second or last: flatten "
            "logits and target to (N, C) and (N,) before the criterion."
        )
    if not second and not last:
        raise LabelError(
            f"logits have shape {tuple(logits.shape)} and target {tuple(target.shape)}: give a target of shape "
            f"{(len(logits), *logits.shape[2:])}, or {tuple(logits.shape[:-1])} if the classes come last."
        )
    return 1 if second else logits.ndim - 1


def as_labels(target: Tensor, logits: Tensor, axis: int) -> Tensor:
    """The target as (N,) class ids or (N, C) soft labels, in the order of the logits' rows."""
    if target.is_floating_point() and target.shape == logits.shape:
        return target.movedim(axis, -1).reshape(-1, logits.shape[axis])
    return target if logits.ndim <= 2 else target.reshape(-1)


def flat_rows(logits: Tensor, axis: int) -> int:
    """The number of rows of some logits."""
    return logits.numel() // max(1, logits.shape[axis])


def resize_labels(target: Tensor, size: Sequence[int]) -> Tensor:
    """The nearest label for each pixel of a smaller or larger map, (B, H, W) to (B, h, w)."""
    resized = F.interpolate(target[:, None].double(), size=tuple(size), mode="nearest-exact")
    return resized[:, 0].to(target.dtype)


def route(edges: Sequence[GradientEdge], rows: Tensor, channels_first: bool, logits: Tensor, axis: int) -> Tensor:
    """Bring feature rows into the order of the logits' rows, combined as the outputs of their layer were.

    The gradient of a logit with respect to the outputs of the layer shows which of them it was made from: every row
    of the logits sends its number back, and each output receives the number of the row that it went to.

    Args:
        edges: the outputs of all calls of the layer in the graph.
        rows: the features of all calls as (N, D).
        channels_first: whether the classes are the second axis of the layer's outputs instead of the last.
        logits: what the outputs became.
        axis: axis of the classes in the logits.
    """
    count = flat_rows(logits, axis)
    send = partial(_send, edges=edges, channels_first=channels_first, logits=logits, axis=axis)
    weights = send(torch.ones(count, device=logits.device))
    used = weights != 0
    places = _receive(send, count, weights, used, logits.device)
    sizes = torch.bincount(places, minlength=count + 1)
    if len(rows) != len(weights) or places.numel() == 0 or int(sizes[:count].min()) == 0 or len(sizes) > count + 1:
        raise FeatureError(f"some rows of the logits were made from no row of their layer's output: {GIVE}.")
    if int(sizes.max()) == 1:
        return rows[used][places.argsort()]
    shares = weights[used, None].to(rows.dtype)
    total = shares.new_zeros(count, 1).index_add(0, places, shares)
    return rows.new_zeros(count, rows.shape[1]).index_add(0, places, rows[used] * shares) / total


def _receive(
    send: Callable[[Tensor], Tensor], count: int, weights: Tensor, used: Tensor, device: torch.device
) -> Tensor:
    """For each output row that was used, the row of the logits that it went to; its number is sent digit by digit."""
    base = FINE if weights.dtype in (torch.float32, torch.float64) else COARSE
    numbers, places = torch.arange(count, device=device), torch.zeros_like(used, dtype=torch.long)[used]
    for place in range(math.ceil(math.log(max(2, count), base))):
        digits = (send(numbers // base**place % base)[used] / weights[used]).double()
        if bool(((digits - digits.round()).abs() > 0.25).any()):
            raise FeatureError(f"each row of the logits mixes the outputs of several samples: {GIVE}.")
        places = places + digits.round().long() * base**place
    return places


def _send(values: Tensor, edges: Sequence[GradientEdge], channels_first: bool, logits: Tensor, axis: int) -> Tensor:
    """Send a value back from the first class of each row of the logits; what every output row receives in all classes.

    The classes may be in another order there, or each logit may be made from several; all of what is received is
    proportional to what was sent.
    """
    like = logits.detach().movedim(axis, -1)
    gradient = torch.zeros_like(like)
    gradient[..., 0] = values.view(like.shape[:-1]).to(like.dtype)
    received = torch.autograd.grad(logits, edges, gradient.movedim(-1, axis), retain_graph=True)
    return torch.cat([as_vectors(part.detach(), channels_first).abs().sum(1) for part in received])
