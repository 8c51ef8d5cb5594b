"""Settings of auxiliary losses: each has a weight, a name for the records, and builds its term."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from ..._ranges import Count, NotNegative
from ...errors import OptionError
from ...losses import center, negative_cam, ole, perpetual
from ...losses.center import CenterLoss
from ...losses.negative_cam import NegativeCAMLoss
from ...losses.ole import OLELoss
from ...losses.perpetual import PerpetualProjectionLoss
from ..types import Method, TaskShape
from .base import WeightedTerms
from .opl_settings import OPL, OPLVariant
from .terms import ActivationMapTerm, FeatureTerm, Term, is_distributed


@dataclass(frozen=True)
class Center:
    """Center loss with half the squared distance; `alpha` is the step size of the centers, by the paper's rule."""

    name: ClassVar[str] = "center"
    weight: NotNegative = 0.01
    alpha: NotNegative = center.ALPHA

    def build(self, shape: TaskShape) -> Term:
        """Build the term; its centers follow the global batch."""
        loss = CenterLoss(
            shape.feature_dim, num_classes=shape.num_classes, alpha=self.alpha, global_batch=is_distributed()
        )
        return FeatureTerm(loss)


@dataclass(frozen=True)
class OLE:
    """Orthogonal low-rank embedding; with several processes, computed on each local batch."""

    name: ClassVar[str] = "ole"
    weight: NotNegative = 0.1
    delta: NotNegative = ole.DELTA

    def build(self, shape: TaskShape) -> Term:
        """Build the term."""
        return FeatureTerm(OLELoss(delta=self.delta))


@dataclass(frozen=True)
class NegativeCAM:
    """HNC, which flattens the class activation maps of the `k` strongest wrong classes."""

    name: ClassVar[str] = "negative_cam"
    weight: NotNegative = 0.06
    k: Count = negative_cam.K
    form: negative_cam.Form = negative_cam.FORM

    def build(self, shape: TaskShape) -> Term:
        """Build the term."""
        return ActivationMapTerm(NegativeCAMLoss(k=self.k, form=self.form))


@dataclass(frozen=True)
class Perpetual:
    """Perpetual OPL of the released code: learned class directions instead of pairs in the batch."""

    name: ClassVar[str] = "perpetual"
    weight: NotNegative = 1.0
    version: perpetual.Version = perpetual.VERSION

    def build(self, shape: TaskShape) -> Term:
        """Build the term, which contains the class directions."""
        loss = PerpetualProjectionLoss(
            shape.feature_dim, num_classes=shape.num_classes, version=self.version, global_batch=is_distributed()
        )
        return FeatureTerm(loss)


Auxiliary = OPL | OPLVariant | Center | OLE | NegativeCAM | Perpetual


def build_terms(auxiliary: tuple[Auxiliary, ...], shape: TaskShape) -> WeightedTerms:
    """Build the terms of the auxiliary losses, with their weights, by name."""
    terms: dict[str, tuple[float, Term]] = {each.name: (each.weight, each.build(shape)) for each in auxiliary}
    if len(terms) < len(auxiliary):
        raise OptionError("the same auxiliary loss is named twice: give each once, with the weight that is meant.")
    return terms


@dataclass(frozen=True)
class AuxiliaryMethod(Method):
    """A method with auxiliary losses, which may include OPL."""

    auxiliary: tuple[Auxiliary, ...] = field(default=(), kw_only=True)
    """Losses to add, each with its weight."""

    @property
    def opl(self) -> OPL | None:
        """The settings of OPL, or None if it is not among the auxiliary losses."""
        return next((each for each in self.auxiliary if isinstance(each, OPL)), None)

    def baseline(self) -> Self:
        """Return the same method without OPL."""
        return replace(self, auxiliary=tuple(each for each in self.auxiliary if not isinstance(each, OPL)))
