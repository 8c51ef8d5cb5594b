"""Knowledge distillation: a student that answers as its teacher does, soft answers included."""

from torch import Tensor, nn
from torch.nn import functional as F

from .._support.arguments import as_vectors, check_positive
from .._support.reduction import Reduction, check_reduction, reduce_losses
from ..errors import FeatureError

TEMPERATURE = 4.0


def knowledge_distillation(
    student: Tensor, teacher: Tensor, *, temperature: float = TEMPERATURE, reduction: Reduction = "mean"
) -> Tensor:
    """The mean over samples of `t^2 KL(softmax(teacher / t) || softmax(student / t))`, where t is the temperature.

    Distilling the Knowledge in a Neural Network (Hinton et al., 2015). The factor keeps gradients of one size whatever
    the temperature. 0 where both give the same probabilities, never negative; the teacher gets no gradient.

    Args:
        student: (B, C) logits, of any floating type; computed in fp32, or in fp64 if given so.
        teacher: (B, C) logits of the same samples.
        temperature: larger looks at what the teacher says of wrong classes too.
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
    """The student's answers against the teacher's, called with the logits of both: see `knowledge_distillation`.

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
        """The loss of (B, C) logits."""
        return knowledge_distillation(
            student_logits, teacher_logits, temperature=self.temperature, reduction=self.reduction
        )

    def extra_repr(self) -> str:
        """The settings."""
        return f"temperature={self.temperature}, reduction={self.reduction!r}"
