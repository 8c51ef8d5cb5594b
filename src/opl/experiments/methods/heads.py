"""Classifier heads, as settings: each builds the layer that takes the place of the model's own classifier."""

from dataclasses import dataclass

from ...heads import (
    ArcFaceHead,
    ASoftmaxHead,
    CosFaceHead,
    Head,
    LGMHead,
    LinearHead,
    RBFHead,
    a_softmax,
    arcface,
    cosface,
    lgm,
    rbf,
)
from ..types import HeadSettings, TaskShape


@dataclass(frozen=True)
class Linear(HeadSettings):
    """The ordinary classifier, with a bias that starts sigmoid losses at a probability of 1/C."""

    prior: bool = True

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return LinearHead(shape.feature_dim, shape.num_classes, self.prior)


@dataclass(frozen=True)
class ASoftmax(HeadSettings):
    """A-Softmax; its margin is let in by `max(floor, base * (1 + gamma * step)^-power)`."""

    margin: int = a_softmax.MARGIN
    base: float = a_softmax.BASE
    gamma: float = a_softmax.GAMMA
    power: float = a_softmax.POWER
    floor: float = a_softmax.FLOOR

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return ASoftmaxHead(
            shape.feature_dim, shape.num_classes, self.margin, self.base, self.gamma, self.power, self.floor
        )


@dataclass(frozen=True)
class CosFace(HeadSettings):
    """CosFace, LMC in the paper."""

    scale: float = cosface.SCALE
    margin: float = cosface.MARGIN
    warmup: int = 0
    """Steps over which the margin grows."""

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return CosFaceHead(shape.feature_dim, shape.num_classes, self.scale, self.margin, self.warmup)


@dataclass(frozen=True)
class ArcFace(HeadSettings):
    """ArcFace, AAM in the paper."""

    scale: float = arcface.SCALE
    margin: float = arcface.MARGIN
    easy: bool = False
    warmup: int = 0
    """Steps over which the margin grows."""

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return ArcFaceHead(shape.feature_dim, shape.num_classes, self.scale, self.margin, self.easy, self.warmup)


@dataclass(frozen=True)
class LGM(HeadSettings):
    """Large-margin Gaussians; `weight` is that of the likelihood in the loss."""

    weight: float = 0.1
    margin: float = lgm.MARGIN
    start: float = lgm.START
    double_every: int = lgm.DOUBLE_EVERY
    """Steps."""
    learn_variances: bool = False

    @property
    def penalty_weight(self) -> float:
        """The weight of the likelihood."""
        return self.weight

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return LGMHead(
            shape.feature_dim, shape.num_classes, self.margin, self.start, self.double_every, self.learn_variances
        )


@dataclass(frozen=True)
class RBF(HeadSettings):
    """RBF-Softmax; without a `gamma`, twice the number of features."""

    scale: float = rbf.SCALE
    gamma: float | None = None

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return RBFHead(shape.feature_dim, shape.num_classes, self.scale, self.gamma)


HeadChoice = Linear | ASoftmax | CosFace | ArcFace | LGM | RBF
