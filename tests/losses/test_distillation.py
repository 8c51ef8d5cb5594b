"""The distillation of cosines vs a double loop over pairs."""

import pytest
import torch

from _loss_features import X, batch, cosine, gradient_of
from _said import refuses
from opl import errors
from opl.losses.distillation import DistillationProjectionLoss, distillation_projection


def distillation_by_loops(student, teacher, form, t=1.0):
    return distillation_of_each(student, teacher, form, t).mean()


def distillation_of_each(student, teacher, form, t):
    rows, values = len(student), []
    for i in range(rows):
        others = [j for j in range(rows) if j != i]
        ours = torch.stack([cosine(student[i], student[j]) for j in others])
        theirs = torch.stack([cosine(teacher[i], teacher[j]) for j in others])
        if form == "absolute":
            values.append(sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / len(others))
        else:
            p, q = ((x / t).exp() / (x / t).exp().sum() for x in (ours, theirs))
            values.append(t**2 * sum(b * (b / a).log() for a, b in zip(p, q, strict=True)))
    return torch.stack(values)


FORMS = [("absolute", 1.0), ("softmax", 1.0), ("softmax", 0.1), ("softmax", 4.0)]


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_distillation_equals_a_double_loop_over_pairs(form, t):
    student, teacher = batch()[0], batch(dim=9)[0]
    loss = DistillationProjectionLoss(form=form, temperature=t)
    torch.testing.assert_close(loss(student, teacher), distillation_by_loops(student, teacher, form, t))
    expected = gradient_of(lambda x: distillation_by_loops(x, teacher, form, t), student)
    torch.testing.assert_close(gradient_of(lambda x: loss(x, teacher), student), expected)


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_each_sample_has_its_value_and_ignored_rows_are_in_no_pair(form, t):
    student, teacher = batch()[0], batch(dim=9)[0]
    labels = torch.tensor([0, 0, -100, 0] * 3)
    kept = [i for i in range(12) if labels[i] == 0]
    each = distillation_of_each(student[kept], teacher[kept], form, t)
    student[2], teacher[6] = torch.nan, torch.inf  # in ignored rows
    options = {"form": form, "temperature": t}
    values = DistillationProjectionLoss(reduction="none", **options)(student, teacher, labels)
    torch.testing.assert_close(values[kept], each)
    assert not values[labels == -100].any()
    total = distillation_projection(student, teacher, labels, reduction="sum", **options)
    torch.testing.assert_close(total, each.sum())
    mean = distillation_projection(student, teacher, labels, **options)
    torch.testing.assert_close(mean, each.sum() / len(kept))
    slope = gradient_of(lambda x: distillation_projection(x, teacher, labels, **options), student)
    expected = gradient_of(lambda x: distillation_by_loops(x, teacher[kept], form, t), student[kept])
    torch.testing.assert_close(slope[kept], expected)
    assert not slope[labels == -100].any()


@pytest.mark.parametrize(("form", "t"), FORMS)
@pytest.mark.parametrize("left", [0, 1])
def test_a_single_row_that_is_not_ignored_has_no_pair(form, t, left):
    student, teacher = batch(rows=4)[0], batch(rows=4)[0]
    labels = torch.tensor([0] * left + [-100] * (4 - left))
    value = distillation_projection(student.requires_grad_(), teacher, labels, form=form, temperature=t)
    value.backward()
    assert value.item() == 0
    assert not student.grad.any()


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_distillation_is_zero_where_the_cosines_agree_and_never_negative(form, t):
    for _ in range(20):
        student, teacher = batch(rows=4)[0], batch(rows=4)[0]
        assert distillation_projection(student, teacher, form=form, temperature=t) > 0
        same = distillation_projection(student, student.clone(), form=form, temperature=t)
        assert same == 0


@pytest.mark.parametrize(("form", "t"), FORMS)
def test_the_teacher_may_be_turned_and_scaled_and_gets_no_gradient(form, t):
    student, teacher = batch()[0].requires_grad_(), batch(dim=9)[0].requires_grad_()
    turn, _ = torch.linalg.qr(torch.randn(9, 9, dtype=torch.float64))
    scale = torch.rand(len(teacher), 1, dtype=torch.float64) + 0.1
    value = distillation_projection(student, teacher, form=form, temperature=t)
    turned = distillation_projection(student, scale * (teacher @ turn), form=form, temperature=t)
    torch.testing.assert_close(turned, value)
    value.backward()
    assert student.grad.any()
    assert teacher.grad is None


def test_a_zero_feature_is_not_paired_with_itself_in_the_distillation():
    student, teacher = batch()[0], batch()[0]
    student[0] = 0  # its cosines are 0, that with itself would be 1 for the teacher only
    others = [abs(cosine(teacher[0], teacher[j])) for j in range(1, 12)]
    rest = distillation_projection(student[1:], teacher[1:]) * 11 * 10
    torch.testing.assert_close(distillation_projection(student, teacher), (rest + 2 * sum(others)) / (12 * 11))


TABLE = {
    "another unknown form": (
        lambda: DistillationProjectionLoss(form="soft"),
        errors.OptionError,
        ["'soft'", "did you mean 'softmax'"],
    ),
    "temperature 0": (
        lambda: DistillationProjectionLoss(temperature=0),
        errors.OptionError,
        ["temperature is 0", "above 0"],
    ),
    "fewer teacher rows": (lambda: distillation_projection(X, X[:3]), errors.FeatureError, ["3 teacher", "4 student"]),
    "a teacher of integers": (
        lambda: distillation_projection(X, X.long()),
        errors.FeatureError,
        ["teacher_features", "int64"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)
