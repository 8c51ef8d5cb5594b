"""RBF-Softmax: a head whose logits are bounded kernels of the distance to a prototype."""

from torch import Tensor

from .._support.arguments import check_positive
from ._distance import squared_distances
from ._head import Head, xavier

SCALE = 35.0


def rbf(features: Tensor, prototypes: Tensor, *, scale: float = SCALE, gamma: float = 35.0) -> Tensor:
    """Logits `scale * exp(-|f - prototype|^2 / gamma)`.

    RBF-Softmax: Learning Deep Representative Prototypes with Radial Basis Function Softmax (Zhang et al., ECCV 2020).
    Logits are at most `scale`, so a probability P needs a scale of at least ln((C-1) P / (1-P)).

    Args:
        features: (B, D).
        prototypes: (C, D), a point a class.
        scale: s of the paper.
        gamma: width of the kernel. Far below the squared distances every kernel is 0, and so is the gradient.

    Example:
        >>> rbf(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]]), scale=10.0, gamma=4.0)
        tensor([[10.0000,  3.6788]])
    """
    return scale * (-squared_distances(features, prototypes) / gamma).exp()


class RBFHead(Head):
    """A head of prototypes: see `rbf`. At test time the nearest prototype wins.

    The released widths (16 or 35, and 2 in OPL's code) leave an untrained ResNet-56, whose features are about 270 from
    every prototype, with next to no gradient. Without a `gamma` it is therefore twice the number of features.

    Example:
        >>> head = RBFHead(feature_dim=64, num_classes=100)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features), labels)
    """

    def __init__(self, feature_dim: int, num_classes: int, scale: float = SCALE, gamma: float | None = None) -> None:
        super().__init__(feature_dim, num_classes)
        self.scale = check_positive("scale", scale)
        self.gamma = check_positive("gamma", 2.0 * feature_dim if gamma is None else gamma)
        self.prototypes = xavier(num_classes, feature_dim)

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """See `rbf`; there is no margin."""
        return rbf(features, self.prototypes, scale=self.scale, gamma=self.gamma)
