"""The Orthogonal Projection Loss as a module; the formula and its algorithms are in `opl.functional`."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._kernels.class_sums import Layout
from ..errors import DistributedError
from ..functional import FORM, GAMMA, IGNORE_INDEX, Form, Projection, check_options, gamma_needed, similarities
from ..schedules import Gamma, GammaRule, gamma_rule


class Diagnosis(NamedTuple):
    """OPL of a batch with what explains it; `gamma_needed` and `gamma` are None where the rule does not apply."""

    loss: Tensor
    same: Tensor
    """The paper's s."""
    other: Tensor
    """The paper's d."""
    gamma: Tensor | None
    """The weight of d relative to s in the gradient."""
    gamma_needed: Tensor | None
    """The gamma above which OPL lowers d: see `opl.functional.gamma_needed`."""
    without_positive: Tensor
    """The share of samples that are alone in their class, which get no pull towards it."""
    class_cosine: Tensor
    """The largest cosine between the means of two classes."""


class OrthogonalProjectionLoss(nn.Module):
    """Orthogonal Projection Loss of a batch of features, `(1 - s) + gamma * d`: see `opl.orthogonal_projection`.

    There is no `reduction`: s and d are means over pairs of the batch, so no sample has a value of its own.

    Args:
        gamma: weight of d relative to s: a number, `"auto"` or `AutoGamma` for a gamma that is large enough to lower d,
            or a `Ramp` that grows during training. By default 0.5, the paper's choice.
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
        gamma: Gamma = GAMMA,
        form: Form = FORM,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_options(0.0, form, ignore_index)
        self.form, self.ignore_index, self.global_batch = form, ignore_index, global_batch
        self.gamma = gamma

    @property
    def gamma(self) -> Gamma:
        """The weight of d relative to s; a new value starts without state."""
        return self._gamma

    @gamma.setter
    def gamma(self, gamma: Gamma) -> None:
        rule = gamma_rule(gamma)
        if "rule" in self._modules:
            del self.rule
        self._gamma: Gamma = gamma
        self.rule: GammaRule = rule

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the scalar loss."""
        return self.project(features, labels).loss

    def project(self, features: Tensor, labels: Tensor) -> Projection:
        """Return the loss with s and d, as a `Projection`."""
        same, other, _ = self._similarities(features, labels, with_layout=False)
        return Projection(self.combine(same, other)[0], same, other)

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it, as a `Diagnosis`."""
        same, other, layout = self._similarities(features, labels, with_layout=True)
        assert layout is not None
        loss, gamma = self.combine(same, other)
        s, d = same.detach(), other.detach()
        weight = gamma.to(s.dtype) if isinstance(gamma, Tensor) else s.new_tensor(gamma)
        return Diagnosis(loss, same, other, weight, gamma_needed(s, d), *layout)

    def _similarities(
        self, features: Tensor, labels: Tensor, with_layout: bool
    ) -> tuple[Tensor, Tensor, Layout | None]:
        group = default_group() if self.global_batch else None
        return similarities(features, labels, self.form, self.ignore_index, group, with_layout=with_layout)

    def combine(self, same: Tensor, other: Tensor) -> tuple[Tensor, Tensor | float]:
        """Return the loss of a batch with this s and d, and its gamma."""
        gamma: Tensor | float = self.rule(same, other)
        if isinstance(gamma, float):
            return torch.add(1 - same, other, alpha=gamma), gamma
        return 1 - same + gamma * other, gamma

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
