"""What a model answers on a part of the data, plain images, in the run's precision."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..data.batches import Batches
from ..recipe import Recipe
from ..types import Batch, Images
from .accuracy import accuracy
from .build import batches
from .outputs import outputs, pictures

EVAL_BATCH = 500


def plain_batches(data: Batches, model: nn.Module) -> Iterator[Batch]:
    """All images once, not augmented, in the type of the model's weights."""
    dtype = next(model.parameters()).dtype
    return (batch._replace(images=batch.images.to(dtype)) for batch in data.plain(EVAL_BATCH))


def evaluate_part(fabric: Any, recipe: Recipe, model: nn.Module, part: Images) -> dict[str, float]:
    """Accuracies, loss and geometry of a part of the data, over all processes; empty where there are no images."""
    if len(part) == 0:
        return {}
    group = torch.distributed.group.WORLD if fabric.world_size > 1 else None
    # The bare module: an uneven share of the data must not wait for DDP's own messages. Its precision is set here.
    bare = getattr(model, "module", model)
    with fabric.autocast():
        return accuracy(bare, plain_batches(batches(fabric, recipe, part), bare), recipe.data.num_classes, group)


def predict_part(fabric: Any, recipe: Recipe, model: nn.Module, part: Images) -> dict[str, Any]:
    """What the model says of all images, on this process alone, and the first of the images themselves."""
    bare = getattr(model, "module", model)
    with fabric.autocast():
        found = outputs(bare, plain_batches(batches(fabric, recipe, part, alone=True), bare), recipe.data.num_classes)
    return {**found, "pixels": pictures(part)} if found else found
