"""The exact loss and gradient of one batch spread over processes, with little communication.

Every process receives the labels of all processes (eight bytes a sample), so that all number the classes identically.
Then either the class sums are added over the processes or, if that sends less, the features are gathered; the mean of
|cos| of signed features always needs the features. The backward pass sends nothing, because the gradient of a sample
follows from the sums. It is multiplied by the number of processes, because DDP and FSDP divide by that number.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import DistributedError, OplError, OptionError, did_you_mean
from .class_sums import (
    Classes,
    Hard,
    Layout,
    Soft,
    classes_of,
    gradient,
    layout,
    layout_of_sums,
    soft_alone,
    soft_layout,
    sums_are_exact,
)
from .normalize import inverse_norms, outside_graphs
from .pairs import Kind
from .tiled import PairSum, attach, cross, finish, pair_sum
from .validate import ValidBatch, join, validate

ALGORITHMS = ("auto", "class_sums", "features")
Parts = tuple[Tensor, Tensor, Tensor, Tensor]  # s, d, and the gradients of s and of d for the local rows
Found = tuple[Parts, Layout | None]


class Header(NamedTuple):
    """Description of a local batch, exchanged first; `width` is 0 for class ids and C for soft labels."""

    usable: int
    rows: int
    dim: int
    width: int
    double: int
    nonnegative: int


@outside_graphs
def global_similarities(
    features: Tensor,
    labels: Tensor,
    kind: Kind,
    ignore_index: int,
    group: Any,
    algorithm: str,
    with_layout: bool = False,
) -> tuple[Tensor, Tensor, Layout | None]:
    """Return s and d of the combined batch of all processes of `group`.

    With `with_layout`, also return how its classes lie.
    """
    if algorithm not in ALGORITHMS:
        raise OptionError(did_you_mean("algorithm", algorithm, ALGORITHMS))
    rank, world = rank_and_size(group)
    batch, headers = agree(features, labels, ignore_index, group)
    x, width = batch.x, max(header.width for header in headers)
    sizes = [header.rows for header in headers]
    rows = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    straight = kind == "signed" or (kind == "absolute" and all(header.nonnegative for header in headers))
    if algorithm == "class_sums" and not straight:
        raise OptionError(
            "algorithm='class_sums' cannot compute form='squared', nor form='mean_abs' if a process has a negative "
            "feature: use algorithm='auto', or form='abs_mean' or 'mean'."
        )
    with torch.no_grad():
        local = batch.labels.long() if width == 0 else batch.labels.reshape(-1, width).to(x.dtype)
        result: Found | None = None
        if width == 0:
            every = _gather(local, sizes, group)
            classes = Hard.of(every, _left_out(every, ignore_index))
            fewer = sum(sizes) >= 2 * len(classes.counts)  # less data: an all-reduce sends its input about twice
            if straight and (algorithm == "class_sums" or (algorithm == "auto" and fewer)):
                result = _by_sums(x, classes.part(rows), group, with_layout)
        elif straight and (algorithm == "class_sums" or (algorithm == "auto" and sum(sizes) >= 2 * width)):
            result = _by_sums(x, Soft.of(local, batch.ignored), group, with_layout)
        if result is None:
            every = every if width == 0 else _gather(local, sizes, group)
            everything, left_out = _gather(x, sizes, group), _left_out(every, ignore_index)
            parts = _by_features(everything, every, left_out, rows, kind, straight, group)
            result = parts, layout(everything, every, left_out) if with_layout else None
    return *attach(x, *result[0], scale=float(world)), result[1]


@outside_graphs
def global_cross(
    features: Tensor,
    labels: Tensor,
    references: tuple[Tensor, Tensor],
    kind: Kind,
    ignore_index: int,
    group: Any,
) -> tuple[Tensor, Tensor]:
    """Return s and d over the pairs of all processes' features with all processes' references, which are gathered."""
    rank, world = rank_and_size(group)
    batches, blocks, starts, nonnegative = [], [], [], True
    for x, y in ((features, labels), references):
        batch, headers = agree(x, y, ignore_index, group)
        width, sizes = max(header.width for header in headers), [header.rows for header in headers]
        kind_of_labels = batch.labels.long() if width == 0 else batch.labels.reshape(-1, width).to(batch.x.dtype)
        every = _gather(kind_of_labels, sizes, group)
        batches.append(batch)
        blocks.append(ValidBatch(_gather(batch.x.detach(), sizes, group), every, _left_out(every, ignore_index), None))
        starts.append(sum(sizes[:rank]))
        nonnegative = nonnegative and all(header.nonnegative for header in headers)
    everything, split = join(*blocks), len(blocks[0].x)
    mine = torch.cat([batch.x for batch in batches])
    here = [torch.arange(len(batch.x), device=mine.device) for batch in batches]
    rows = torch.cat([here[0] + starts[0], here[1] + starts[1] + split])
    z = everything.x.requires_grad_()
    with torch.enable_grad():
        values = cross(z, everything.labels, everything.ignored, split, kind, nonnegative)
    gradients = [torch.autograd.grad(value, z, retain_graph=True)[0][rows] for value in values]
    return attach(mine, values[0].detach(), values[1].detach(), gradients[0], gradients[1], scale=float(world))


def _left_out(labels: Tensor, ignore_index: int) -> Tensor | None:
    """Return the mask of the rows to exclude; None if there are none."""
    ignored = labels == ignore_index if labels.ndim == 1 else (labels == ignore_index).all(1)
    return ignored if bool(ignored.any()) else None


def _by_sums(x: Tensor, classes: Classes, group: Any, with_layout: bool) -> Found | None:
    """Compute the parts from class sums over all processes; None if that is inaccurate for these soft labels."""
    inverse = inverse_norms(x, classes.ignored)
    moments = add_up(classes.moments(x, inverse), group)
    if isinstance(classes, Soft) and not sums_are_exact(moments[3][0].item(), moments[2]):
        return None
    stats = classes.stats(moments)
    gradients = [gradient(x, inverse, classes, moments, *of) for of in ((1.0, 0.0), (0.0, 1.0))]
    parts = stats.same, stats.other, gradients[0], gradients[1]
    if not with_layout:
        return parts, None
    if isinstance(classes, Hard):
        return parts, layout_of_sums(moments[0], classes.counts)
    alone, _ = add_up(soft_alone(classes.weights, moments[2], classes.ignored), group)
    return parts, soft_layout(moments, alone)


def _by_features(
    x: Tensor, labels: Tensor, ignored: Tensor | None, rows: slice, kind: Kind, straight: bool, group: Any
) -> Parts:
    """Compute the parts from the gathered features: class sums where they are exact, otherwise local tiles."""
    classes = classes_of(labels, ignored)
    inverse = inverse_norms(x, ignored)
    mine, my_inverse = x[rows], inverse[rows]

    def tiles(same: bool) -> tuple[Tensor, Tensor]:
        weights = labels if isinstance(classes, Hard) else classes.weights
        unit = x * inverse[:, None]
        of: Kind = "signed" if same else kind
        part = pair_sum(unit, weights, ignored, rows, same=same, kind=of, pull=True)
        cosines, weight = add_up((part.cosines, part.weights), group)
        return finish(mine, my_inverse, PairSum(cosines, weight, part.pull), of)

    if isinstance(classes, Soft):
        (same, same_gradient), (other, other_gradient) = tiles(True), tiles(False)
        return same, other, same_gradient, other_gradient
    moments, part = classes.moments(x, inverse), classes.part(rows)
    stats = classes.stats(moments)
    same_gradient = gradient(mine, my_inverse, part, moments, 1.0, 0.0)
    if straight:
        return stats.same, stats.other, same_gradient, gradient(mine, my_inverse, part, moments, 0.0, 1.0)
    other, other_gradient = tiles(False)
    return stats.same, other, same_gradient, other_gradient


def rank_and_size(group: Any) -> tuple[int, int]:
    """Return the rank of this process in the group, and the size of the group."""
    if not (dist.is_available() and dist.is_initialized()):
        raise DistributedError(
            "a global batch needs a process group, but there is none: call torch.distributed.init_process_group() "
            "first (under torchrun), or leave global_batch and group at their defaults for the local batch."
        )
    rank = dist.get_rank(group)
    if rank < 0:
        raise DistributedError(
            "this process is not a member of the group it was given: pass a group that it belongs to."
        )
    return rank, dist.get_world_size(group)


def agree(
    features: Tensor,
    labels: Tensor,
    ignore_index: int,
    group: Any,
    check: Callable[[ValidBatch], object] = lambda batch: None,
) -> tuple[ValidBatch, list[Header]]:
    """Check the local batch and exchange headers, so that an invalid batch stops all processes without a hang.

    `check` may raise further errors about the local batch.
    """
    problem: OplError | None = None
    header = Header(0, 0, 0, 0, 0, 0)
    try:
        batch = validate(features, labels, ignore_index)
        check(batch)
        nonnegative = bool((batch.x >= 0).all()) if batch.nonnegative is None else batch.nonnegative
        width = batch.labels.shape[1] if batch.labels.ndim == 2 and len(batch.labels) else 0
        double = batch.x.dtype == torch.float64
        header = Header(1, len(batch.x), batch.x.shape[1], width, int(double), int(nonnegative))
    except OplError as error:
        problem = error
    device = features.device if isinstance(features, Tensor) else torch.device("cpu")
    gathered = _gather_alike(torch.tensor([header], device=device), group)
    headers = [Header(*row) for row in gathered.tolist()]
    if problem is not None:
        raise problem
    for rank, other in enumerate(headers):
        if not other.usable:
            raise DistributedError(f"process {rank} of the group rejected its batch: see the error of that process.")
        same_labels = header.width == other.width or 0 in (header.rows, other.rows)
        if (header.dim, header.double) != (other.dim, other.double) or not same_labels:
            raise DistributedError(
                f"process {rank} has features of {other.dim} numbers and labels of width {other.width}, but this "
                f"process {header.dim} and {header.width} (or their types differ): pass "
                "every process the same kind of batch."
            )
    return batch, headers


@outside_graphs
def check_and_agree(
    features: Tensor, labels: Tensor, ignore_index: int, group: Any, check: Callable[[ValidBatch], object]
) -> ValidBatch:
    """Return the validated local batch, checked further by `check`; with a group, an error stops all its processes."""
    if group is None:
        batch = validate(features, labels, ignore_index)
        check(batch)
        return batch
    rank_and_size(group)
    return agree(features, labels, ignore_index, group, check)[0]


@outside_graphs
def add_up(tensors: tuple[Tensor, ...], group: Any) -> tuple[Tensor, ...]:
    """Return each tensor's sum over the processes, with one all-reduce."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    dist.all_reduce(flat, group=group)
    pieces = torch.split(flat, [tensor.numel() for tensor in tensors])
    return tuple(piece.view(tensor.shape) for piece, tensor in zip(pieces, tensors, strict=True))


