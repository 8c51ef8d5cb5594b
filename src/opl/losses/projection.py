"""The Orthogonal Projection Loss as a module; the formula and its algorithms are in `opl.functional`."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .._kernels.class_sums import FEWEST_PAIRS
from .._kernels.pairs import Weights
from ..errors import DistributedError, OptionError
from ..functional import (
    FORM,
    GAMMA,
    IGNORE_INDEX,
    ONE_MINUS_S,
    SAME_WEIGHT,
    Form,
    Projection,
    Similarities,
    check_options,
    gamma_needed,
    similarities,
)
from ..schedules import ConstantGamma, Gamma, GammaRule, NeededGamma, gamma_rule

ONE_SIGN = 0.98  # with this share of |d| in the signed mean, hardly any cosine is negative


class Diagnosis(NamedTuple):
    """OPL of a batch with what explains it; quantities that the batch does not define are NaN.

    `gamma` and `gamma_needed` are None for a loss without pairs.
    """

    loss: Tensor
    same: Tensor
    """The paper's s; NaN if no sample has a positive."""
    other: Tensor
    """The paper's d, which the loss penalizes; NaN if there is one class."""
    gamma: Tensor | None
    """The weight of d relative to s in the gradient."""
    gamma_needed: Tensor | None
    """The gamma above which OPL lowers d: `same_weight` times that of `opl.functional.gamma_needed`; NaN where its rule
    does not apply."""
    without_positive: Tensor
    """The share of samples that are alone in their class, which get no pull towards it."""
    class_cosine: Tensor
    """The largest cosine between the means of two classes; NaN if there is one class."""


class OrthogonalProjectionLoss(nn.Module):
    """Orthogonal Projection Loss of a batch of features, `(1 - s) + gamma * d`: see `opl.orthogonal_projection`.

    There is no `reduction`: s and d are means over pairs of the batch, so no sample has a value of its own.

    Args:
        gamma: weight of d relative to s: a number, `"auto"` or `AutoGamma` for a gamma that is large enough to lower d,
            or a `Ramp` that grows during training. By default 0.5, the paper's choice.
        form: how d is computed: `"mean_abs"`, `"abs_mean"`, `"mean"` or `"squared"`.
        same_weight: weight of `1 - s`.
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
        same_weight: float = SAME_WEIGHT,
        ignore_index: int = IGNORE_INDEX,
        global_batch: bool = False,
    ) -> None:
        super().__init__()
        check_options(0.0, form, ignore_index, same_weight)
        self.form, self.same_weight = form, float(same_weight)
        self.ignore_index, self.global_batch = ignore_index, global_batch
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

    def forward(self, features: Tensor, labels: Tensor, references: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Return the scalar loss, of pairs with `references` if they are given."""
        return self.project(features, labels, references).loss

    def project(self, features: Tensor, labels: Tensor, references: tuple[Tensor, Tensor] | None = None) -> Projection:
        """Return the loss with s and d, as a `Projection`."""
        automatic = isinstance(self.rule, NeededGamma)
        if automatic and references is not None:
            raise OptionError("the rule of gamma='auto' does not apply to references: pass a number or an opl.Ramp.")
        parts = self._similarities(features, labels, references, with_layout=automatic)
        return Projection(self.combine(parts)[0], parts.same, parts.other)

    def diagnose(self, features: Tensor, labels: Tensor) -> Diagnosis:
        """Return the loss with what explains it, as a `Diagnosis`."""
        parts = self._similarities(features, labels, with_layout=True)
        loss, gamma = self.combine(parts)
        layout, s = parts.layout, parts.same
        assert layout is not None
        weight = gamma.to(s.dtype) if isinstance(gamma, Tensor) else s.new_tensor(gamma)
        same = s.where(layout.same_pairs > FEWEST_PAIRS, torch.nan)
        other = parts.other.where(layout.other_pairs > FEWEST_PAIRS, torch.nan)
        needed = self.same_weight * gamma_needed(*self.rule_inputs(parts))
        nearest = layout.class_cosine.where(layout.num_classes > 1, torch.nan)
        return Diagnosis(loss, same, other, weight, needed, layout.without_positive, nearest)

    def rule_inputs(self, parts: Similarities) -> Tensor:
        """Return s, d, C and n of a batch for `opl.functional.gamma_needed`; NaN where its rule does not apply.

        The rule is about the mean of signed cosines. The mean of |cos| follows it only where hardly any cosine is
        negative, the absolute value of the mean only where that is positive, and the mean of cos^2 nowhere.
        """
        layout, s, d = parts.layout, parts.same.detach(), parts.other.detach()
        assert layout is not None
        applies = (layout.same_pairs > FEWEST_PAIRS) & (layout.other_pairs > FEWEST_PAIRS)
        if self.form != "mean":
            applies = applies & (layout.signed >= ONE_SIGN * d) & (self.form != "squared")
        inputs = torch.stack([s, layout.signed.to(s), layout.num_classes.to(s), layout.per_class.to(s)])
        return inputs.where(applies, torch.nan)

    def _similarities(
        self,
        features: Tensor,
        labels: Tensor,
        references: tuple[Tensor, Tensor] | None = None,
        with_layout: bool = False,
    ) -> Similarities:
        group = default_group() if self.global_batch else None
        weights = ONE_MINUS_S
        if isinstance(self.rule, ConstantGamma):
            weights = Weights(self.same_weight, self.rule.value)
        return similarities(
            features,
            labels,
            self.form,
            self.ignore_index,
            group,
            references=references,
            with_layout=with_layout,
            weights=weights,
        )

    def combine(self, parts: Similarities) -> tuple[Tensor, Tensor | float]:
        """Return the loss of a batch with this s and d, and its gamma."""
        gamma = self.gamma_of(parts)
        if isinstance(gamma, float):
            return parts.loss, gamma
        apart = parts.loss if self.same_weight == 1 else self.same_weight * parts.loss
        return apart + gamma * parts.other, gamma

    def gamma_of(self, parts: Similarities) -> Tensor | float:
        """Return gamma for a batch with this s and d."""
        if isinstance(self.rule, NeededGamma):
            return self.rule(self.rule_inputs(parts), self.same_weight)  # type: ignore[no-any-return]
        return self.rule(parts.same)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"gamma={self.gamma}, form={self.form!r}, global_batch={self.global_batch}"


def default_group() -> Any:
    """Return the default process group; raise `DistributedError` if it is not initialized."""
    if not (dist.is_available() and dist.is_initialized()):
        raise DistributedError(
            "global_batch=True needs a process group, but there is none: call torch.distributed.init_process_group() "
            "first (under torchrun), or use global_batch=False for the local batch."
        )
    return dist.group.WORLD
