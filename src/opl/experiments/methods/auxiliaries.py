"""Auxiliary losses of a method: settings with a weight and a name for the records, and the terms that they build."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from torch import Tensor, distributed, nn

from ..._ranges import Count, NotNegative
from ...errors import OptionError
from ...functional import FORM, GAMMA, WEIGHT, Form
from ...heads import LinearHead
from ...losses import (
    CenterLoss,
    NegativeCAMLoss,
    NTXentLoss,
    OLELoss,
    OrthogonalProjectionLoss,
    PerpetualProjectionLoss,
)
from ...losses.negative_cam import class_activation_maps
from ...plugin import FeatureTap
from ...plugin.criterion import DIAGNOSED, STEPS, GammaWatch
from ...schedules import AutoGamma, Ramp
from ..models.modes import unwrap
from ..types import Batch, Method, Output, TaskShape
from .base import Term, WeightedTerms, batch_share, is_distributed
from .signature import SignatureSettings, from_signature
from .variants import (
    CenteredProjectionLoss,
    GradientBalance,
    LogRatioLoss,
    ProjectionLoss,
    PrototypeProjectionLoss,
    entropy_gradient,
)

Variant = Literal["sum", "log_ratio", "prototypes"]
Rule = Literal["constant", "auto", "linear", "cosine"]


@dataclass(frozen=True)
class OPL:
    """Orthogonal Projection Loss; with several processes, computed on the global batch."""

    name: ClassVar[str] = "projection"
    weight: NotNegative = WEIGHT
    gamma: NotNegative = GAMMA
    form: Form = FORM

    def build(self, shape: TaskShape) -> Term:
        """Build the term."""
        loss = OrthogonalProjectionLoss(gamma=self.gamma, form=self.form, global_batch=is_distributed())
        return ProjectionTerm(loss)


@dataclass(frozen=True)
class OPLVariant(OPL):
    """A variant of OPL: another gamma, another combination of s and d, centered features, or a balanced weight."""

    variant: Variant = "sum"
    """`sum` is OPL itself; `log_ratio` is its logarithm; `prototypes` compares with running class means."""
    rule: Rule = "constant"
    """Gamma: constant; at least `gamma` and enough to lower d; or a ramp from `gamma` to `end` over all training."""
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
        gamma, global_batch = self._gamma(shape), is_distributed()
        if self.variant == "prototypes":
            if isinstance(gamma, AutoGamma) or self.centered:
                raise OptionError(
                    "prototypes need a constant gamma or a ramp, and features that are not centered: remove "
                    "rule='auto' and centered."
                )
            return PrototypeProjectionLoss(
                shape.feature_dim, num_classes=shape.num_classes, gamma=gamma, global_batch=global_batch
            )
        if self.centered:
            return CenteredProjectionLoss(shape.feature_dim, gamma=gamma, global_batch=global_batch)
        if self.variant == "log_ratio":
            return LogRatioLoss(gamma=gamma, global_batch=global_batch)
        return OrthogonalProjectionLoss(gamma=gamma, form=self.form, global_batch=global_batch)

    def _gamma(self, shape: TaskShape) -> float | AutoGamma | Ramp:
        if self.rule == "auto":
            return AutoGamma(self.gamma)
        if self.rule == "constant":
            return self.gamma
        return Ramp(self.gamma, self.end, max(1, shape.steps * shape.epochs), shape=self.rule)


class ProjectionTerm(Term):
    """OPL or one of its variants, computed on the global batch on every process.

    Args:
        loss: OPL.
        balance: scales its gradient to the gradient of softmax cross-entropy at the features.
        label_smoothing: label smoothing of that cross-entropy.
    """

    def __init__(
        self, loss: ProjectionLoss, balance: GradientBalance | None = None, label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.loss, self.balance, self.label_smoothing = loss, balance, label_smoothing
        self.watch, self.steps = GammaWatch(), 0

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return the loss unscaled; a balance changes its gradient, not its value."""
        self.steps += self.training
        features = output.features.view_as(output.features)  # the engine watches the tensor of the model
        projection = self.loss.diagnose(features, batch.labels)
        named = {
            "s": projection.same,
            "d": projection.other,
            **{name: projection._asdict()[name] for name in DIAGNOSED},
        }
        # a batch without pairs of a kind has no s or d, and some batches need no gamma: 0 in the records
        self.measures = {name: value.detach().nan_to_num(0) for name, value in named.items() if value is not None}
        if self.balance is None:
            return projection.loss
        head = unwrap(model).get_submodule("fc")
        if not isinstance(head, nn.Linear | LinearHead):
            raise OptionError(
                f"a balanced OPL needs a linear classifier, but the model ends in {type(head).__name__}: set "
                "balanced=False."
            )
        slope = entropy_gradient(output.logits, batch.labels, head.weight, self.label_smoothing) * batch.sample_weight
        scaled: Tensor = self.balance(projection.loss, features, slope)
        return scaled

    def after_epoch(self, record: Mapping[str, Any]) -> None:
        """Warn, once, on the first process, if gamma was too small to lower d in an epoch after the first steps."""
        first = not is_distributed() or distributed.get_rank() == 0
        if first and self.steps >= STEPS and "train/gamma_needed" in record:
            self.watch.judge(record["train/gamma"], record["train/gamma_needed"], "this epoch", "recipe")


