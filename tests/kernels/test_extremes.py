"""Rows so short or so long that their squares leave the range of their type, and tensors that are no plain batch."""

import pytest
import torch

import opl
from _batches import FORMS
from _said import says
from conftest import by_definition
from opl import orthogonal_projection
from opl._kernels.normalize import unit_rows
from opl._kernels.pairs import Weights, _DevicePairs
from opl.errors import FeatureError, LabelError, OptionError
from opl.functional import KINDS

LENGTHS = {
    torch.float32: (1e-37, 1e-34, 1e-30, 1e-20, 1e20, 1e35, 1e37),
    torch.float64: (1e-290, 1e-170, 1e-160, 1e155, 1e200, 1e300),
}
TOO_SHORT = {torch.float16: 1e-6, torch.bfloat16: 1e-39, torch.float32: 1e-39, torch.float64: 1e-305}
LABELS = torch.arange(12) % 4
CASES = [(dtype, length) for dtype, lengths in LENGTHS.items() for length in lengths]


def rows(signed=True):
    x = torch.randn(12, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return x if signed else x.abs()


def exact(x, form):
    x = x.clone().requires_grad_()
    loss = by_definition(x, LABELS, gamma=0.7, form=form)[0]
    return loss.detach(), torch.autograd.grad(loss, x)[0]


def compute(x, form, algorithm):
    """The loss and its gradient, by one of the algorithms or ways to call them."""
    call = orthogonal_projection
    if algorithm == "compiled":
        torch.compiler.reset()
        call = torch.compile(orthogonal_projection, backend="eager", fullgraph=True)
    options = {"algorithm": algorithm} if algorithm in ("pairs", "class_sums", "tiled") else {}
    x = x.clone().requires_grad_()
    if algorithm == "accelerator":
        apart, _, other = _DevicePairs.apply(x, LABELS, None, KINDS[form], Weights())
        loss = apart + 0.7 * (other.abs() if form == "abs_mean" else other)
    elif algorithm == "func":
        function = torch.func.grad_and_value(lambda x: orthogonal_projection(x, LABELS, gamma=0.7, form=form).loss)
        gradient, loss = function(x)
        return loss.detach(), gradient.detach()
    elif algorithm == "twice":
        loss = orthogonal_projection(x, LABELS, gamma=0.7, form=form).loss
        return loss.detach(), torch.autograd.grad(loss, x, create_graph=True)[0].detach()
    else:
        loss = call(x, LABELS, gamma=0.7, form=form, **options).loss
    return loss.detach(), torch.autograd.grad(loss, x)[0]


ALGORITHMS = ["pairs", "class_sums", "tiled", "accelerator", "func", "twice"]


COMPILED = [(torch.float32, 1e-30, "compiled"), (torch.float64, 1e200, "compiled")]


@pytest.mark.parametrize(
    ("dtype", "length", "algorithm"),
    [(*case, algorithm) for case in CASES for algorithm in ALGORITHMS] + COMPILED,
    ids=str,
)
def test_rows_of_extreme_length_have_the_cosines_and_gradients_of_ordinary_rows(dtype, length, algorithm):
    """The loss does not depend on the length of a row, and its gradient is inverse to it."""
    scale = torch.ones(12, 1, dtype=torch.float64)
    scale[::5] = length
    forms = {"class_sums": ("mean", "abs_mean"), "compiled": ("mean_abs",)}
    for form in forms.get(algorithm, FORMS):
        x = rows()
        value, gradient = compute((x * scale).to(dtype), form, algorithm)
        expected, expected_gradient = exact(x, form)
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(value.double(), expected, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(gradient.double() * scale, expected_gradient, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("value", [3e38, 1.7e308])
def test_the_largest_numbers_give_finite_gradients(value, algorithm):
    dtype = torch.float32 if value < 1e39 else torch.float64
    x = torch.full((12, 512), value, dtype=dtype)
    x[::2, 256:] = 1
    form = "mean" if algorithm == "class_sums" else "mean_abs"
    loss, gradient = compute(x, form, algorithm)
    expected, _ = exact(x.double() / value, form)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-5)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
@pytest.mark.parametrize("dtype", TOO_SHORT, ids=str)
def test_a_row_that_is_too_short_for_a_gradient_counts_as_zero(dtype, algorithm):
    if algorithm == "accelerator" and dtype.itemsize == 2:
        pytest.skip("features are in single precision there")
    x = rows(signed=False)
    short, zero = x.clone(), x.clone()
    short[3] *= TOO_SHORT[dtype] / short[3].norm()
    zero[3] = 0
    form = "mean" if algorithm == "class_sums" else "mean_abs"
    value, gradient = compute(short.to(dtype), form, algorithm)
    expected, expected_gradient = compute(zero.to(dtype), form, algorithm)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)
    assert not gradient[3].any()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("weight", [1.0, 10.0])
@pytest.mark.parametrize("dtype", LENGTHS, ids=str)
def test_gradients_of_the_shortest_rows_are_finite(dtype, weight):
    tiny = torch.finfo(dtype).tiny
    for factor in (0.1, 1, 10, 1e3, 1e5):
        x = torch.tensor([[factor * tiny, 0.0], [1.0, 1.0], [1.0, 0.5]], dtype=dtype, requires_grad=True)
        (weight * orthogonal_projection(x, torch.tensor([0, 0, 1])).loss).backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize(("dtype", "length"), CASES, ids=str)
def test_unit_rows_of_extreme_length(dtype, length):
    x = rows()
    given = (x * length).to(dtype).requires_grad_()
    unit = unit_rows(given)
    torch.testing.assert_close(unit.double(), x / x.norm(dim=1, keepdim=True), rtol=1e-5, atol=1e-5)
    (unit * rows().flip(0)).sum().backward()
    x.requires_grad_()
    ((x / x.norm(dim=1, keepdim=True)) * rows().flip(0)).sum().backward()
    torch.testing.assert_close(given.grad.double() * length, x.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [1e-170, 1e200])
def test_the_geometry_of_rows_of_extreme_length(length):
    x = rows()
    found, expected = (opl.geometry.measure(part, LABELS) for part in (x * length, x))
    assert found.same == pytest.approx(expected.same)
    assert found.other("mean") == pytest.approx(expected.other("mean"))


DENSE = torch.eye(4)
IDS = torch.arange(4)
OTHER_LAYOUTS = {
    "sparse": lambda: orthogonal_projection(DENSE.to_sparse(), IDS),
    "sparse rows": lambda: orthogonal_projection(DENSE.to_sparse_csr(), IDS),
    "mkldnn": lambda: orthogonal_projection(DENSE.to_mkldnn(), IDS),
    "nested": lambda: orthogonal_projection(torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), IDS[:2]),
    "jagged": lambda: orthogonal_projection(
        torch.nested.nested_tensor([torch.ones(2), torch.ones(2)], layout=torch.jagged), IDS[:2]
    ),
}
OTHER_LABELS = {
    "sparse": lambda: orthogonal_projection(DENSE, IDS.to_sparse()),
    "sparse label rows": lambda: orthogonal_projection(DENSE, DENSE.to_sparse()),
    "mkldnn": lambda: orthogonal_projection(DENSE, DENSE.to_mkldnn()),
    "nested": lambda: orthogonal_projection(DENSE[:2], torch.nested.nested_tensor([torch.ones(2), torch.ones(2)])),
}


