"""What a model says of a data set, as plain arrays: for figures and pages, which are made without torch."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ...geometry import Geometry
from ..types import Batch, Images

FEATURE_ROWS = 10_000
PICTURE_BYTES = 600_000


@torch.no_grad()
def outputs(model: nn.Module, batches: Iterable[Batch], num_classes: int) -> dict[str, Any]:
    """NumPy arrays, a row an image in the order of the batches.

    `labels` (N,), `top5` (N, 5) class ids and `p5` their probabilities, `features` of the first 10,000 images, and
    `similarity` (C, C), the cosines between the classes' average features, 0 where a class has no image.

    Args:
        model: returns `Output`; it is put into evaluation mode and back.
        batches: all of the data.
        num_classes: of the model.
    """
    was_training = model.training
    model.eval()
    rows: dict[str, list[torch.Tensor]] = {"labels": [], "top5": [], "p5": [], "features": []}
    geometry: Geometry | None = None
    for batch in batches:
        features, logits = model(batch.images)
        p5, top5 = logits.float().softmax(1).topk(min(5, logits.shape[1]), dim=1)
        if geometry is None:
            geometry = Geometry(num_classes, features.shape[1])
        geometry.update(features, batch.labels)
        for name, value in (("labels", batch.labels), ("top5", top5), ("p5", p5), ("features", features)):
            rows[name].append(value.cpu())
    model.train(was_training)
    if geometry is None:
        return {}
    found = {name: torch.cat(values) for name, values in rows.items()}
    limit = torch.finfo(torch.float16).max
    return {
        "labels": found["labels"].int().numpy(),
        "top5": found["top5"].short().numpy(),
        "p5": found["p5"].half().numpy(),
        "features": found["features"][:FEATURE_ROWS].float().clamp(-limit, limit).half().numpy(),
        "similarity": geometry.class_similarity().nan_to_num(0.0).float().cpu().numpy(),
    }


def pictures(part: Images) -> Any:
    """(P, H, W, channels) pixels of the first images of a part, as many as fit into 600 kB."""
    first = part.pixels[part.rows[:1]]
    count = min(len(part), PICTURE_BYTES // max(1, first.numel()))
    return part.pixels[part.rows[:count]].permute(0, 2, 3, 1).contiguous().numpy()
