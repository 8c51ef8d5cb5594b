"""Top-1 and top-5 accuracy and cross-entropy of a data set, and the geometry of its features, in one pass."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...geometry import Geometry
from ..types import Batch


@torch.no_grad()
def accuracy(model: nn.Module, batches: Iterable[Batch], num_classes: int, group: Any = None) -> dict[str, float]:
    """`top1`, `top5` in per cent, `loss`, and `s`, `d`, `orthogonality` of the features.

    Args:
        model: returns `Output`; it is put into evaluation mode and back.
        batches: each process's own share of the data.
        num_classes: of the data.
        group: the processes to add up over, if there are several.
    """
    was_training = model.training
    model.eval()
    sums = torch.zeros(4, dtype=torch.float64)
    geometry: Geometry | None = None
    for batch in batches:
        features, logits = model(batch.images)
        logits = logits.float()
        ranks = logits.topk(min(5, num_classes), dim=1).indices == batch.labels[:, None]
        entropy = F.cross_entropy(logits, batch.labels, reduction="sum")
        sums += torch.stack([ranks[:, 0].sum(), ranks.any(1).sum(), entropy, batch.labels.new_tensor(len(ranks))]).cpu()
        if geometry is None:
            geometry = Geometry(num_classes, features.shape[1])
        geometry.update(features, batch.labels)
    model.train(was_training)
    if geometry is None:
        return {}
    if group is not None:
        torch.distributed.all_reduce(sums, group=group)
        geometry.all_reduce(group)
    first, five, entropy_sum, rows = sums.tolist()
    return {
        "top1": 100 * first / rows,
        "top5": 100 * five / rows,
        "loss": entropy_sum / rows,
        "s": geometry.same,
        "d": geometry.other(),
        "orthogonality": geometry.orthogonality(),
        "expected_orthogonality": geometry.expected_orthogonality("mean"),
    }
