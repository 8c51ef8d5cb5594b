"""Knowledge distillation: the student learns the teacher's class probabilities."""

from torch import Tensor, nn
from torch.nn import functional as F

from .._support.arguments import as_vectors, check_positive
from .._support.reduction import Reduction, check_reduction, reduce_losses
from ..errors import FeatureError

TEMPERATURE = 4.0


def knowledge_distillation(
    student: Tensor, teacher: Tensor, *, temperature: float = TEMPERATURE, reduction: Reduction = "mean"
) -> Tensor:
    """Compute the mean over samples of `t^2 KL(softmax(teacher / t) || softmax(student / t))`, t the temperature.

    Distilling the Knowledge in a Neural Network (Hinton et al., 2015). The factor t^2 keeps the size of the gradients
    independent of the temperature. The loss is never negative, and 0 if both give the same probabilities. The teacher
    gets no gradient.

    Args:
        student: (B, C) logits, any floating dtype; computed in fp64 for fp64 logits, otherwise in fp32.
        teacher: (B, C) logits of the same samples.
        temperature: t; larger values give the teacher's probabilities of wrong classes more influence.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Example:
        >>> import torch
        >>> knowledge_distillation(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 2.0]]))
        tensor(0.)
    """
    check_positive("temperature", temperature)
    student = as_vectors(student, name="student_logits")
    teacher = as_vectors(teacher, name="teacher_logits").detach()
    if student.shape != teacher.shape:
        raise FeatureError(
            f"student_logits have shape {tuple(student.shape)} and teacher_logits {tuple(teacher.shape)}: give both "
            "for the same samples and the same classes."
        )
    log_p = F.log_softmax(student / temperature, dim=1)
    log_q = F.log_softmax(teacher.to(student.dtype) / temperature, dim=1)
    return reduce_losses(temperature**2 * (log_q.exp() * (log_q - log_p)).sum(1), reduction)


class KnowledgeDistillationLoss(nn.Module):
    """Knowledge distillation, called with the logits of student and teacher: see `knowledge_distillation`.

    Example:
        >>> import torch
        >>> loss = KnowledgeDistillationLoss(temperature=4.0)
        >>> student_logits, teacher_logits, labels = torch.randn(8, 10), torch.randn(8, 10), torch.arange(8)
        >>> total = 0.5 * F.cross_entropy(student_logits, labels) + 0.5 * loss(student_logits, teacher_logits)
    """

    def __init__(self, temperature: float = TEMPERATURE, reduction: Reduction = "mean") -> None:
        super().__init__()
        check_reduction(reduction)
        self.temperature, self.reduction = check_positive("temperature", temperature), reduction

    def forward(self, student_logits: Tensor, teacher_logits: Tensor) -> Tensor:
        """Return the loss of (B, C) logits."""
        return knowledge_distillation(
            student_logits, teacher_logits, temperature=self.temperature, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """Return the settings, for `print(model)`."""
        return f"temperature={self.temperature}, reduction={self.reduction!r}"
