"""Every collective of the package as work on several ranks, of which one may have no sample."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

Work = Callable[[int, int, int], Any]
ROWS, WIDTH, CLASSES = 24, 8, 5


def _samples(rank: int, world: int, empty: int, seed: int = 0) -> tuple[Tensor, Tensor, slice]:
    """The samples of a rank, of the same batch for all; the ranks that are not empty share them."""
    chance = torch.Generator().manual_seed(seed)
    features = torch.randn(ROWS, WIDTH, generator=chance)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=chance)
    filled = [each for each in range(world) if each != empty]
    if rank == empty:
        return features[:0], labels[:0], slice(0, 0)
    each = ROWS // len(filled)
    place = filled.index(rank)
    end = ROWS if place == len(filled) - 1 else (place + 1) * each
    return features[place * each : end], labels[place * each : end], slice(place * each, end)


def _projection(form: str, ignored: bool, rank: int, world: int, empty: int) -> list[float]:
    """OPL of the global batch, and the sum of its gradients over all ranks."""
    import torch.distributed as dist

    import opl

    features, labels, _ = _samples(rank, world, empty)
    if ignored and rank == empty:  # samples that take no part are as good as none
        features, labels = torch.randn(3, WIDTH), torch.full((3,), -100)
    features.requires_grad_()
    found = opl.orthogonal_projection(features, labels, form=form, group=dist.group.WORLD)
    found.loss.backward()
    assert features.grad is not None
    total = features.grad.abs().sum() / world  # DDP averages, so that each rank has `world` times its share
    dist.all_reduce(total)
    return [float(found.loss), float(found.same), float(found.other), float(total)]


def _soft(rank: int, world: int, empty: int) -> list[float]:
    import torch.distributed as dist

    import opl

    features, labels, _ = _samples(rank, world, empty)
    soft = torch.nn.functional.one_hot(labels, CLASSES).float() * 0.8 + 0.2 / CLASSES
    found = opl.orthogonal_projection(features, soft, group=dist.group.WORLD)
    return [float(found.loss), float(found.same), float(found.other)]


def _geometry(rank: int, world: int, empty: int) -> list[float]:
    from opl.geometry import Geometry

    features, labels, _ = _samples(rank, world, empty)
    geometry = Geometry(WIDTH, num_classes=CLASSES)
    if len(labels):
        geometry.update(features, labels)
    merged = geometry.all_reduce()
    return [float(merged.same), float(merged.other()), float(merged.orthogonality())]


def _centers(rank: int, world: int, empty: int) -> list[float]:
    from opl.losses import CenterLoss

    torch.manual_seed(0)
    loss = CenterLoss(WIDTH, num_classes=CLASSES, global_batch=True)
    features, labels, _ = _samples(rank, world, empty)
    for _ in range(2):
        loss(features.requires_grad_(), labels)
    moved: list[float] = loss.centers.flatten().tolist()
    return moved


def _perpetual(rank: int, world: int, empty: int) -> list[float]:
    import torch.distributed as dist

    from opl.losses import PerpetualProjectionLoss

    torch.manual_seed(0)
    loss = PerpetualProjectionLoss(WIDTH, num_classes=CLASSES, version=1, global_batch=True)
    features, labels, _ = _samples(rank, world, empty)
    value = loss(features, labels)
    if len(labels):
        value.backward()
    dist.barrier()
    return [1.0]  # its value is that of the local batch; what counts is that every rank comes out of it


def _validation(keep: bool, nobody: bool, rank: int, world: int, empty: int) -> list[float]:
    """Accuracy, loss and geometry of images that are shared out."""
    import torch.distributed as dist
    from torch import nn

    from opl.experiments.training.validation import validate
    from opl.experiments.types import Batch, Output

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = nn.Linear(WIDTH, CLASSES)

        def forward(self, images: Tensor) -> Output:
            return Output(images, self.fc(images))

    features, labels, where = _samples(rank, world, empty)
    rows = torch.arange(ROWS)[where]
    batches = [Batch(features, labels, rows, 1.0)] if len(labels) and not nobody else []
    found = validate(Network(), batches, CLASSES, group=dist.group.WORLD, keep=keep)
    return [0.0] if nobody else [found.numbers[name] for name in ("top1", "top5", "loss", "s", "d")]


WORK: dict[str, Work] = {
    **{f"OPL, {form}": partial(_projection, form, False) for form in ("mean_abs", "abs_mean", "mean")},
    **{f"OPL, {form}, labels ignored": partial(_projection, form, True) for form in ("mean_abs", "abs_mean", "mean")},
    "OPL, soft labels": _soft,
    "geometry": _geometry,
    "centers": _centers,
    "perpetual directions": _perpetual,
    "validation": partial(_validation, False, False),
    "validation with predictions": partial(_validation, True, False),
    "validation of nothing": partial(_validation, True, True),
}
