"""Distillation of projections: the student learns the teacher's cosines between features."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision, unit_rows
from .._kernels.validate import as_integers, as_vectors, check_ignore_index, is_number, kept_rows
from ..errors import FeatureError, OptionError, did_you_mean
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

Form = Literal["absolute", "softmax"]
FORMS = get_args(Form)  # a constant: torch 2.6 cannot trace get_args

FORM: Form = "absolute"
TEMPERATURE = 1.0


def distillation_projection(
    student_features: Tensor,
    teacher_features: Tensor,
    labels: Tensor | None = None,
    *,
    form: Form = FORM,
    temperature: float = TEMPERATURE,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the difference between the student's cosines S_ij and the teacher's T_ij, over all pairs i != j.

    Based on the code released with Orthogonal Projection Loss (Ranasinghe et al., ICCV 2021). The form used there, the
    mean of `exp(T) (T - S)`, is not offered: raw cosines are not log-probabilities, so it is not a divergence, its
    minimum is not where the two agree, and it can be negative.

    - `"absolute"`: the mean over i of the mean over j of `|S_ij - T_ij|`.
    - `"softmax"`: the mean over i of `t^2 KL(softmax_j(T_ij / t) || softmax_j(S_ij / t))`, where t is the temperature.
      A softmax over one pair is constant, so a batch of two samples gives 0.

    Both are 0 if the cosines agree and never negative; a batch of fewer than two samples gives 0. The value of sample i
    is its part of the mean over i. The teacher gets no gradient.

    Args:
        student_features: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        teacher_features: (B, D'), of the same samples; D' may differ from D.
        labels: (B,) integers, used only to exclude rows; None means that all rows count.
        form: `"absolute"` or `"softmax"`.
        temperature: t of `"softmax"`; unused by `"absolute"`.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded from all pairs; with `reduction="none"` their value is 0.

    Example:
        >>> student, teacher = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
        >>> distillation_projection(student, teacher)
        tensor(1.)
    """
    _check_options(form, temperature)
    student = as_vectors(student_features, name="student_features")
    teacher = as_vectors(teacher_features, name="teacher_features").detach()
    rows = len(student)
    if len(teacher) != rows:
        raise FeatureError(
            f"{len(teacher)} teacher_features for {rows} student_features: pass both for the same samples, in the same "
            "order."
        )
    kept = None if labels is None else kept_rows(as_integers(labels, student), student, ignore_index)
    no_pair = torch.eye(rows, dtype=torch.bool, device=student.device)
    others: Tensor | int = max(1, rows - 1)
    if kept is not None:
        student, teacher = (x.masked_fill(~kept[:, None], 0) for x in (student, teacher))
        no_pair = no_pair | ~kept
        others = (kept.sum() - 1).clamp(min=1)
    with full_precision(student):
        cosines, wanted = _cosines(student), _cosines(teacher.to(student.dtype))
        if form == "absolute":
            values = (cosines - wanted).masked_fill(no_pair, 0).abs().sum(1) / others
        else:
            values = _divergences(cosines / temperature, wanted / temperature, no_pair) * temperature**2
        return reduce_losses(values, reduction, kept)


def _divergences(cosines: Tensor, wanted: Tensor, no_pair: Tensor) -> Tensor:
    """Return (B,) KL divergences of softmax rows; a finite fill keeps a row without pairs free of NaN."""
    lowest = torch.finfo(cosines.dtype).min
    log_p = F.log_softmax(cosines.masked_fill(no_pair, lowest), dim=1)
    log_q = F.log_softmax(wanted.masked_fill(no_pair, lowest), dim=1)
    return (log_q.exp() * (log_q - log_p)).masked_fill(no_pair, 0).sum(1)


class DistillationProjectionLoss(nn.Module):
    """Distillation of cosines, called with the features of student and teacher: see `distillation_projection`.

    Args:
        form: `"absolute"` or `"softmax"`.
        temperature: t of `"softmax"`.
        reduction: see `distillation_projection`.
        ignore_index: rows with this label are excluded, if labels are given.

    Example:
        >>> loss = DistillationProjectionLoss()
        >>> student_features, teacher_features = torch.randn(8, 64), torch.randn(8, 512)
        >>> logits, labels = torch.randn(8, 10), torch.arange(8)
        >>> total = F.cross_entropy(logits, labels) + 0.1 * loss(student_features, teacher_features)
    """

    def __init__(
        self,
        *,
        form: Form = FORM,
        temperature: float = TEMPERATURE,
        reduction: Reduction = "mean",
        ignore_index: int = IGNORE_INDEX,
    ) -> None:
        super().__init__()
        _check_options(form, temperature)
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.form: Form = form
        self.temperature, self.reduction, self.ignore_index = temperature, reduction, ignore_index

    def forward(self, student_features: Tensor, teacher_features: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the loss of (B, D) features; labels only exclude rows."""
        return distillation_projection(
            student_features,
            teacher_features,
            labels,
            form=self.form,
            temperature=self.temperature,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"form={self.form!r}, temperature={self.temperature}, reduction={self.reduction!r}"


def _cosines(features: Tensor) -> Tensor:
    directions = unit_rows(features)
    return directions @ directions.T


def _check_options(form: str, temperature: float) -> None:
    if form not in FORMS:
        raise OptionError(did_you_mean("form", form, FORMS))
    if not is_number(temperature) or not math.isfinite(temperature) or temperature <= 0:
        raise OptionError(f"temperature is {temperature!r} but must be a finite number above 0, such as 1.")
