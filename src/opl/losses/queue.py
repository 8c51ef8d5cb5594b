"""The features of earlier batches, as references for OPL where a batch is too small for its classes."""

from typing import Any

import torch
from torch import Tensor, nn

from .._kernels.validate import check_labels, check_vectors
from ..errors import OptionError


class Queue(nn.Module):
    """The last `size` samples of earlier batches, to be given as `references` to `opl.orthogonal_projection`.

    A call returns the stored features and labels, without gradients, and in training mode then stores the batch. The
    first call returns no samples, with which the loss has no pairs and no gradient. The samples are buffers, so that a
    checkpoint includes them; every process of a global batch stores its own share.

    Args:
        size: the largest number of samples.

    Example:
        >>> queue, loss = Queue(1024), OrthogonalProjectionLoss()
        >>> for features, labels in [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([0, 1]))]:
        ...     value = loss(features, labels, references=queue(features, labels))
        >>> value
        tensor(0.)
    """

    features: Tensor
    labels: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise OptionError(f"size is {size!r} but must be an integer of at least 1.")
        self.size = size
        self.register_buffer("features", torch.zeros(0, 0))
        self.register_buffer("labels", torch.zeros(0, dtype=torch.long))

    @torch.no_grad()
    def forward(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the stored features and labels; in training mode, then store the batch."""
        x = check_vectors(features).detach()
        y = check_labels(labels, x)
        if not self.features.numel():
            self.features, self.labels = x[:0], y[:0]
        stored = self.features.to(x), self.labels.to(y)
        if self.training:
            self.features, self.labels = (
                torch.cat([old, new])[-self.size :] for old, new in zip(stored, (x, y), strict=True)
            )
        return stored

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("features", "labels"):  # as many samples as were saved
            if f"{prefix}{name}" in state_dict:
                setattr(self, name, torch.empty_like(state_dict[f"{prefix}{name}"], device=self.features.device))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"size={self.size}"
