"""The Orthogonal Projection Loss as a module; the formula and its algorithms are in `opl.functional`."""

from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from ..errors import DistributedError
from ..functional import FORM, GAMMA, IGNORE_INDEX, Form, Projection, check_options, orthogonal_projection


class OrthogonalProjectionLoss(nn.Module):
    """`(1 - s) + gamma * d` of a batch of features: see `opl.orthogonal_projection`, which it calls.

    Args:
        gamma: weight of d against s.
        form: `"mean_abs"`, `"abs_mean"` or `"mean"`: how d is made.
        ignore_index: rows with this label take no part.
        global_batch: the batch is that of all processes of the default group; needs `init_process_group`.

    Example:
        >>> loss = OrthogonalProjectionLoss()
        >>> loss(torch.eye(3), torch.tensor([0, 1, 2]))
        tensor(1.)
    """

    def __init__(
        self, gamma: float = GAMMA, form: Form = FORM, ignore_index: int = IGNORE_INDEX, global_batch: bool = False
    ) -> None:
        super().__init__()
        check_options(gamma, form, ignore_index)
        self.gamma, self.form, self.ignore_index, self.global_batch = gamma, form, ignore_index, global_batch

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """The loss, a scalar."""
        return self.project(features, labels).loss

    def project(self, features: Tensor, labels: Tensor) -> Projection:
        """The loss together with s and d, as a `Projection`."""
        return orthogonal_projection(
            features,
            labels,
            gamma=self.gamma,
            form=self.form,
            ignore_index=self.ignore_index,
            group=default_group() if self.global_batch else None,
        )

    def extra_repr(self) -> str:
        """The settings, for `print(model)`."""
        return f"gamma={self.gamma}, form={self.form!r}, global_batch={self.global_batch}"


def default_group() -> Any:
    """All processes, or a sentence that says why there are none."""
    if not (dist.is_available() and dist.is_initialized()):
        raise DistributedError(
            "global_batch=True needs a process group and there is none: call torch.distributed.init_process_group() "
            "first (under torchrun), or use global_batch=False for the local batch."
        )
    return dist.group.WORLD
