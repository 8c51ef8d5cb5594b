"""First and second derivatives, `torch.func`, `torch.compile`: which algorithm has what, and what the others say."""

import pytest
import torch

from conftest import by_definition
from opl import orthogonal_projection
from opl.errors import DerivativeError

FORMS = ("mean_abs", "abs_mean", "mean")
LABELS = torch.tensor([0, 1, 0, 2, 1, -100, 2, 0])
SOFT = torch.rand(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(1)


def features(rows=8, dim=4):
    return torch.randn(rows, dim, dtype=torch.float64, requires_grad=True)


def loss_of(labels, form, algorithm):
    return lambda x: orthogonal_projection(x, labels, form=form, algorithm=algorithm).loss


@pytest.mark.parametrize("labels", [LABELS, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize(
    ("form", "algorithm"), [*((form, "pairs") for form in FORMS), ("mean", "class_sums"), ("abs_mean", "class_sums")]
)
def test_second_derivatives_equal_those_of_the_double_loop(labels, form, algorithm):
    x = features()
    ours = torch.autograd.functional.hessian(loss_of(labels, form, algorithm), x)
    expected = torch.autograd.functional.hessian(lambda y: by_definition(y, labels, gamma=0.5, form=form)[0], x)
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-10)


def test_a_zero_row_has_no_second_derivative_either():
    x = features()
    with torch.no_grad():
        x[3] = 0
    for algorithm in ("pairs", "class_sums"):
        hessian = torch.autograd.functional.hessian(loss_of(LABELS, "mean", algorithm), x)
        assert hessian.isfinite().all()
        assert not hessian[3].any()


def test_the_tiled_algorithm_refuses_a_second_derivative():
    x = features()
    (gradient,) = torch.autograd.grad(loss_of(LABELS, "mean_abs", "tiled")(x), x, create_graph=True)
    with pytest.raises(DerivativeError, match="algorithm='pairs'"):
        gradient.sum().backward()


@pytest.mark.parametrize("form", FORMS)
def test_functional_transforms_equal_plain_autograd(form):
    x = features()
    loss = loss_of(LABELS, form, "auto")
    (gradient,) = torch.autograd.grad(loss(x), x)
    x = x.detach()
    torch.testing.assert_close(torch.func.grad(loss)(x), gradient)
    torch.testing.assert_close(torch.func.jacrev(loss)(x), gradient)
    direction = torch.randn_like(x)
    torch.testing.assert_close(torch.func.jvp(loss, (x,), (direction,))[1], (gradient * direction).sum())
    stacked = torch.stack([x, 2 * x.roll(1, 0)])
    torch.testing.assert_close(torch.func.vmap(loss)(stacked), torch.stack([loss(stacked[0]), loss(stacked[1])]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("soft", [False, True])
def test_compiling_gives_the_same_values_without_a_graph_break(form, soft):
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, y: orthogonal_projection(x, y, form=form), fullgraph=True, backend="aot_eager", dynamic=False
    )
    for rows in (100, 2500):  # traced pairs, and the opaque operator
        x = torch.randn(rows, 16)
        labels = (
            torch.rand(rows, 5).softmax(1)
            if soft
            else torch.randint(0, 7, (rows,)).index_fill(0, torch.tensor(3), -100)
        )
        eager, traced = x.clone().requires_grad_(), x.clone().requires_grad_()
        expected, got = orthogonal_projection(eager, labels, form=form), compiled(traced, labels)
        torch.testing.assert_close(torch.stack(got), torch.stack(expected))
        expected.loss.backward()
        got.loss.backward()
        torch.testing.assert_close(traced.grad, eager.grad, rtol=1e-4, atol=1e-9)


@pytest.mark.slow
def test_inductor_gives_the_same_values():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: orthogonal_projection(x, y).loss, fullgraph=True)
    eager, traced = (torch.randn(64, 16, generator=torch.Generator().manual_seed(0)).requires_grad_() for _ in range(2))
    labels = torch.randint(0, 7, (64,))
    expected, got = orthogonal_projection(eager, labels).loss, compiled(traced, labels)
    torch.testing.assert_close(got, expected)
    expected.backward()
    got.backward()
    torch.testing.assert_close(traced.grad, eager.grad, rtol=1e-4, atol=1e-9)
