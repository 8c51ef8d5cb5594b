"""Every public loss and head has the derivative of its value, by finite differences in float64.

The names are walked, so that a new loss or head fails here until it has a case in `_contract.py`. Whatever is not the
derivative of its value on purpose is listed with the reason.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

import opl.heads
import opl.losses
from _contract import ANSWERS, CASES, CLASSES, TEACHER, VARIANTS, Case
from opl import orthogonal_projection

NOT_THE_DERIVATIVE = {
    "AnchorLoss": "the anchor p* moves with p_y and has no gradient: the weights are constants",
    "OrthogonalProjectionLoss, auto": "gamma follows s and d and has no gradient",
    "PrototypeProjectionLoss": "the centers follow the features and have no gradient",
    "CenteredProjectionLoss": "the running mean follows the features and has no gradient",
}
NOT_LOSSES = {
    "Head": "the base class, which has no formula",
    "Queue": "stored features, without a gradient",
    "class_balanced_weights": "constants made of counts",
    "class_log_priors": "constants made of counts",
    "update_centers": "a rule for the centers, which are no parameters",
}
ROWS = 8
LABELS = torch.arange(ROWS) % 3
# The same examples every time: near a kink, such as |cos| at 0, no finite difference is right.
checked = settings(derandomize=True, max_examples=max(2, settings.default.max_examples // 50))
SEEDS = st.integers(0, 2**31)
FUNCTIONS = {
    "distillation_projection": lambda x: opl.losses.distillation_projection(x, TEACHER[:ROWS]),
    "knowledge_distillation": lambda x: opl.losses.knowledge_distillation(x, ANSWERS[:ROWS, :3]),
    "class_activation_maps": lambda x: opl.losses.class_activation_maps(x[:, :, None, None], x, x[:, 0]),
}


def test_every_public_loss_and_head_has_a_case_or_a_reason():
    names = {*opl.losses.__all__, *opl.heads.__all__}
    cases = {name.split(",")[0] for name in CASES if name not in VARIANTS}
    assert names == cases | set(FUNCTIONS) | set(NOT_LOSSES)
    assert set(CASES) >= set(NOT_THE_DERIVATIVE)


def drawn(case: Case, seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """The module, an input and labels in float64, with one ignored row."""
    torch.manual_seed(seed)
    module = case.build().double().train()
    x = torch.randn(ROWS, *case.shape, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(ROWS) % CLASSES
    labels[torch.randint(ROWS, ())] = -100
    return module, x, labels


def at_one_step(case: Case, module: nn.Module, labels: Tensor):
    """The loss as a function of input and parameters: counters and centers are set back before each call."""
    buffers = {name: value.clone() for name, value in module.named_buffers()}

    def value(x: Tensor, *_: Tensor) -> Tensor:
        for name, before in buffers.items():
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, before.clone())
        return case.loss(module, x, labels)

    return value


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_THE_DERIVATIVE])
@checked
@given(SEEDS)
def test_the_gradient_is_the_derivative_for_input_and_parameters(name, seed):
    module, x, labels = drawn(CASES[name], seed)
    value = at_one_step(CASES[name], module, labels)
    assert gradcheck(value, (x, *module.parameters()), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
@checked
@given(SEEDS)
def test_the_gradient_of_a_public_function_is_the_derivative(name, seed):
    torch.manual_seed(seed)
    x = torch.randn(ROWS, 3, dtype=torch.float64, requires_grad=True)
    if name == "class_activation_maps":
        x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(FUNCTIONS[name], (x,), eps=1e-7, atol=1e-5)


SMOOTH = [("mean_abs", "pairs"), ("mean_abs", "tiled"), ("mean_abs", "auto")] + [
    (form, algorithm) for form in ("abs_mean", "mean") for algorithm in ("pairs", "class_sums", "tiled", "auto")
]


def opl_batch(seed: int, soft: bool) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    x = torch.randn(9, 3, dtype=torch.float64)
    labels = torch.randn(9, 3, dtype=torch.float64).softmax(1) if soft else torch.arange(9) % 3
    labels[4] = -100
    return x, labels


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("form", "algorithm"), [*SMOOTH, ("mean_abs", "class_sums")])
@checked
@given(SEEDS)
def test_loss_s_and_d_have_their_derivatives_by_every_algorithm(form, algorithm, soft, seed):
    x, labels = opl_batch(seed, soft)
    if (form, algorithm) == ("mean_abs", "class_sums"):
        x = x.abs() + 0.01  # class sums take the absolute value only of features without a sign
    value = lambda x: tuple(orthogonal_projection(x, labels, form=form, algorithm=algorithm))  # noqa: E731
    assert gradcheck(value, (x.requires_grad_(),), eps=1e-7, atol=1e-5)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("form", "algorithm"), [pair for pair in SMOOTH if pair[1] in ("pairs", "class_sums")])
@checked
@given(SEEDS)
def test_the_second_derivative_is_the_derivative_of_the_first(form, algorithm, soft, seed):
    x, labels = opl_batch(seed, soft)
    value = lambda x: orthogonal_projection(x, labels, form=form, algorithm=algorithm).loss  # noqa: E731
    assert gradgradcheck(value, (x.requires_grad_(),), eps=1e-7, atol=1e-4)


@checked
@given(SEEDS, st.sampled_from(["mean_abs", "abs_mean", "mean"]))
def test_the_loss_for_metric_learning_has_its_derivative(seed, form):
    pytest.importorskip("pytorch_metric_learning", reason="pytorch-metric-learning is not installed")
    from opl.losses.metric_learning import ProjectionMetricLoss

    x, labels = opl_batch(seed, soft=False)
    assert gradcheck(lambda x: ProjectionMetricLoss(form=form)(x, labels), (x.requires_grad_(),), eps=1e-7, atol=1e-5)
