"""Distillation of projections: the student learns the teacher's cosines between features."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.normalize import full_precision, unit_rows
from .._support.arguments import as_vectors
from ..errors import FeatureError, OptionError, did_you_mean
from ..functional import is_number

Form = Literal["absolute", "softmax"]

FORM: Form = "absolute"
TEMPERATURE = 1.0


def distillation_projection(
    student: Tensor, teacher: Tensor, *, form: Form = FORM, temperature: float = TEMPERATURE
) -> Tensor:
    """Compute the difference between the student's cosines S_ij and the teacher's T_ij, over all pairs i != j.

    Based on the code released with Orthogonal Projection Loss (Ranasinghe et al., ICCV 2021). The form used there, the
    mean of `exp(T) (T - S)`, is not offered: raw cosines are not log-probabilities, so it is not a divergence, its
    minimum is not where the two agree, and it can be negative.

    - `"absolute"`: the mean of `|S_ij - T_ij|`.
    - `"softmax"`: the mean over i of `t^2 KL(softmax_j(T_ij / t) || softmax_j(S_ij / t))`, where t is the temperature.
      A softmax over one pair is constant, so a batch of two samples gives 0.

    Both are 0 if the cosines agree and never negative; a batch of fewer than two samples gives 0. The teacher gets no
    gradient.

    Args:
        student: (B, D), any floating dtype; computed in fp64 for fp64 features, otherwise in fp32.
        teacher: (B, D'), features of the same samples; D' may differ from D.
        form: `"absolute"` or `"softmax"`.
        temperature: t of `"softmax"`; unused by `"absolute"`.

    Example:
        >>> student, teacher = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
        >>> distillation_projection(student, teacher)
        tensor(1.)
    """
    _check_options(form, temperature)
    student = as_vectors(student, name="student_features")
    teacher = as_vectors(teacher, name="teacher_features").detach()
    rows = len(student)
    if len(teacher) != rows:
        raise FeatureError(
            f"{len(teacher)} teacher_features for {rows} student_features: give both for the same samples, in the same "
            "order."
        )
    if rows < 2:
        return 0 * student.sum()
    itself = torch.eye(rows, dtype=torch.bool, device=student.device)
    with full_precision(student):
        cosines, wanted = _cosines(student), _cosines(teacher.to(student.dtype))
        if form == "absolute":
            return (cosines - wanted).masked_fill(itself, 0).abs().sum() / (rows * (rows - 1))
        log_p = F.log_softmax((cosines / temperature).masked_fill(itself, -torch.inf), dim=1)
        log_q = F.log_softmax((wanted / temperature).masked_fill(itself, -torch.inf), dim=1)
        surprise = (log_q - log_p).masked_fill(itself, 0)  # inf - inf is NaN on the diagonal
        return temperature**2 * (log_q.exp() * surprise).sum() / rows


class DistillationProjectionLoss(nn.Module):
    """Distillation of cosines, called with the features of student and teacher: see `distillation_projection`.

    Args:
        form: `"absolute"` or `"softmax"`.
        temperature: t of `"softmax"`.

    Example:
        >>> loss = DistillationProjectionLoss()
        >>> student_features, teacher_features = torch.randn(8, 64), torch.randn(8, 512)
        >>> logits, labels = torch.randn(8, 10), torch.arange(8)
        >>> total = F.cross_entropy(logits, labels) + 0.1 * loss(student_features, teacher_features)
    """

    def __init__(self, form: Form = FORM, temperature: float = TEMPERATURE) -> None:
        super().__init__()
        _check_options(form, temperature)
        self.form: Form = form
        self.temperature = temperature

    def forward(self, student_features: Tensor, teacher_features: Tensor) -> Tensor:
        """Return the scalar loss."""
        return distillation_projection(student_features, teacher_features, form=self.form, temperature=self.temperature)

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"form={self.form!r}, temperature={self.temperature}"


def _cosines(features: Tensor) -> Tensor:
    directions = unit_rows(features)
    return directions @ directions.T


def _check_options(form: str, temperature: float) -> None:
    if form not in get_args(Form):
        raise OptionError(did_you_mean("form", form, get_args(Form)))
    if not is_number(temperature) or not math.isfinite(temperature) or temperature <= 0:
        raise OptionError(f"temperature is {temperature!r}: give a finite number above 0, such as 1.")
