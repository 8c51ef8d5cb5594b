"""Self-supervision: losses on the projected features of two views of each image, which get one label per image."""

from dataclasses import dataclass

from torch import nn
from torch.nn import functional as F

from ..._ranges import Count
from ...errors import OptionError
from ..models.modes import unwrap
from ..types import Batch, Output, TaskShape
from .auxiliaries import AuxiliaryMethod, Center, NegativeCAM, Perpetual, build_terms
from .base import Losses, Objective, WeightedTerms

HIDDEN, OUT = 256, 128
OF_CLASSES = Center, NegativeCAM, Perpetual  # losses with one center, map or direction per class


@dataclass(frozen=True)
class SelfSupervision(AuxiliaryMethod):
    """Auxiliary losses alone, on a projection of the features; the label of a row is the number of its image.

    Class labels train only the classifier, on features without a gradient (a linear probe): they affect neither the
    features nor the projection. Use data with two views, such as `TwoViewsCifar10`.

    Example:
        >>> from opl.experiments.methods import OPL, NTXent
        >>> method = SelfSupervision(auxiliary=(NTXent(temperature=0.5), OPL(weight=1.0)))
    """

    hidden: Count = HIDDEN
    """Width of the hidden layer of the projection."""
    projected: Count = OUT
    """Number of projected features."""

    def build(self, shape: TaskShape) -> Objective:
        """Build the objective, which contains the projection; losses that learn classes are refused."""
        of_classes = [loss.name for loss in self.auxiliary if isinstance(loss, OF_CLASSES)]
        if of_classes:
            raise OptionError(
                f"the auxiliary loss {of_classes[0]!r} needs classes, but self-supervision labels images: use OPL, "
                "OLE or NTXent."
            )
        projection = nn.Sequential(
            nn.Linear(shape.feature_dim, self.hidden, bias=False),
            nn.BatchNorm1d(self.hidden),
            nn.ReLU(),
            nn.Linear(self.hidden, self.projected, bias=False),
        )
        terms = build_terms(self.auxiliary, shape._replace(feature_dim=self.projected))
        return SelfSupervisedObjective(projection, terms)


class SelfSupervisedObjective(Objective):
    """Terms on projected features, with the rows of the training set as labels, and a linear probe."""

    def __init__(self, projection: nn.Module, terms: WeightedTerms) -> None:
        super().__init__(terms)
        self.projection = projection

    def losses(self, model: nn.Module, batch: Batch) -> Losses:
        """Compute the cross-entropy of the probe; the terms get projected features and the number of each image."""
        output: Output = model(batch.images)
        logits = unwrap(model).get_submodule("fc")(output.features.detach())
        probe = F.cross_entropy(logits, batch.labels, reduction="sum")
        projected = output._replace(features=self.projection(output.features))
        return Losses({"probe": (1.0, probe)}, projected, batch._replace(labels=batch.rows))