class FeatureTerm(Term):
    """A loss on the features; with several processes, computed on each local batch and weighted by its size."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch."""
        value: Tensor = self.loss(output.features, batch.labels)
        return value * batch_share(batch)


class GeneratedAuxiliary(SignatureSettings):
    """Base class of the settings of losses on the features."""

    def build(self, shape: TaskShape) -> Term:
        """Build the term, which contains what the loss learns."""
        return FeatureTerm(self.construct(shape))


@from_signature(CenterLoss)
class Center(GeneratedAuxiliary):
    """Center loss with half the squared distance; `alpha` is the step size of the centers, by the paper's rule."""

    name: ClassVar[str] = "center"
    weight: NotNegative = 0.01


@from_signature(OLELoss, omit=("threshold",))
class OLE(GeneratedAuxiliary):
    """Orthogonal low-rank embedding; with several processes, computed on each local batch."""

    name: ClassVar[str] = "ole"
    weight: NotNegative = 0.1


@from_signature(NTXentLoss)
class NTXent(GeneratedAuxiliary):
    """NT-Xent, the contrastive loss of SimCLR; with several processes, computed on each local batch."""

    name: ClassVar[str] = "nt_xent"
    weight: NotNegative = 1.0


@from_signature(PerpetualProjectionLoss)
class Perpetual(GeneratedAuxiliary):
    """Perpetual OPL of the released code: learned class directions instead of pairs in the batch."""

    name: ClassVar[str] = "perpetual"
    weight: NotNegative = 1.0


@from_signature(NegativeCAMLoss)
class NegativeCAM(SignatureSettings):
    """HNC, which flattens the class activation maps of the `k` strongest wrong classes."""

    name: ClassVar[str] = "negative_cam"
    weight: NotNegative = 0.06
    k: Count

    def build(self, shape: TaskShape) -> Term:
        """Build the term."""
        return ActivationMapTerm(self.construct(shape))


POOLING = ("avgpool", "pool")  # names of the pooling layer; `pool` of `FastNet` adds the maximum to the mean


class ActivationMapTerm(Term):
    """A loss on class activation maps: the linear classifier at every position of the map before pooling."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.tap: FeatureTap | None = None

    def prepare(self, model: nn.Module) -> None:
        """Tap the model's pooling layer, once."""
        if self.tap is None:
            network = unwrap(model)
            named = dict(network.named_modules())
            self.tap = FeatureTap(network, next((name for name in POOLING if name in named), POOLING[0]))

    def forward(self, model: nn.Module, output: Output, batch: Batch) -> Tensor:
        """Return this process's part of the mean over the global batch, for the model's last forward pass."""
        assert self.tap is not None  # the objective has called prepare
        maps, head = self.tap.take(), unwrap(model).get_submodule("fc")
        maps = maps[: len(batch.labels)]  # a forward pass may append images to the batch, such as rotated twins
        maps = maps[:, :, None, None] if maps.ndim == 2 else maps
        if not isinstance(head, nn.Linear | LinearHead) or head.weight.shape[1] != maps.shape[1]:
            raise OptionError(
                "class activation maps need a linear classifier on the averaged map, but this model has another head "
                "or layers between them: use head=None and a model that ends in average pooling, such as CifarResNet."
            )
        value: Tensor = self.loss(class_activation_maps(maps, head.weight, head.bias), batch.labels)
        return value * batch_share(batch)


Auxiliary = OPL | OPLVariant | Center | OLE | NTXent | NegativeCAM | Perpetual


def build_terms(auxiliary: tuple[Auxiliary, ...], shape: TaskShape) -> WeightedTerms:
    """Build the terms of the auxiliary losses, with their weights, by name."""
    terms: dict[str, tuple[float, Term]] = {loss.name: (loss.weight, loss.build(shape)) for loss in auxiliary}
    if len(terms) < len(auxiliary):
        raise OptionError("an auxiliary loss is named twice: name every loss once, with its weight.")
    return terms


@dataclass(frozen=True)
class AuxiliaryMethod(Method):
    """A method with auxiliary losses, which may include OPL."""

    auxiliary: tuple[Auxiliary, ...] = field(default=(), kw_only=True)
    """Losses to add, with their weights."""

    @property
    def opl(self) -> OPL | None:
        """The settings of OPL, or None if it is not among the auxiliary losses."""
        return next((loss for loss in self.auxiliary if isinstance(loss, OPL)), None)

    def baseline(self) -> Self:
        """Return the same method without OPL."""
        return replace(self, auxiliary=tuple(loss for loss in self.auxiliary if not isinstance(loss, OPL)))
