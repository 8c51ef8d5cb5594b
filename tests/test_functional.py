"""The loss against its definition, for every form, label kind, algorithm and edge."""

import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from _batches import FORMS, algorithms_for, batches, by_class_sums
from conftest import by_definition
from opl import functional, orthogonal_projection


@settings(
    max_examples=int(os.environ.get("OPL_TEST_CASES", "600")),
    derandomize="CI" in os.environ,  # new cases at every desk, the same ones in CI
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(batches(), st.sampled_from(FORMS), st.sampled_from([0.0, 0.5, 2.0]))
def test_every_way_equals_the_double_loop_in_value_and_gradient(batch, form, gamma):
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
    monkeypatch.setattr(class_sums, "RUN", 5)
    features = torch.randn(60, 6, dtype=torch.float64)
    features = (features if signed else features.abs()).requires_grad_()
    labels = torch.rand(60, 4, dtype=torch.float64).softmax(1) if soft else torch.randint(0, 3, (60,))
    labels[::11] = -100
    expected = by_definition(features, labels, gamma=0.5, form=form)
    gradient = torch.autograd.grad(expected[0], features)[0]
    for algorithm in algorithms_for(features, labels, form):
        got = orthogonal_projection(features, labels, form=form, algorithm=algorithm)
        torch.testing.assert_close(torch.stack(got), torch.stack(expected), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(torch.autograd.grad(got.loss, features)[0], gradient, rtol=1e-8, atol=1e-10)


def test_classes_at_exact_right_angles_have_nothing_left_to_learn_where_a_relu_is_open():
    features = torch.eye(4, dtype=torch.float64).repeat(3, 1).requires_grad_()
    labels = torch.arange(4).repeat(3)
    for algorithm in ("pairs", "class_sums", "tiled"):
        got = orthogonal_projection(features, labels, algorithm=algorithm)
        assert [value.item() for value in got] == pytest.approx([0, 1, 0])
        (gradient,) = torch.autograd.grad(got.loss, features)
        assert not gradient[features > 0].any()
        assert (gradient == 0).all() or by_class_sums(algorithm, features, labels)


def test_one_hot_rows_give_the_integer_result():
    features = torch.randn(40, 8)
    labels = torch.randint(0, 5, (40,))
    rows = torch.nn.functional.one_hot(labels, 5).float()
    for form in FORMS:
        hard = orthogonal_projection(features, labels, form=form, algorithm="pairs")
        assert hard == orthogonal_projection(features, rows, form=form, algorithm="pairs")
        torch.testing.assert_close(torch.stack(orthogonal_projection(features, rows, form=form)), torch.stack(hard))


def test_a_column_of_labels_and_pooled_maps_are_the_same_batch():
    features, labels = torch.randn(12, 5), torch.randint(0, 3, (12,))
    plain = orthogonal_projection(features, labels)
    assert plain == orthogonal_projection(features[:, :, None, None], labels[:, None].int())


def cancelling_batches():
    """fp32 batches of 4,096 in which the pairs of one kind are very few."""
    few_same = torch.arange(4096)
    few_same[[10, 20, 30]] = torch.tensor([9, 19, 29])  # three positive pairs
    few_other = torch.zeros(4096, dtype=torch.long)
    few_other[7] = 1  # one sample against all others
    return {"three same-class pairs": few_same, "one sample of another class": few_other}


@pytest.mark.parametrize("kind", cancelling_batches())
@pytest.mark.parametrize("algorithm", ["auto", "pairs", "class_sums", "tiled"])
@pytest.mark.parametrize("signed", [False, True])
def test_large_fp32_batches_with_few_pairs_keep_their_digits(kind, algorithm, signed):
    labels = cancelling_batches()[kind]
    features = torch.randn(4096, 16)
    features = features if signed else features.abs()
    form = "mean" if algorithm == "class_sums" else "mean_abs"
    single = features.clone().requires_grad_()
    double = features.double().requires_grad_()
    got = orthogonal_projection(single, labels, form=form, algorithm=algorithm)
    unit = torch.nn.functional.normalize(double, dim=1)
    cosines = unit @ unit.T
    same = labels[:, None] == labels
    other = cosines[~same] if form == "mean" else cosines[~same].abs()
    s = cosines[same & ~torch.eye(4096, dtype=torch.bool)].mean()
    expected = torch.stack([1 - s + 0.5 * other.mean(), s, other.mean()])
    torch.testing.assert_close(torch.stack(got).double(), expected, rtol=0, atol=1e-5)
    got.loss.backward()
    expected[0].backward()
    error = (single.grad.double() - double.grad).norm(dim=1) / double.grad.norm(dim=1)
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("algorithm", ["pairs", "class_sums", "tiled"])
def test_half_precision_with_zero_rows_and_long_rows_is_finite_and_close(dtype, algorithm):
    features = torch.rand(64, 16)
    features[::5] = 0
    features[1::5] *= 1e4 / features[1::5].norm(dim=1, keepdim=True)
    features = features.to(dtype).requires_grad_()
    labels = torch.randint(0, 4, (64,))
    got = orthogonal_projection(features, labels, algorithm=algorithm)
    got.loss.backward()
    assert got.loss.dtype == torch.float32
    assert features.grad.dtype == dtype
    assert features.grad.isfinite().all()
    assert not features.grad[::5].any()
    exact = features.detach().double().requires_grad_()
    expected = by_definition(exact, labels, gamma=0.5, form="mean_abs")
    torch.testing.assert_close(got.loss.double(), expected[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-18, 1e18, 1e-37, 1e30])
@pytest.mark.parametrize("algorithm", ["pairs", "class_sums", "tiled"])
def test_extreme_lengths_in_fp32_have_the_right_direction(scale, algorithm):
    features, labels = torch.rand(40, 300), torch.randint(0, 3, (40,))
    scaled = (features * scale).requires_grad_()
    got = orthogonal_projection(scaled, labels, algorithm=algorithm)
    plain = features.clone().requires_grad_()
    expected = orthogonal_projection(plain, labels, algorithm=algorithm)
    torch.testing.assert_close(got.loss, expected.loss)
    got.loss.backward()
    expected.loss.backward()
    if scale < 1e30:  # there the gradient, 1e-32 of ours, is still a number of fp32, but a coarse one
        torch.testing.assert_close(scaled.grad * scale, plain.grad, rtol=1e-3, atol=1e-7)
    assert scaled.grad.isfinite().all()


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


def test_the_way_is_chosen_as_documented():
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


def test_the_docstrings_examples_are_true():
    import doctest

    import opl
    from opl import errors, schedules, verification
    from opl.losses import projection, queue
    from opl.plugin import criterion, graph, tap

    names = {"torch": torch, "nn": torch.nn, "OrthogonalProjectionLoss": opl.OrthogonalProjectionLoss}
    for module in (functional, criterion, graph, tap, projection, queue, schedules, verification, errors):
        result = doctest.testmod(module, extraglobs=names)
        assert result.attempted > 0
        assert result.failed == 0, module.__name__


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_at_ordinary_batch_sizes_nothing_waits_for_an_accelerator(form, soft):
    """Tensors on `meta` have no values: any look at one raises, as it would make an accelerator wait."""
    features = torch.empty(2048, 64, device="meta", dtype=torch.bfloat16, requires_grad=True)
    labels = torch.empty(2048, 9, device="meta") if soft else torch.empty(2048, device="meta", dtype=torch.long)
    assert functional.select_algorithm(features, labels, form=form) == "pairs"
    orthogonal_projection(features, labels, form=form).loss.backward()
    assert features.grad.shape == features.shape
