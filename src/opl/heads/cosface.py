"""CosFace (LMC): a large-margin cosine head."""

from torch import Tensor

from ..errors import OptionError
from ..functional import IGNORE_INDEX
from ._head import CosineHead, cosines, is_target

SCALE = 64.0
MARGIN = 0.35


def cosface(
    features: Tensor,
    weight: Tensor,
    labels: Tensor | None = None,
    *,
    scale: float = SCALE,
    margin: float | Tensor = MARGIN,
) -> Tensor:
    """Compute the logits `scale * (cos - margin * [class is the label])` of unit features and unit class vectors.

    CosFace: Large Margin Cosine Loss for Deep Face Recognition (Wang et al., CVPR 2018).

    Args:
        features: (B, D).
        weight: (C, D), one vector per class; the lengths do not matter.
        labels: (B,) class ids; None means no margin, and a negative id none for its row.
        scale: s of the paper. A softmax probability P requires s of at least ln((C-1) P / (1-P)) (C-1)/C.
        margin: m of the paper, subtracted from the cosine.

    Example:
        >>> cosface(torch.tensor([[2.0, 0.0]]), torch.eye(2), torch.tensor([0]), scale=10.0, margin=0.25)
        tensor([[7.5000, 0.0000]])
    """
    cosine = cosines(features, weight)
    return scale * (cosine if labels is None else cosine - margin * is_target(labels, len(weight)).to(cosine))


class CosFaceHead(CosineHead):
    """A classifier head with the CosFace margin: see `cosface`.

    Over `warmup` steps the margin grows from 0. The head counts its calls in training mode, as part of its state;
    `head.set_step(n)` sets the count. At test time the class with the largest cosine is predicted.

    Example:
        >>> head = CosFaceHead(64, num_classes=100)
        >>> features, labels = torch.randn(8, 64), torch.arange(8)
        >>> loss = F.cross_entropy(head(features, labels), labels)
    """

    def __init__(
        self,
        feature_dim: int,
        *,
        num_classes: int,
        scale: float = SCALE,
        margin: float = MARGIN,
        warmup: int = 0,
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        if not 0 <= margin <= 2:
            raise OptionError(f"margin is {margin} but must be between 0 and 2: it is subtracted from a cosine.")
        super().__init__(
            feature_dim,
            num_classes=num_classes,
            scale=scale,
            margin=margin,
            warmup=warmup,
            ignore_index=ignore_index,
        )

    def logits(self, features: Tensor, labels: Tensor | None) -> Tensor:
        """Compute the logits by `cosface`."""
        return cosface(features, self.weight, labels, scale=self.scale, margin=self.next_margin(labels))
