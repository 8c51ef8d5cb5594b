"""Pairs of features with references, and the queue that keeps them, vs a double loop in float64."""

import itertools

import pytest
import torch

from _batches import FORMS
from _said import refuses
from conftest import by_definition
from opl import OrthogonalProjectionLoss, Queue, errors, orthogonal_projection
from opl._kernels import tiled

LABELS = {
    "hard": (torch.tensor([0, 1, 2, -100, 1, 7]), torch.tensor([1, 0, 0, 7, -100, 2, 3, 1])),
    "soft": (torch.rand(6, 3).softmax(1).double(), torch.rand(8, 3).softmax(1).double()),
    "several": (torch.tensor([[1, 1, 0], [0, 1, 0], [1, 1, 1]] * 2), torch.tensor([[1, 0, 0], [0, 1, 1]] * 4)),
}


def sets(signed: bool) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    pair = [torch.randn(rows, 5, dtype=torch.float64, generator=generator) for rows in (6, 8)]
    pair[0][2] = 0
    return tuple((x if signed else x.abs()).requires_grad_() for x in pair)


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "non-negative"])
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("path", ["product", "sums or product", "sums or tiles"])
def test_references_equal_the_double_loop_in_value_and_both_gradients(signed, kind, path, monkeypatch):
    monkeypatch.setattr(tiled, "CROSS_SMALL", 10**9 if path == "product" else 0)
    monkeypatch.setattr(tiled, "CROSS_TILED_FROM", 0 if path == "sums or tiles" else 10**9)
    monkeypatch.setattr(tiled, "TILE", 3)
    (x, z), (y, of) = sets(signed), LABELS[kind]
    for form, weight in itertools.product(FORMS, (1.0, 0.0, 0.3)):
        options = {"gamma": 0.7, "form": form, "same_weight": weight}
        expected = by_definition(x, y, references=(z, of), **options)
        got = orthogonal_projection(x, y, references=(z, of), **options)
        torch.testing.assert_close(torch.stack(got), torch.stack(expected), rtol=1e-11, atol=1e-11)
        gradients = torch.autograd.grad(got.loss, (x, z))
        smooth = form if signed or form != "mean_abs" or path == "product" else "mean"
        exact = by_definition(x, y, references=(z, of), **options | {"form": smooth})
        torch.testing.assert_close(gradients, torch.autograd.grad(exact[0], (x, z)), rtol=1e-9, atol=1e-11)


def test_without_references_the_weights_of_both_parts_are_as_given():
    features, labels = torch.randn(9, 4, dtype=torch.float64), torch.arange(9) % 3
    for form in FORMS:
        for gamma, weight in ((0.0, 1.0), (0.5, 0.0), (2.0, 0.5)):
            expected = by_definition(features, labels, gamma=gamma, form=form, same_weight=weight)
            got = orthogonal_projection(features, labels, gamma=gamma, form=form, same_weight=weight)
            torch.testing.assert_close(torch.stack(got), torch.stack(expected))
            module = OrthogonalProjectionLoss(gamma=gamma, form=form, same_weight=weight)
            torch.testing.assert_close(module(features, labels), expected[0])


def test_references_compile_into_one_graph():
    torch._dynamo.reset()
    loss = torch.compile(
        lambda x, y, z, of: orthogonal_projection(x, y, references=(z, of)).loss, fullgraph=True, backend="aot_eager"
    )
    (x, z), (y, of) = sets(True), LABELS["hard"]
    torch.testing.assert_close(loss(x, y, z, of), orthogonal_projection(x, y, references=(z, of)).loss)


def test_a_queue_returns_the_samples_of_earlier_batches():
    queue, loss = Queue(5), OrthogonalProjectionLoss()
    batches = [(torch.randn(3, 4), torch.tensor([0, 1, 2])) for _ in range(4)]
    assert loss(*batches[0], references=queue(*batches[0])) == 1  # no pairs yet
    for number in (1, 2, 3):
        stored = queue(*batches[number])
        expected = [torch.cat(parts)[-5:] for parts in zip(*batches[:number], strict=True)]
        torch.testing.assert_close(list(stored), expected)
    copied = Queue(5)
    copied.load_state_dict(queue.state_dict())
    torch.testing.assert_close(copied.eval()(*batches[0]), queue.eval()(*batches[0]))
    assert torch.equal(queue(*batches[0])[0], queue(*batches[1])[0])  # unchanged in eval mode
    assert not any(value.requires_grad for value in queue(batches[0][0].requires_grad_(), batches[0][1]))


X, Y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
REFUSALS = {
    "another size": (lambda: orthogonal_projection(X, Y, references=(X[:, :2], Y)), errors.FeatureError, ["3", "2"]),
    "other labels": (
        lambda: orthogonal_projection(X, Y, references=(X, torch.eye(4))),
        errors.LabelError,
        ["(4,)", "(4, 4)"],
    ),
    "features alone": (lambda: orthogonal_projection(X, Y, references=X), errors.OptionError, ["pair"]),
    "an algorithm": (
        lambda: orthogonal_projection(X, Y, references=(X, Y), algorithm="tiled"),
        errors.OptionError,
        ["'auto'"],
    ),
    "an empty queue": (lambda: Queue(0), errors.OptionError, ["at least 1"]),
    "a negative weight": (lambda: orthogonal_projection(X, Y, same_weight=-1.0), errors.OptionError, ["same_weight"]),
    "a negative gamma": (lambda: orthogonal_projection(X, Y, gamma=-1.0), errors.OptionError, ["gamma is -1.0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(REFUSALS)
