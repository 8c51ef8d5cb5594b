"""Knowledge distillation: the student learns the teacher's class probabilities."""

from torch import Tensor, nn
from torch.nn import functional as F

from .._kernels.validate import as_integers, as_vectors, check_ignore_index, check_positive, kept_rows
from ..errors import FeatureError
from ..functional import IGNORE_INDEX
from ._reduction import Reduction, check_reduction, reduce_losses

TEMPERATURE = 4.0


def knowledge_distillation(
    student_logits: Tensor,
    teacher_logits: Tensor,
    labels: Tensor | None = None,
    *,
    temperature: float = TEMPERATURE,
    reduction: Reduction = "mean",
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:
    """Compute the mean over samples of `t^2 KL(softmax(teacher / t) || softmax(student / t))`, t the temperature.

    Distilling the Knowledge in a Neural Network (Hinton et al., 2015). The factor t^2 keeps the size of the gradients
    independent of the temperature. The loss is never negative, and 0 if both give the same probabilities. The teacher
    gets no gradient.

    Args:
        student_logits: (B, C), any floating dtype; computed in fp64 for fp64 logits, otherwise in fp32.
        teacher_logits: (B, C), of the same samples.
        labels: (B,) integers, used only to exclude rows; None means that all rows count.
        temperature: t; larger values give the teacher's probabilities of wrong classes more influence.
        reduction: `"mean"` over the samples that count (0 if there are none), `"sum"` or `"none"`.
        ignore_index: rows with this label are excluded; with `reduction="none"` their value is 0.

    Example:
        >>> import torch
        >>> knowledge_distillation(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 2.0]]))
        tensor(0.)
    """
    check_positive("temperature", temperature)
    student = as_vectors(student_logits, name="student_logits")
    teacher = as_vectors(teacher_logits, name="teacher_logits").detach()
    if student.shape != teacher.shape:
        raise FeatureError(
            f"student_logits have shape {tuple(student.shape)} and teacher_logits {tuple(teacher.shape)}: pass both "
            "for the same samples and the same classes."
        )
    kept = None if labels is None else kept_rows(as_integers(labels, student), student, ignore_index)
    if kept is not None:
        student, teacher = (logits.masked_fill(~kept[:, None], 0) for logits in (student, teacher))
    log_p = F.log_softmax(student / temperature, dim=1)
    log_q = F.log_softmax(teacher.to(student.dtype) / temperature, dim=1)
    return reduce_losses(temperature**2 * (log_q.exp() * (log_q - log_p)).sum(1), reduction, kept)


class KnowledgeDistillationLoss(nn.Module):
    """Knowledge distillation, called with the logits of student and teacher: see `knowledge_distillation`.

    It needs no labels; `loss(student_logits, teacher_logits, labels)` excludes the rows labeled `ignore_index`.

    Example:
        >>> import torch
        >>> loss = KnowledgeDistillationLoss(temperature=4.0)
        >>> student_logits, teacher_logits, labels = torch.randn(8, 10), torch.randn(8, 10), torch.arange(8)
        >>> total = 0.5 * F.cross_entropy(student_logits, labels) + 0.5 * loss(student_logits, teacher_logits)
    """

    def __init__(
        self, *, temperature: float = TEMPERATURE, reduction: Reduction = "mean", ignore_index: int = IGNORE_INDEX
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        check_ignore_index(ignore_index)
        self.temperature = check_positive("temperature", temperature)
        self.reduction, self.ignore_index = reduction, ignore_index

    def forward(self, student_logits: Tensor, teacher_logits: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the loss of (B, C) logits."""
        return knowledge_distillation(
            student_logits,
            teacher_logits,
            labels,
            temperature=self.temperature,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"temperature={self.temperature}, reduction={self.reduction!r}"