@pytest.mark.parametrize("case", OTHER_LAYOUTS)
def test_features_of_another_layout_are_refused(case):
    cure = "to_padded_tensor" if case in ("nested", "jagged") else "to_dense()"
    says(OTHER_LAYOUTS[case], FeatureError, ["features", cure])


@pytest.mark.parametrize("case", OTHER_LABELS)
def test_labels_of_another_layout_are_refused(case):
    cure = "to_padded_tensor" if case == "nested" else "to_dense()"
    says(OTHER_LABELS[case], LabelError, ["labels", cure])


@pytest.mark.parametrize("rows", [0, 4])
def test_label_rows_without_classes_are_refused(rows):
    says(lambda: orthogonal_projection(DENSE[:rows], torch.ones(rows, 0)), LabelError, ["(B,) class ids"])


@pytest.mark.parametrize("gamma", ["auto", opl.AutoGamma(), opl.Ramp(0.0, 1.0, steps=3)])
def test_a_gamma_with_state_is_refused_under_torch_func_and_the_advice_works(gamma):
    loss = opl.OrthogonalProjectionLoss(gamma=gamma)
    x = rows()
    state = {name: value.clone() for name, value in loss.state_dict().items()}
    says(lambda: torch.func.grad(lambda x: loss(x, LABELS))(x), OptionError, ["torch.func", "eval()"])
    assert all(torch.equal(value, state[name]) for name, value in loss.state_dict().items())
    loss(x, LABELS)
    loss.eval()
    y = x.clone().requires_grad_()
    expected = torch.autograd.grad(loss(y, LABELS), y)[0]
    torch.testing.assert_close(torch.func.grad(lambda x: loss(x, LABELS))(x), expected)
