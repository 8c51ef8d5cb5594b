"""Losses beside the criterion, as settings: each has a weight, a name for the records, and builds its term."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from ...errors import OptionError
from ...functional import Form
from ...losses.center import CenterLoss
from ...losses.negative_cam import NegativeCAMLoss
from ...losses.ole import OLELoss
from ...losses.perpetual import PerpetualProjectionLoss
from ...losses.projection import OrthogonalProjectionLoss
from ..types import TaskShape
from .base import ActivationMapTerm, FeatureTerm, GlobalFeatureTerm, is_distributed


@dataclass(frozen=True)
class OPL:
    """The orthogonal projection loss; over several processes, that of the global batch."""

    name: ClassVar[str] = "projection"
    weight: float = 1.0
    gamma: float = 0.5
    form: Form = "mean_abs"

    def build(self, shape: TaskShape) -> nn.Module:
        """The term."""
        return GlobalFeatureTerm(OrthogonalProjectionLoss(self.gamma, self.form, global_batch=is_distributed()))


@dataclass(frozen=True)
class Center:
    """Center loss with half the squared distance; `alpha` moves the centers, by the original rule."""

    name: ClassVar[str] = "center"
    weight: float = 0.01
    alpha: float = 0.5

    def build(self, shape: TaskShape) -> nn.Module:
        """The term; its centers are those of the global batch."""
        return FeatureTerm(CenterLoss(shape.num_classes, shape.feature_dim, self.alpha, global_batch=is_distributed()))


@dataclass(frozen=True)
class OLE:
    """Orthogonal low-rank embedding; over several processes, of each one's own share of the batch."""

    name: ClassVar[str] = "ole"
    weight: float = 0.1
    delta: float = 1.0

    def build(self, shape: TaskShape) -> nn.Module:
        """The term."""
        return FeatureTerm(OLELoss(self.delta))


@dataclass(frozen=True)
class NegativeCAM:
    """HNC: flat activation maps of the `k` strongest wrong classes."""

    name: ClassVar[str] = "negative_cam"
    weight: float = 0.06
    k: int = 10
    form: Literal["kd", "mse"] = "kd"

    def build(self, shape: TaskShape) -> nn.Module:
        """The term."""
        return ActivationMapTerm(NegativeCAMLoss(self.k, self.form))


@dataclass(frozen=True)
class Perpetual:
    """Perpetual OPL of the released code: learned class centers instead of pairs in the batch."""

    name: ClassVar[str] = "perpetual"
    weight: float = 1.0
    version: Literal[1, 2] = 1

    def build(self, shape: TaskShape) -> nn.Module:
        """The term, with its centers."""
        loss = PerpetualProjectionLoss(
            shape.num_classes, shape.feature_dim, self.version, global_batch=is_distributed()
        )
        return FeatureTerm(loss)


Auxiliary = OPL | Center | OLE | NegativeCAM | Perpetual


def build_terms(auxiliary: tuple[Auxiliary, ...], shape: TaskShape) -> dict[str, tuple[float, nn.Module]]:
    """Their weights and terms, by name."""
    terms: dict[str, tuple[float, nn.Module]] = {each.name: (each.weight, each.build(shape)) for each in auxiliary}
    if len(terms) < len(auxiliary):
        raise OptionError("the same auxiliary loss is named twice: give each once, with the weight that is meant.")
    return terms
