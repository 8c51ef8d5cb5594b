"""L-Softmax vs a double loop over samples and classes, its gradient, and how its margin is let in."""

import math

import pytest
import torch
from _head_vectors import SEEDS, batch, build, often
from hypothesis import given
from hypothesis import strategies as st

from _said import refuses
from opl import errors
from opl.heads.l_softmax import LSoftmaxHead, l_softmax


def written_out(features, weight, labels, margin, blend):
    """The logits of Liu et al., 2016, one number at a time."""
    rows = []
    for f, label in zip(features.tolist(), labels.tolist(), strict=True):
        rows.append([])
        for j, w in enumerate(weight.tolist()):
            product = sum(a * b for a, b in zip(f, w, strict=True))
            if j == label:
                lengths = math.hypot(*f) * math.hypot(*w)
                angle = math.acos(max(-1.0, min(1.0, product / lengths)))
                k = min(int(margin * angle / math.pi), margin - 1)
                psi = (-1) ** k * math.cos(margin * angle) - 2 * k
                product = (blend * product + lengths * psi) / (1 + blend)
            rows[-1].append(product)
    return torch.tensor(rows, dtype=torch.float64)


@often
@given(SEEDS, st.integers(1, 5), st.sampled_from([0.0, 0.3, 5.0, 1000.0]))
def test_l_softmax_equals_the_formula_written_as_a_double_loop(seed, margin, blend):
    features, weight, labels = batch(seed)
    got = l_softmax(features, weight, labels, margin=margin, blend=blend)
    torch.testing.assert_close(got, written_out(features, weight, labels, margin, blend), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("blend", [0.0, 5.0])
def test_a_margin_of_1_or_no_label_gives_a_linear_layer_without_bias(blend):
    features, weight, labels = batch()
    inputs = (features, weight)
    plain = features @ weight.T
    pull = torch.randn(plain.shape, dtype=plain.dtype)
    expected = torch.autograd.grad((pull * plain).sum(), inputs)
    for got in (l_softmax(*inputs, labels, margin=1, blend=blend), l_softmax(*inputs)):
        torch.testing.assert_close(got, plain, rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(torch.autograd.grad((pull * got).sum(), inputs), expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(l_softmax(*inputs, labels, blend=1e12), plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("margin", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("blend", [0.0, 2.0])
def test_the_gradient_equals_finite_differences(margin, blend):
    features, weight, labels = batch(rows=6, classes=4)
    assert torch.autograd.gradcheck(
        lambda *pair: l_softmax(*pair, labels, margin=margin, blend=blend), (features, weight)
    )


def test_lengths_of_class_vectors_and_features_scale_the_logits():
    features, weight, labels = batch()
    lengths = torch.linspace(0.5, 4, 7, dtype=torch.float64)[:, None]
    one = l_softmax(features, weight, labels)
    torch.testing.assert_close(l_softmax(3 * features, lengths * weight, labels), 3 * one * lengths.T)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_zero_vector_has_the_logits_and_gradient_of_a_linear_layer(kind):
    features, weight, labels = (each.detach().to(kind) if each.is_floating_point() else each for each in batch())
    none = torch.zeros_like
    for inputs in ((none(features), weight), (features, none(weight)), (none(features), none(weight))):
        inputs = [each.clone().requires_grad_() for each in inputs]
        got, plain = l_softmax(*inputs, labels), inputs[0] @ inputs[1].T
        assert torch.equal(got, plain)
        got, plain = (torch.autograd.grad(each.sum(), inputs) for each in (got, plain))
        torch.testing.assert_close(got, plain)


def test_the_margin_grows_with_each_training_call_as_in_the_released_code():
    head = LSoftmaxHead(2, num_classes=2, margin=2)
    head.weight.data = 3 * torch.eye(2)
    features, labels = torch.tensor([[0.0, 2.0]]), torch.tensor([0])  # cos = 0, so psi = cos(pi) = -1
    assert head(features, labels)[0, 0].item() == pytest.approx(-6 / 1001)
    for step in (1, 1000, 8700, 20_000, 70_400):
        head.set_step(step)
        blend = 1000 * (1 + 0.000025 * step) ** -35
        assert head(features, labels)[0].tolist() == pytest.approx([-6 / (1 + blend), 6], rel=1e-4)
    assert head.step == 70_401
    assert blend < 1e-12
    assert head.eval()(features, labels)[0].tolist() == [0, 6]
    head.train()(features)
    assert head.step == 70_401  # only training calls with labels have a margin to let in


def test_class_vectors_are_initialized_as_in_the_released_code():
    torch.manual_seed(0)
    weight = LSoftmaxHead(64, num_classes=5000).weight
    assert weight.std().item() == pytest.approx(math.sqrt(2 / 64), rel=0.01)
    assert weight.mean().item() == pytest.approx(0, abs=1e-3)


BAD = {
    "half an angle": (build(LSoftmaxHead, margin=1.5), errors.OptionError, ["1.5", "integer"]),
    "no angle": (build(LSoftmaxHead, margin=0), errors.OptionError, ["margin is 0", "at least 1"]),
    "a blend of 0": (build(LSoftmaxHead, base=0.0), errors.OptionError, ["base is 0.0", "above 0"]),
    "a blend below 0": (build(LSoftmaxHead, floor=-1.0), errors.OptionError, ["floor is -1.0", "at least 0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
