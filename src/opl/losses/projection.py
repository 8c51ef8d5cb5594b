"""The Orthogonal Projection Loss as a module; the formula and its algorithms are in `opl.functional`."""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from ..errors import DistributedError
from ..functional import FORM, GAMMA, IGNORE_INDEX, Form, Projection, check_options, orthogonal_projection


class OrthogonalProjectionLoss(nn.Module):
    """Orthogonal Projection Loss of a batch of features, `(1 - s) + gamma * d`: see `opl.orthogonal_projection`.

    There is no `reduction`: s and d are means over pairs of the batch, so no sample has a value of its own.

    Args:
        gamma: weight of d relative to s.
        form: how d is computed: `"mean_abs"`, `"abs_mean"` or `"mean"`.
        ignore_index: rows with this label are excluded.
        global_batch: use the combined batch of all processes of the default group; requires `init_process_group`.

    Example:
        >>> loss = OrthogonalProjectionLoss()
        >>> loss(torch.eye(3), torch.tensor([0, 1, 2]))
        tensor(1.)
    """

    def __init__(
        self,
        *,
        gamma: float = GAMMA,
        form: Form = FORM,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_options(gamma, form, ignore_index)
        self.gamma, self.form, self.ignore_index, self.global_batch = gamma, form, ignore_index, global_batch

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.project(features, labels).loss

    def project(self, features: Tensor, labels: Tensor) -> Projection:
        """Return the loss with s and d, as a `Projection`."""
        return orthogonal_projection(
            features,
            labels,
            gamma=self.gamma,
            form=self.form,
            ignore_index=self.ignore_index,
            group=default_group() if self.global_batch else None,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"gamma={self.gamma}, form={self.form!r}, global_batch={self.global_batch}"


def default_group() -> Any:
    """Return the default process group; raise `DistributedError` if it is not initialized."""
    if not (dist.is_available() and dist.is_initialized()):
        raise DistributedError(
            "global_batch=True needs a process group and there is none: call torch.distributed.init_process_group() "
            "first (under torchrun), or use global_batch=False for the local batch."
        )
    return dist.group.WORLD
