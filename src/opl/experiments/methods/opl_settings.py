"""Settings of OPL and of its variants as auxiliary losses."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..._ranges import NotNegative
from ...errors import OptionError
from ...functional import FORM, GAMMA, WEIGHT, Form
from ...losses.projection import OrthogonalProjectionLoss
from ...schedules import AutoGamma, Ramp
from ..types import TaskShape
from .terms import ProjectionTerm, Term, is_distributed
from .variants import CenteredProjectionLoss, GradientBalance, LogRatioLoss, ProjectionLoss, PrototypeProjectionLoss

Variant = Literal["sum", "log_ratio", "prototypes"]
Rule = Literal["constant", "auto", "linear", "cosine"]


@dataclass(frozen=True)
class OPL:
    """Orthogonal Projection Loss; with several processes, computed on the global batch."""

    name: ClassVar[str] = "projection"
    weight: NotNegative = WEIGHT
    gamma: float = GAMMA
    form: Form = FORM

    def build(self, shape: TaskShape) -> Term:
        """Build the term."""
        loss = OrthogonalProjectionLoss(gamma=self.gamma, form=self.form, global_batch=is_distributed())
        return ProjectionTerm(loss)


@dataclass(frozen=True)
class OPLVariant(OPL):
    """A variant of OPL: another gamma, another combination of s and d, centered features, or a balanced weight."""

    variant: Variant = "sum"
    """`sum` is OPL's own; `log_ratio` its logarithm; `prototypes` compares with running class means."""
    rule: Rule = "constant"
    """Gamma: always `gamma`; at least `gamma` and what lowers d; or a ramp from `gamma` to `end` over all training."""
    end: NotNegative = 1.0
    """With the rules linear and cosine: gamma at the end of training."""
    centered: bool = False
    """Subtract the running mean of all features; d is then a signed mean."""
    balanced: bool = False
    """Make the weight relative to cross-entropy, by the norms of both gradients at the features."""

    def build(self, shape: TaskShape) -> Term:
        """Build the term, with the state of the variant."""
        balance = GradientBalance(is_distributed()) if self.balanced else None
        return ProjectionTerm(self._loss(shape), balance, shape.label_smoothing)

    def _loss(self, shape: TaskShape) -> ProjectionLoss:
        gamma, everywhere = self._gamma(shape), is_distributed()
        if self.variant == "prototypes":
            if isinstance(gamma, AutoGamma) or self.centered:
                raise OptionError(
                    "prototypes have a constant gamma or a ramp, and center nothing: leave rule='auto' and centered "
                    "out."
                )
            return PrototypeProjectionLoss(
                shape.feature_dim, num_classes=shape.num_classes, gamma=gamma, global_batch=everywhere
            )
        if self.centered:
            return CenteredProjectionLoss(shape.feature_dim, gamma=gamma, global_batch=everywhere)
        if self.variant == "log_ratio":
            return LogRatioLoss(gamma=gamma, global_batch=everywhere)
        return OrthogonalProjectionLoss(gamma=gamma, form=self.form, global_batch=everywhere)

    def _gamma(self, shape: TaskShape) -> float | AutoGamma | Ramp:
        if self.rule == "auto":
            return AutoGamma(self.gamma)
        if self.rule == "constant":
            return self.gamma
        return Ramp(self.gamma, self.end, max(1, shape.steps * shape.epochs), self.rule)
