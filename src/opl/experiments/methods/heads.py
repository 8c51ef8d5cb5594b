"""Settings of classifier heads: each builds the layer that replaces the model's linear classifier."""

from dataclasses import dataclass
from typing import Annotated

from ..._ranges import Count, CountOrZero, NotNegative, Positive, Range
from ...heads import (
    ArcFaceHead,
    ASoftmaxHead,
    CosFaceHead,
    Head,
    LGMHead,
    LinearHead,
    LSoftmaxHead,
    RBFHead,
    a_softmax,
    arcface,
    cosface,
    l_softmax,
    lgm,
    rbf,
)
from ..types import HeadSettings, TaskShape


@dataclass(frozen=True)
class Linear(HeadSettings):
    """The ordinary linear classifier; with `prior`, its bias starts sigmoids at a probability of 1/C."""

    prior: bool = True

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return LinearHead(shape.feature_dim, num_classes=shape.num_classes, prior=self.prior)


@dataclass(frozen=True)
class ASoftmax(HeadSettings):
    """A-Softmax; its blend is annealed as `max(floor, base * (1 + gamma * step)^-power)`."""

    margin: Annotated[int, Range(1, 64)] = a_softmax.MARGIN
    base: Positive = a_softmax.BASE
    gamma: NotNegative = a_softmax.GAMMA
    power: NotNegative = a_softmax.POWER
    floor: NotNegative = a_softmax.FLOOR

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return ASoftmaxHead(
            shape.feature_dim,
            num_classes=shape.num_classes,
            margin=self.margin,
            base=self.base,
            gamma=self.gamma,
            power=self.power,
            floor=self.floor,
        )


@dataclass(frozen=True)
class LSoftmax(HeadSettings):
    """L-Softmax; its blend is annealed like that of `ASoftmax`."""

    margin: Annotated[int, Range(1, 64)] = l_softmax.MARGIN
    base: Positive = l_softmax.BASE
    gamma: NotNegative = l_softmax.GAMMA
    power: NotNegative = l_softmax.POWER
    floor: NotNegative = l_softmax.FLOOR

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return LSoftmaxHead(
            shape.feature_dim,
            num_classes=shape.num_classes,
            margin=self.margin,
            base=self.base,
            gamma=self.gamma,
            power=self.power,
            floor=self.floor,
        )


@dataclass(frozen=True)
class CosFace(HeadSettings):
    """CosFace, called LMC in the paper."""

    scale: Positive = cosface.SCALE
    margin: Annotated[float, Range(0, 2)] = cosface.MARGIN
    warmup: CountOrZero = 0
    """Steps over which the margin grows from 0."""

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return CosFaceHead(
            shape.feature_dim,
            num_classes=shape.num_classes,
            scale=self.scale,
            margin=self.margin,
            warmup=self.warmup,
        )


@dataclass(frozen=True)
class ArcFace(HeadSettings):
    """ArcFace, called AAM in the paper."""

    scale: Positive = arcface.SCALE
    margin: Annotated[float, Range(0, 3.141, below=True)] = arcface.MARGIN
    easy: bool = False
    warmup: CountOrZero = 0
    """Steps over which the margin grows from 0."""

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return ArcFaceHead(
            shape.feature_dim,
            num_classes=shape.num_classes,
            scale=self.scale,
            margin=self.margin,
            easy=self.easy,
            warmup=self.warmup,
        )


@dataclass(frozen=True)
class LGM(HeadSettings):
    """Large-margin Gaussians; `weight` is the weight of the likelihood term in the loss."""

    weight: NotNegative = 0.1
    margin: NotNegative = lgm.MARGIN
    start: Positive = lgm.START
    double_every: Count = lgm.DOUBLE_EVERY
    """Steps between doublings of the margin."""
    learn_variances: bool = False

    @property
    def penalty_weight(self) -> float:
        """The weight of the likelihood term."""
        return self.weight

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return LGMHead(
            shape.feature_dim,
            num_classes=shape.num_classes,
            margin=self.margin,
            start=self.start,
            double_every=self.double_every,
            learn_variances=self.learn_variances,
        )


@dataclass(frozen=True)
class RBF(HeadSettings):
    """RBF-Softmax; `gamma` defaults to twice the number of features."""

    scale: Positive = rbf.SCALE
    gamma: Positive | None = None

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        return RBFHead(shape.feature_dim, num_classes=shape.num_classes, scale=self.scale, gamma=self.gamma)


HeadChoice = Linear | ASoftmax | LSoftmax | CosFace | ArcFace | LGM | RBF
