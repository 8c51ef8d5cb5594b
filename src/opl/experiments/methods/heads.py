"""Classifier heads, as settings: each builds the layer that takes the place of the model's own classifier."""

from dataclasses import dataclass

from ...heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, Head, LGMHead, LinearHead, RBFHead
from ..types import TaskShape


@dataclass(frozen=True)
class Linear:
    """The ordinary classifier, with a bias that starts sigmoid losses at a probability of 1/C."""

    prior: bool = True

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return LinearHead(shape.feature_dim, shape.num_classes, self.prior)


@dataclass(frozen=True)
class ASoftmax:
    """A-Softmax; its margin is let in by `max(floor, base * (1 + gamma * step)^-power)`."""

    margin: int = 4
    base: float = 1000.0
    gamma: float = 0.12
    power: float = 1.0
    floor: float = 5.0

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return ASoftmaxHead(
            shape.feature_dim, shape.num_classes, self.margin, self.base, self.gamma, self.power, self.floor
        )


@dataclass(frozen=True)
class CosFace:
    """CosFace, LMC in the paper."""

    scale: float = 64.0
    margin: float = 0.35
    warmup: int = 0
    """Steps over which the margin grows."""

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return CosFaceHead(shape.feature_dim, shape.num_classes, self.scale, self.margin, self.warmup)


@dataclass(frozen=True)
class ArcFace:
    """ArcFace, AAM in the paper."""

    scale: float = 64.0
    margin: float = 0.5
    easy: bool = False
    warmup: int = 0
    """Steps over which the margin grows."""

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return ArcFaceHead(shape.feature_dim, shape.num_classes, self.scale, self.margin, self.easy, self.warmup)


@dataclass(frozen=True)
class LGM:
    """Large-margin Gaussians; `weight` is that of the likelihood in the loss."""

    weight: float = 0.1
    margin: float = 0.3
    start: float = 0.1
    double_every: int = 5000
    """Steps."""
    learn_variances: bool = False

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return LGMHead(
            shape.feature_dim, shape.num_classes, self.margin, self.start, self.double_every, self.learn_variances
        )


@dataclass(frozen=True)
class RBF:
    """RBF-Softmax; without a `gamma`, twice the number of features."""

    scale: float = 35.0
    gamma: float | None = None

    def build(self, shape: TaskShape) -> Head:
        """The layer."""
        return RBFHead(shape.feature_dim, shape.num_classes, self.scale, self.gamma)


HeadSettings = Linear | ASoftmax | CosFace | ArcFace | LGM | RBF
