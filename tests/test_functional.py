"""The loss vs its definition, for every form, label kind, algorithm and edge."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from _batches import FORMS, algorithms_for, batches, by_class_sums
from conftest import by_definition
from opl import functional, orthogonal_projection


@settings(max_examples=4 * settings.default.max_examples)
@given(batches(), st.sampled_from(FORMS), st.sampled_from([0.0, 0.5, 2.0]))
def test_every_algorithm_equals_the_double_loop_in_value_and_gradient(batch, form, gamma):
    features, labels = batch
    features.requires_grad_()
    expected = by_definition(features, labels, gamma=gamma, form=form)
    gradients = {}
    for algorithm in algorithms_for(features, labels, form):
        smooth = "mean" if form == "mean_abs" and by_class_sums(algorithm, features, labels) else form
        if smooth not in gradients:
            exact = expected if smooth == form else by_definition(features, labels, gamma=gamma, form=smooth)
            gradients[smooth] = torch.autograd.grad(exact[0] + 0 * features.sum(), features)[0]
        gradient = gradients[smooth]
        got = orthogonal_projection(features, labels, gamma=gamma, form=form, algorithm=algorithm)
        for value, answer in zip(got, expected, strict=True):
            torch.testing.assert_close(value, answer, rtol=1e-10, atol=1e-10)
        (found,) = torch.autograd.grad(got.loss, features)
        # A row of length 1e-18 has a gradient of 1e18: what turns its direction is held to eight digits.
        length = torch.where(features.norm(dim=1, keepdim=True) > 0, features.norm(dim=1, keepdim=True), 1).detach()
        torch.testing.assert_close(found * length, gradient * length, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_many_tiles_and_long_runs_equal_all_pairs_at_once(monkeypatch, form, soft, signed):
    from opl._kernels import class_sums, tiled

    monkeypatch.setattr(tiled, "TILE", 7)
    monkeypatch.setattr(tiled, "GRAM_ROWS", 1)
    monkeypatch.setattr(class_sums, "RUN", 5)
    features = torch.randn(30, 6, dtype=torch.float64)
    features = (features if signed else features.abs()).requires_grad_()
    labels = torch.rand(30, 4, dtype=torch.float64).softmax(1) if soft else torch.randint(0, 3, (30,))
    labels[::11] = -100
    expected = by_definition(features, labels, gamma=0.5, form=form)
    gradient = torch.autograd.grad(expected[0], features)[0]
    for algorithm in algorithms_for(features, labels, form):
        got = orthogonal_projection(features, labels, form=form, algorithm=algorithm)
        torch.testing.assert_close(torch.stack(got), torch.stack(expected), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(torch.autograd.grad(got.loss, features)[0], gradient, rtol=1e-8, atol=1e-10)


def test_orthogonal_classes_have_no_gradient_where_features_are_positive():
    features = torch.eye(4, dtype=torch.float64).repeat(3, 1).requires_grad_()
    labels = torch.arange(4).repeat(3)
    for algorithm in ("pairs", "class_sums", "tiled"):
        got = orthogonal_projection(features, labels, algorithm=algorithm)
        assert [value.item() for value in got] == pytest.approx([0, 1, 0])
        (gradient,) = torch.autograd.grad(got.loss, features)
        assert not gradient[features > 0].any()
        assert (gradient == 0).all() or by_class_sums(algorithm, features, labels)


FEW_SAME, FEW_OTHER = torch.arange(2048), torch.zeros(2048, dtype=torch.long)
FEW_SAME[[10, 20, 30]] = torch.tensor([9, 19, 29])  # three positive pairs
FEW_OTHER[7] = 1  # one sample vs all others


@pytest.mark.parametrize("labels", [FEW_SAME, FEW_OTHER], ids=["few same", "few other"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("form", ["mean_abs", "mean"])
def test_large_fp32_batches_with_few_pairs_of_one_kind_are_precise(labels, signed, form):
    features = torch.randn(2048, 16)
    features = features if signed else features.abs()
    double = features.double().requires_grad_()
    unit = torch.nn.functional.normalize(double, dim=1)
    cosines = unit @ unit.T
    same = labels[:, None] == labels
    other = cosines[~same] if form == "mean" else cosines[~same].abs()
    s = cosines[same & ~torch.eye(2048, dtype=torch.bool)].mean()
    expected = torch.stack([1 - s + 0.5 * other.mean(), s, other.mean()])
    (exact,) = torch.autograd.grad(expected[0], double)
    for algorithm in ["class_sums"] if form == "mean" else ["auto", "pairs", "tiled"]:
        single = features.clone().requires_grad_()
        got = orthogonal_projection(single, labels, form=form, algorithm=algorithm)
        torch.testing.assert_close(torch.stack(got).double(), expected, rtol=0, atol=1e-5)
        got.loss.backward()
        error = (single.grad.double() - exact).norm(dim=1) / exact.norm(dim=1)
        assert error.max() < 1e-3
        assert error.median() < 1e-5


def test_edges_have_a_defined_loss_and_no_gradient():
    one = torch.randn(1, 3, requires_grad=True)
    none_left = torch.randn(4, 3, requires_grad=True)
    empty = torch.zeros(0, 3, requires_grad=True)
    cases = [(one, torch.tensor([0])), (none_left, torch.full((4,), -100)), (empty, torch.zeros(0, dtype=torch.long))]
    for features, labels in cases:
        for algorithm in ("auto", "pairs", "tiled"):
            got = orthogonal_projection(features, labels, algorithm=algorithm)
            assert [value.item() for value in got] == [1, 0, 0]
            (gradient,) = torch.autograd.grad(got.loss, features)
            assert gradient.shape == features.shape
            assert not gradient.any()
    one_class = orthogonal_projection(torch.randn(6, 3), torch.zeros(6, dtype=torch.long))
    assert one_class.other == 0
    singletons = orthogonal_projection(torch.randn(6, 3), torch.arange(6))
    assert singletons.same == 0


@pytest.mark.parametrize("backward_inside", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_autocast_changes_nothing(backward_inside, soft):
    features = torch.randn(200, 32)
    labels = torch.rand(200, 4).softmax(1) if soft else torch.randint(0, 4, (200,))
    for form in FORMS:
        plain = features.clone().requires_grad_()
        orthogonal_projection(plain, labels, form=form).loss.backward()
        cast = features.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = orthogonal_projection(cast, labels, form=form).loss
            if backward_inside:
                loss.backward()
        if not backward_inside:
            loss.backward()
        torch.testing.assert_close(cast.grad, plain.grad, rtol=0, atol=0)


def test_the_parts_are_differentiable_on_their_own():
    features = torch.randn(20, 8, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 3, (20,))
    expected = by_definition(features, labels, gamma=0.5, form="mean")
    for algorithm in ("pairs", "class_sums", "tiled"):
        got = orthogonal_projection(features, labels, form="mean", algorithm=algorithm)
        for value, answer in zip(got[1:], expected[1:], strict=True):
            (found,) = torch.autograd.grad(value.square(), features, retain_graph=True)
            (gradient,) = torch.autograd.grad(answer.square(), features, retain_graph=True)
            torch.testing.assert_close(found, gradient, rtol=1e-8, atol=1e-12)


def test_the_algorithm_is_chosen_as_documented():
    def algorithm(features, labels, form="mean_abs"):
        return functional.select_algorithm(features, labels, form=form)

    hard = torch.zeros(4096, dtype=torch.long)
    assert algorithm(torch.rand(4096, 8), hard) == "class_sums"
    assert algorithm(torch.randn(4096, 8), hard) == "tiled"
    assert algorithm(torch.randn(4096, 8), hard, "abs_mean") == "class_sums"
    assert algorithm(torch.randn(1024, 8), hard[:1024]) == "pairs"
    assert algorithm(torch.rand(128, 64), hard[:128]) == "pairs"
    assert algorithm(torch.rand(128, 512), hard[:128]) == "class_sums"
    few_rows = torch.rand(1500, 1000).softmax(1)
    assert algorithm(torch.rand(1500, 8), few_rows) == "tiled"
    assert algorithm(torch.rand(1500, 8), torch.rand(1500, 10).softmax(1)) == "class_sums"


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_at_ordinary_batch_sizes_nothing_waits_for_an_accelerator(form, soft):
    """Tensors on `meta` have no values: any look at one raises, as it would make an accelerator wait."""
    features = torch.empty(2048, 64, device="meta", dtype=torch.bfloat16, requires_grad=True)
    labels = torch.empty(2048, 9, device="meta") if soft else torch.empty(2048, device="meta", dtype=torch.long)
    assert functional.select_algorithm(features, labels, form=form) == "pairs"
    orthogonal_projection(features, labels, form=form).loss.backward()
    assert features.grad.shape == features.shape