def _gather(rows: Tensor, sizes: list[int], group: Any) -> Tensor:
    """Return the rows of all processes in rank order; uneven batches are padded to the longest one for sending."""
    longest = max(sizes)
    if longest == 0:
        return rows
    padded = rows.new_zeros(longest, *rows.shape[1:])
    padded[: len(rows)] = rows
    out = _gather_alike(padded, group)
    if min(sizes) == longest:
        return out
    return torch.cat([out[rank * longest : rank * longest + size] for rank, size in enumerate(sizes)])


def _gather_alike(rows: Tensor, group: Any) -> Tensor:
    """Return the rows of all processes in rank order; all must have the same number of rows."""
    out = rows.new_empty(dist.get_world_size(group), *rows.shape)
    dist.all_gather(list(out.unbind(0)), rows.contiguous(), group=group)
    return out.flatten(0, 1)


def message_device(group: Any) -> torch.device:
    """Return the device for communication, the same on every process even before its first batch."""
    if not (dist.is_available() and dist.is_initialized()):
        raise DistributedError(
            "all_reduce needs a process group, but there is none: call torch.distributed.init_process_group() first "
            "(under torchrun), or merge() geometries that are in one process."
        )
    if dist.get_rank(group) < 0:
        raise DistributedError("this process is not a member of the group of all_reduce: pass a group with it.")
    if "cpu:" in dist.get_backend_config(group):
        return torch.device("cpu")
    return torch.device(torch.accelerator.current_accelerator() or "cpu")
