"""Knowledge distillation vs the divergence by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from _divergence import divergence
from opl.errors import FeatureError, OptionError
from opl.losses import KnowledgeDistillationLoss, knowledge_distillation


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_distillation_is_the_divergence_written_out(temperature):
    student, teacher = torch.randn(7, 4, dtype=torch.float64), 3 * torch.randn(7, 4, dtype=torch.float64)
    each = [divergence(t, s, temperature) for t, s in zip(teacher.tolist(), student.tolist(), strict=True)]
    found = knowledge_distillation(student, teacher, temperature=temperature)
    assert found.item() == pytest.approx(sum(each) / 7)
    assert KnowledgeDistillationLoss(temperature=temperature, reduction="sum")(
        student, teacher
    ).item() == pytest.approx(sum(each))
    shifted = knowledge_distillation(student + 5, student, temperature=temperature)
    assert shifted.item() == pytest.approx(0, abs=1e-12)


def test_the_teacher_gets_no_gradient_and_the_student_that_of_its_probabilities():
    student = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    knowledge_distillation(student, teacher, temperature=4.0).backward()
    assert teacher.grad is None
    expected = 4.0 * (F.softmax(student / 4, 1) - F.softmax(teacher / 4, 1)) / 3  # t^2 * 1/t
    torch.testing.assert_close(student.grad, expected.detach())


def test_distillation_refuses_mismatched_logits_and_invalid_temperatures():
    with pytest.raises(FeatureError, match=r"\(2, 3\).*\(2, 4\)"):
        knowledge_distillation(torch.zeros(2, 3), torch.zeros(2, 4))
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(OptionError, match="temperature"):
            KnowledgeDistillationLoss(temperature=wrong)
