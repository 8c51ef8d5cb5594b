"""Contract of every loss and head: it learns, is saved, copied, compiled and resumed, and is finite at the edges."""

import copy
import functools
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from _contract import (
    CASES,
    CLASSES,
    DIM,
    HEADS,
    LOSSES,
    ROWS,
    VARIANTS,
    Case,
    assert_same_state,
    some,
    state,
    steps,
    through_a_file,
    training,
    value_and_gradients,
    with_gradients,
)
from _said import says
from opl.errors import FeatureError, LabelError
from opl.heads import LGMHead


def for_every(cases: dict[str, Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a check of one case a test of all of them, whose failure names the case."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(**options: Any) -> None:
            for name, case in cases.items():
                torch.manual_seed(0)
                try:
                    check(case, **options)
                except Exception as error:
                    raise AssertionError(f"{name}: {error}") from error

        signature = inspect.signature(check)
        rest = [parameter for name, parameter in signature.parameters.items() if name != "case"]
        test.__signature__ = signature.replace(parameters=rest)
        return test

    return decorate


# It learns


@for_every(CASES)
def test_one_step_moves_every_class_of_every_parameter(case):
    module, x, optimizer = training(case, case.build())
    before = state(module)
    steps(case, module, x, optimizer, 1)
    assert x.isfinite().all()
    assert (x != some(case)[0]).any()
    for name, value in module.named_parameters():
        assert value.isfinite().all(), name
        assert (value != before[name]).view(CLASSES, -1).any(1).all(), name


MEMORIES = (
    ("CenterLoss", "centers"),
    ("PrototypeProjectionLoss", "centers"),
    ("CenteredProjectionLoss", "sums"),
    ("OrthogonalProjectionLoss, auto", "rule.sums"),
    ("OrthogonalProjectionLoss, ramp", "rule.step"),
)
STEPPED = ("ASoftmaxHead", "LSoftmaxHead", "ArcFaceHead", "CosFaceHead", "LGMHead", "AnchorLoss")


@pytest.mark.parametrize(("name", "buffer"), [*MEMORIES, *((name, "step") for name in STEPPED)])
def test_buffers_change_in_training_mode_and_not_in_evaluation(name, buffer):
    case = CASES[name]
    module, (x, labels) = case.build(), some(case)
    before = state(module)[buffer]
    case.loss(module.eval(), x, labels)
    assert torch.equal(state(module)[buffer], before)
    case.loss(module.train(), x, labels)
    assert (state(module)[buffer] != before).all()
    assert not state(module)[buffer].requires_grad


# It is saved, copied, moved


@for_every(CASES)
def test_its_state_dict_restores_it(case):
    module, (x, labels) = case.build(), some(case)
    for _ in range(3):
        case.loss(module, x, labels)
    for saved in (module.state_dict(), through_a_file(module.state_dict())):
        fresh, twin = case.build(), copy.deepcopy(module)
        fresh.load_state_dict(saved)
        assert torch.equal(case.loss(fresh, x, labels), case.loss(twin, x, labels))
        assert_same_state(fresh, twin)


@for_every(CASES)
def test_a_copy_is_equal_and_independent(case):
    module, (x, labels) = case.build(), some(case)
    before = state(module)
    steps(case, *training(case, copy.deepcopy(module)), 2)
    torch.testing.assert_close(state(module), before, rtol=0, atol=0)
    assert torch.equal(case.loss(copy.deepcopy(module), x, labels), case.loss(module, x, labels))


@for_every(CASES)
def test_it_can_be_sent_to_another_process(case):
    module, (x, labels) = case.build(), some(case)
    case.loss(module, x, labels)
    sent = pickle.loads(pickle.dumps(module))
    assert repr(sent) == repr(module)
    assert torch.equal(case.loss(sent, x, labels), case.loss(module, x, labels))
    assert_same_state(sent, module)


@for_every(CASES)
def test_it_resumes_where_it_stopped_bit_for_bit(case):
    begin = case.build()
    straight, stopped = training(case, copy.deepcopy(begin)), training(case, begin)
    steps(case, *straight, 6)
    steps(case, *stopped, 3)
    module, x, optimizer = stopped
    saved = through_a_file({"module": module.state_dict(), "x": x.detach(), "optimizer": optimizer.state_dict()})
    resumed = training(case, case.build())
    resumed[0].load_state_dict(saved["module"])
    resumed[1].data = saved["x"]
    resumed[2].load_state_dict(saved["optimizer"])
    steps(case, *resumed, 3)
    assert_same_state(resumed[0], straight[0])
    assert torch.equal(resumed[1], straight[1])


@for_every(CASES)
def test_all_of_it_moves_to_another_device_and_type(case):
    module, (x, labels) = case.build(), some(case)
    expected = value_and_gradients(case, copy.deepcopy(module), x, labels)
    wide = copy.deepcopy(module).double()
    assert all(value.dtype in (torch.float64, torch.int64) for value in wide.state_dict().values())
    got = value_and_gradients(case, wide, x.detach().double().requires_grad_(), labels)
    assert all(value.dtype == torch.float64 for value in got)
    torch.testing.assert_close(got, [value.double() for value in expected], rtol=1e-4, atol=1e-5)
    elsewhere = module.to("meta")
    assert all(value.device.type == "meta" for value in (*elsewhere.parameters(), *elsewhere.buffers()))
    held = [value for part in elsewhere.modules() for value in vars(part).values()]
    assert not any(isinstance(value, Tensor) for value in held)  # none that would be left behind


@for_every(CASES)
def test_it_has_the_precision_of_float64(case):
    """A small step along the gradient changes the value as the gradient says, to more digits than fp32 has."""
    module, (x, labels) = case.build().double().eval(), some(case)
    x = x.detach().double().requires_grad_()
    (slope,) = torch.autograd.grad(case.loss(module, x, labels), x)
    step = 1e-4 * slope / slope.norm()
    with torch.no_grad():
        rise = case.loss(module, x + step, labels) - case.loss(module, x - step, labels)
    torch.testing.assert_close(rise, 2 * (slope * step).sum(), rtol=1e-6, atol=1e-15)


# It is compiled, and runs in mixed precision


def assert_compiled_is_eager(case: Case, **options) -> None:
    torch._dynamo.reset()
    module, (x, labels) = case.build(), some(case)
    twin = copy.deepcopy(module)
    compiled = torch.compile(lambda x, labels: case.loss(twin, x, labels), **options)
    for _ in range(3):  # steps and centers move along
        expected = value_and_gradients(case, module, x, labels)
        got = with_gradients(compiled(x, labels), twin, x)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(state(twin), state(module))


@pytest.mark.slow
@for_every(CASES)
def test_compiling_gives_the_same_values_in_one_graph(case):
    assert_compiled_is_eager(case, backend="aot_eager", fullgraph=case is not CASES["OLELoss"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ArcFaceHead", "LGMHead", "CenterLoss"])
def test_inductor_gives_the_same_values(name):
    assert_compiled_is_eager(CASES[name], fullgraph=True)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@for_every(CASES)
def test_autocast_does_not_change_the_precision(case, kind):
    module, (x, labels) = case.build(), some(case)
    x = x.detach().to(kind)
    at, again = x.float().requires_grad_(), x.clone().requires_grad_()
    expected = value_and_gradients(case, copy.deepcopy(module), at, labels)
    with torch.autocast("cpu", torch.bfloat16):
        value = case.loss(module, again, labels)
    assert value.dtype == torch.float32
    got = with_gradients(value, module, again)
    linear = case is CASES["LinearHead"]  # a product of the network's own, which autocast is for
    for number, exact in zip(got, expected, strict=True):
        rtol, atol = (2e-2, 1e-2) if linear or number.dtype == torch.bfloat16 else (1e-5, 1e-6)
        torch.testing.assert_close(number.float(), exact, rtol=rtol, atol=atol)


@for_every(CASES)
def test_a_module_that_is_all_bfloat16_works(case):
    module, (x, labels) = case.build(), some(case)
    narrow = copy.deepcopy(module).bfloat16()
    rounded = copy.deepcopy(narrow).float()
    expected = value_and_gradients(case, rounded, x.detach().bfloat16().float().requires_grad_(), labels)
    got = value_and_gradients(case, narrow, x.detach().bfloat16().requires_grad_(), labels)
    torch.testing.assert_close([value.float() for value in got], expected, rtol=2e-2, atol=1e-2)


# It accepts other shapes and types of the same batch, and refuses what is no batch


@for_every(CASES)
def test_columns_of_small_integers_and_pooled_maps_are_the_same_batch(case):
    module, (x, labels) = case.build(), some(case)
    expected = case.loss(copy.deepcopy(module), x, labels)
    pooled = x if x.ndim == 4 else x[:, :, None, None]
    assert torch.equal(case.loss(module, pooled, labels[:, None].int()), expected)


WRONG = {
    "one row": (lambda x, labels: (x[0], labels), FeatureError, "have shape"),
    "a video": (lambda x, labels: (torch.zeros(ROWS, 6, 2, 2, 2), labels), FeatureError, "have shape"),
    "integers": (lambda x, labels: (x.detach().long(), labels), FeatureError, "torch.int64: pass a floating-point"),
    "a list": (lambda x, labels: (x.tolist(), labels), FeatureError, "have type list: pass a torch.Tensor"),
    "too few labels": (lambda x, labels: (x, labels[:3]), LabelError, "3 labels for 20 features"),
    "labels that are floats": (lambda x, labels: (x, labels.float()), LabelError, "labels.long()"),
    "a column of floats": (lambda x, labels: (x, labels[:, None].float()), LabelError, "labels.long()"),
    "labels that are a list": (
        lambda x, labels: (x, labels.tolist()),
        LabelError,
        "have type list: pass a torch.Tensor",
    ),
    "a negative label": (lambda x, labels: (x, labels.where(labels != 1, -1)), LabelError, "label -1"),
    "a class too many": (lambda x, labels: (x, labels.where(labels != 1, 5)), LabelError, "label 5"),
    "label rows": (lambda x, labels: (x, torch.full((ROWS, CLASSES), 0.2)), LabelError, "labels.argmax(1)"),
}
ACCEPTED = {  # by loss, what is no mistake: ids without a last class, label rows, labels that only say what to ignore
    "OLELoss": {"a class too many"},
    "NTXentLoss": {"a negative label", "a class too many"},
    "DistillationProjectionLoss": {"a negative label", "a class too many"},
    "KnowledgeDistillationLoss": {"a negative label", "a class too many"},
    "OrthogonalProjectionLoss": {"a class too many", "label rows"},
    "CenteredProjectionLoss": {"a class too many", "label rows"},
    "LogRatioLoss": {"a class too many", "label rows"},
}


@pytest.mark.parametrize("kind", WRONG)
@for_every(CASES)
def test_invalid_batches_are_refused_in_one_sentence(case, kind):
    change, error, words = WRONG[kind]
    module, (x, labels) = case.build(), some(case)
    if kind in ACCEPTED.get(type(module).__name__, ()):
        assert case.loss(module, *change(x, labels)).isfinite()
    else:
        labels[0] = -100
        says(lambda: case.loss(module, *change(x, labels)), error, [words])


# It stays finite at the edges

EDGES = {
    "all zeros": lambda x, labels: (0 * x, labels),
    "all zeros, fp16": lambda x, labels: (0 * x.half(), labels),
    "some rows zeros": lambda x, labels: (torch.cat([0 * x[:10], x[10:]]), labels),
    "huge": lambda x, labels: (1e4 * x.sign(), labels),
    "tiny": lambda x, labels: (1e-30 * x.sign(), labels),
    "the same row": lambda x, labels: (x[:1].expand_as(x), labels),
    "one sample": lambda x, labels: (x[:1], labels[2:3]),
    "one class": lambda x, labels: (x, 0 * labels + 3),
    "absent classes": lambda x, labels: (x, labels % 2),
    "fp16": lambda x, labels: (x.half(), labels),
    "huge fp16": lambda x, labels: (1e4 * x.sign().half(), labels),
    "bf16": lambda x, labels: (x.bfloat16(), labels),
}


def assert_finite(case: Case, module: nn.Module, x: Tensor, labels: Tensor) -> None:
    x = x.clone().requires_grad_()
    for _ in range(4):  # past the warm-up
        value, *gradients = value_and_gradients(case, module, x, labels)
        assert value.dtype == torch.float32
        assert gradients[0].dtype == x.dtype
        assert all(number.isfinite().all() for number in (value, *gradients))
    assert all(number.isfinite().all() for number in state(module).values())
    assert {number.dtype for number in state(module).values()} <= {torch.float32, torch.int64}


@pytest.mark.parametrize("edge", EDGES)
@for_every(CASES)
def test_value_and_gradient_are_finite_at_the_edges(case, edge):
    x, labels = some(case)
    assert_finite(case, case.build(), *EDGES[edge](x.detach(), labels))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@for_every(CASES)
def test_value_and_gradient_are_finite_along_and_opposite_to_a_class_vector(case, sign):
    module, (_, labels) = case.build(), some(case)
    for value in (*module.parameters(), *module.buffers()):
        if value.shape == (CLASSES, DIM):
            value.data = torch.eye(CLASSES, DIM)
    axes = torch.eye(case.shape[0])[labels]
    x = axes.view(ROWS, case.shape[0], *[1] * (len(case.shape) - 1)).expand(ROWS, *case.shape)
    assert_finite(case, module, 3 * sign * x, labels)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@for_every(CASES)
def test_half_precision_input_gives_the_value_of_its_fp32_copy(case, kind):
    module, (x, labels) = case.build(), some(case)
    x = x.detach().to(kind)
    assert torch.equal(case.loss(copy.deepcopy(module), x, labels), case.loss(module, x.float(), labels))


@for_every(LOSSES | VARIANTS)
def test_a_batch_without_samples_has_a_constant_loss(case):
    labels = torch.zeros(0, dtype=torch.long)
    module, x = case.build(), torch.zeros(0, *case.shape, requires_grad=True)
    before = {key: value for key, value in state(module).items() if not key.endswith("step")}
    for _ in range(4):
        value, *gradients = value_and_gradients(case, module, x, labels)
        assert value.item() == case.empty
        assert gradients[0].shape == x.shape
        assert not any(gradient.any() for gradient in gradients)
    torch.testing.assert_close({key: state(module)[key] for key in before}, before, rtol=0, atol=0)


@for_every(HEADS)
def test_a_batch_without_samples_has_logits_of_its_shape(case):
    labels = torch.zeros(0, dtype=torch.long)
    head, x = case.build(), torch.zeros(0, DIM, requires_grad=True)
    for logits in (head(x), head(x, labels)):
        assert logits.shape == (0, CLASSES)
        total = logits.sum() + (head.penalty(x, labels) if isinstance(head, LGMHead) else 0)
        total.backward()
        assert total.item() == 0
    assert not any(parameter.grad.any() for parameter in head.parameters())
