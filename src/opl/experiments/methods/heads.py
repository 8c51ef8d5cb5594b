"""Settings of classifier heads: each builds the layer that replaces the model's linear classifier."""

from typing import Annotated

from ..._ranges import Count, CountOrZero, NotNegative, Range
from ...heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, Head, LGMHead, LinearHead, LSoftmaxHead, RBFHead
from ..types import HeadSettings, TaskShape
from .signature import SignatureSettings, from_signature


class GeneratedHead(SignatureSettings, HeadSettings):
    """Base class of the settings of heads."""

    def build(self, shape: TaskShape) -> Head:
        """Build the layer."""
        head: Head = self.construct(shape)
        return head


@from_signature(LinearHead)
class Linear(GeneratedHead):
    """The ordinary linear classifier; with `prior`, its bias starts sigmoids at a probability of 1/C."""

    prior: bool = True


@from_signature(ASoftmaxHead)
class ASoftmax(GeneratedHead):
    """A-Softmax; its blend is annealed as `max(floor, base * (1 + gamma * step)^-power)`."""

    margin: Annotated[int, Range(1, 64)]


@from_signature(LSoftmaxHead)
class LSoftmax(GeneratedHead):
    """L-Softmax; its blend is annealed as in `ASoftmax`."""

    margin: Annotated[int, Range(1, 64)]


@from_signature(CosFaceHead)
class CosFace(GeneratedHead):
    """CosFace, called LMC in the paper.

    Args:
        warmup: steps over which the margin grows from 0.
    """

    warmup: CountOrZero


@from_signature(ArcFaceHead)
class ArcFace(GeneratedHead):
    """ArcFace, called AAM in the paper.

    Args:
        warmup: steps over which the margin grows from 0.
    """

    warmup: CountOrZero


@from_signature(LGMHead)
class LGM(GeneratedHead):
    """Large-margin Gaussians; `weight` is the weight of the likelihood term in the loss.

    Args:
        double_every: steps between doublings of the margin.
    """

    weight: NotNegative = 0.1
    double_every: Count

    @property
    def penalty_weight(self) -> float:
        """The weight of the likelihood term."""
        return self.weight


@from_signature(RBFHead)
class RBF(GeneratedHead):
    """RBF-Softmax; `gamma` defaults to twice the number of features."""


HeadChoice = Linear | ASoftmax | LSoftmax | CosFace | ArcFace | LGM | RBF
