"""RBF-Softmax: a head whose logits are bounded kernels of the distance to class prototypes."""

from torch import Tensor

from .._kernels.validate import check_positive
from ..functional import IGNORE_INDEX
from ._head import Head, squared_distances, xavier

SCALE = 35.0


def rbf(features: Tensor, prototypes: Tensor, *, scale: float = SCALE, gamma: float = 35.0) -> Tensor:
    """Compute the logits `scale * exp(-|f - prototype|^2 / gamma)`.

    RBF-Softmax: Learning Deep Representative Prototypes with Radial Basis Function Softmax (Zhang et al., ECCV 2020).
    Logits are at most `scale`, so a probability P requires a scale of at least ln((C-1) P / (1-P)).

    Args:
        features: (B, D).
        prototypes: (C, D), one point per class.
        scale: s of the paper.
        gamma: width of the kernel. If it is far below the squared distances, all kernels and gradients are 0.

    Example:
        >>> rbf(torch.tensor([[2.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 0.0]]), scale=10.0, gamma=4.0)
        tensor([[10.0000,  3.6788]])
    """
    return scale * (-squared_distances(features, prototypes) / gamma).exp()


class RBFHead(Head):
    """A head with one prototype per class: see `rbf`. At test time the class of the nearest prototype is predicted.

    The released values of `gamma` (16 or 35, and 2 in OPL's code) give an untrained ResNet-56, whose features have a
    distance of about 270 to every prototype, almost no gradient. The default is therefore twice `feature_dim`.

    Example:
        >>> head = RBFHead(64, num_classes=100)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features), labels)
    """

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        scale: float = SCALE,
        gamma: float | None = None,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__(feature_dim, num_classes=num_classes, ignore_index=ignore_index)
        self.scale = check_positive("scale", scale)
        self.gamma = check_positive("gamma", 2.0 * feature_dim if gamma is None else gamma)
        self.prototypes = xavier(feature_dim, num_classes)

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `rbf`; there is no margin."""
        return rbf(features, self.prototypes, scale=self.scale, gamma=self.gamma)
