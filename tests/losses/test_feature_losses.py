"""What the losses on features and maps share: finite edges, empty batches, half precision, compiling, examples."""

import doctest
import importlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from _loss_features import CENTERS, CLASSES, DIM, batch
from opl.losses.center import CenterLoss, center
from opl.losses.distillation import distillation_projection
from opl.losses.negative_cam import negative_cam
from opl.losses.nt_xent import nt_xent
from opl.losses.ole import ole
from opl.losses.perpetual import perpetual


def as_maps(x):
    shape = torch.tensor([[-1.0, 0.5, 0.25], [2.0, -0.5, 4.0]], dtype=x.dtype)  # powers of two: exact in any type
    return x[:, :CLASSES, None, None] * shape


def with_moving_centers(x, y):
    loss = CenterLoss(DIM, num_classes=CLASSES)
    loss.centers = CENTERS.clone()
    value = loss(x, y)
    return value + 0 * loss.centers.sum()  # centers that are no number would show


LOSSES = {
    "center": lambda x, y: center(x, y, CENTERS),
    "center, moving": with_moving_centers,
    "ole": ole,
    "nt-xent": nt_xent,
    "hnc, kd": lambda x, y: negative_cam(as_maps(x), y, k=2),
    "hnc, mse": lambda x, y: negative_cam(as_maps(x), y, k=2, form="mse"),
    "perpetual 1": lambda x, y: perpetual(x, y, CENTERS),
    "perpetual 2": lambda x, y: perpetual(x, y, CENTERS, version=2),
    "distillation, absolute": lambda x, y: distillation_projection(x, F.one_hot(y, CLASSES).float()),
    "distillation, softmax": lambda x, y: distillation_projection(x, F.one_hot(y, CLASSES).float(), form="softmax"),
}
EDGES = {
    "zero features": (torch.zeros(4, DIM), torch.tensor([0, 1, 1, 4])),
    "a zero row": (torch.cat([torch.zeros(1, DIM), torch.ones(3, DIM)]), torch.tensor([0, 1, 1, 4])),
    "one sample": (torch.ones(1, DIM), torch.tensor([2])),
    "one class": (torch.ones(4, DIM), torch.tensor([3, 3, 3, 3])),
    "large features": (1e4 * torch.tensor([[1.0] * DIM, [-1.0] * DIM, [1.0, -1.0] * 3]), torch.tensor([0, 0, 4])),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_value_and_gradient_are_finite(name, edge, dtype):
    features, labels = EDGES[edge]
    x = features.clone().to(dtype).requires_grad_()
    value = LOSSES[name](x, labels)
    value.backward()
    assert value.shape == ()
    assert value.isfinite()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_no_sample_no_loss(name):
    x = torch.zeros(0, DIM, requires_grad=True)
    value = LOSSES[name](x, torch.zeros(0, dtype=torch.long))
    value.backward()
    assert value == 0
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("name", LOSSES)
def test_half_features_and_autocast_are_computed_in_single_precision(name):
    features, labels = batch()
    half = features.bfloat16()
    expected = LOSSES[name](half.float(), labels)
    assert expected.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(LOSSES[name](half, labels), expected)
        assert torch.equal(LOSSES[name](half.float(), labels), expected)
    assert torch.equal(LOSSES[name](half, labels), expected)
    double = LOSSES[name](half.double(), labels)
    assert double.dtype == torch.float64
    torch.testing.assert_close(expected.double(), double, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "center, moving"])
def test_compiled_it_is_the_same(name):
    torch._dynamo.reset()
    features, labels = batch()
    compiled = torch.compile(LOSSES[name], fullgraph=name != "ole", backend="aot_eager", dynamic=False)
    eager, traced = features.float().requires_grad_(), features.float().requires_grad_()
    expected, got = LOSSES[name](eager, labels), compiled(traced, labels)
    torch.testing.assert_close(got, expected)
    expected.backward()
    got.backward()
    torch.testing.assert_close(traced.grad, eager.grad)


@pytest.mark.parametrize("name", ["center", "ole", "negative_cam", "perpetual", "distillation", "nt_xent"])
def test_the_docstrings_examples_are_true(name):
    module = importlib.import_module(f"opl.losses.{name}")
    result = doctest.testmod(module, extraglobs={"torch": torch, "nn": nn, "F": F})
    assert result.attempted > 0
    assert result.failed == 0
