"""What an accelerator has to launch: the number of operations, and the values of the path that is made for it."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from _batches import FORMS
from conftest import by_definition
from opl import OrthogonalProjectionLoss, orthogonal_projection
from opl._kernels.pairs import Weights, _DevicePairs
from opl.functional import KINDS

NO_LAUNCH = {"alias", "as_strided", "detach", "diagonal", "empty", "expand", "new_empty", "permute", "select", "slice"}
NO_LAUNCH |= {"t", "transpose", "unsqueeze", "view"}


class Launches(TorchDispatchMode):
    """The names of all operations but views and empty tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        self.names += [name] if name not in NO_LAUNCH else []
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("rows", [128, 2048])
@pytest.mark.parametrize("loss", [lambda x, y: orthogonal_projection(x, y).loss, OrthogonalProjectionLoss()])
def test_forward_and_backward_launch_few_operations_and_wait_for_none(rows, loss):
    """Tensors on `meta` have no values: reading a value raises, as it would synchronize with an accelerator."""
    features = torch.empty(rows, 64, device="meta", requires_grad=True)
    labels = torch.empty(rows, dtype=torch.long, device="meta")
    with Launches() as launches:
        loss(features, labels).backward()
    assert len(launches.names) <= 36, launches.names
    assert sum(name in ("mm", "addmm", "bmm", "baddbmm") for name in launches.names) == 2


@pytest.mark.parametrize("form", FORMS)
def test_the_path_for_accelerators_equals_the_double_loop(form):
    labels = torch.tensor([0, 1, 0, 2, 1, -100, 2, 0, 5, -100])
    x = torch.randn(10, 4, dtype=torch.float64)
    x[3] = 0
    x.requires_grad_()
    expected = by_definition(x, labels, gamma=0.7, form=form)
    weights = Weights(1.0, 0.7)
    in_kernel = Weights() if form == "abs_mean" else weights
    loss, same, other = _DevicePairs.apply(x, labels, labels == -100, KINDS[form], in_kernel)
    if form == "abs_mean":
        loss, other = weights.combine(loss, other.abs()), other.abs()
    got = loss, same, other
    torch.testing.assert_close(torch.stack(got), torch.stack(expected), rtol=1e-12, atol=1e-12)
    for value, exact in zip(got, expected, strict=True):
        (gradient,) = torch.autograd.grad(value, x, retain_graph=True)
        torch.testing.assert_close(gradient, torch.autograd.grad(exact, x, retain_graph=True)[0], rtol=1e-9, atol=1e-12)
    (first,) = torch.autograd.grad(got[0], x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    (exact_first,) = torch.autograd.grad(expected[0], x, create_graph=True)
    torch.testing.assert_close(second, torch.autograd.grad(exact_first.square().sum(), x)[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("labels", "expected"), [([4], [1, 0, 0]), ([3, 3], [0, 1, 0]), ([0, 1], [1, 0, 1]), ([-100, 2], [1, 0, 0])]
)
def test_a_mean_over_no_pairs_is_zero_on_the_path_for_accelerators(labels, expected):
    x, y = torch.ones(len(labels), 3), torch.tensor(labels)
    got = torch.stack(_DevicePairs.apply(x, y, y == -100, "absolute", Weights()))
    assert got.tolist() == pytest.approx(expected, abs=1e-6)
