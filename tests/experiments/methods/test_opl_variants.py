"""OPL and its variants as auxiliary losses: their modules, records, and state after a kill."""

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

from opl.errors import OptionError
from opl.experiments.methods import Composite, OPLVariant
from opl.experiments.paper.study import ARMS
from opl.experiments.types import Batch, Output, TaskShape
from opl.plugin.criterion import STEPS

SHAPE = TaskShape(num_classes=3, feature_dim=4, steps=5, epochs=2)
VARIANTS = {
    "auto": OPLVariant(rule="auto"),
    "log-ratio": OPLVariant(variant="log_ratio", gamma=1.0),
    "prototypes": OPLVariant(variant="prototypes", gamma=1.0),
    "centered": OPLVariant(centered=True),
    "ramp": OPLVariant(rule="cosine", gamma=0.0, end=2.0),
    "balanced": OPLVariant(balanced=True),
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, images):
        features = self.body(images)
        return Output(features, self.fc(features))


def batch(rows=9):
    return Batch(torch.randn(rows, 5), torch.arange(rows) % 3, torch.arange(rows), 1 / rows)


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_and_records_its_measures(name):
    objective, model = Composite(auxiliary=(VARIANTS[name],)).build(SHAPE), Net()
    terms = objective(model, batch())
    terms.total.backward()
    assert all(value.grad.isfinite().all() for value in model.parameters())
    measures = {"s", "d", "without_positive", "class_cosine"}
    measures |= set() if name == "prototypes" else {"gamma", "gamma_needed"}
    assert set(terms.parts) == {"entropy", "projection"}
    assert set(terms.measures) == measures
    torch.testing.assert_close(terms.total, terms.parts["entropy"] + terms.parts["projection"])


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_trains_under_fabric_in_mixed_precision(name):
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    model = fabric.setup_module(Net())
    terms = Composite(auxiliary=(VARIANTS[name],)).build(SHAPE)(model, batch())
    fabric.backward(terms.total)
    assert all(value.grad.isfinite().all() and value.grad.any() for value in model.parameters())


def test_balanced_weight_scales_the_gradient_of_opl_to_that_of_cross_entropy():
    model, given = Net(), batch()
    norms = {}
    for weight in (0.0, 2.0):
        objective = Composite(auxiliary=(OPLVariant(weight=weight, balanced=True),)).build(SHAPE)
        features = model.body(given.images).detach().requires_grad_()
        terms = objective(_fixed(model, features), given)
        norms[weight] = torch.autograd.grad(terms.total, features)[0]
    torch.testing.assert_close((norms[2.0] - norms[0.0]).norm(), 2 * norms[0.0].norm(), rtol=1e-4, atol=1e-6)


def _fixed(model, features):
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = model.fc

        def forward(self, images):
            return Output(features, self.fc(features))

    return Fixed()


def test_a_ramp_lasts_for_all_steps_of_training():
    term = VARIANTS["ramp"].build(SHAPE)
    assert term.loss.gamma.steps == 10
    term.loss.rule.set_step(10)
    model, given = Net(), batch()
    term(model, model(given.images), given)
    assert float(term.measures["gamma"]) == pytest.approx(2)


@pytest.mark.filterwarnings("error")
def test_too_small_gamma_is_warned_about_once_after_the_first_steps():
    record = {"train/gamma": 0.5, "train/gamma_needed": 0.9}

    def trained(gamma=0.5, steps=STEPS):
        objective, model, given = Composite(auxiliary=(OPLVariant(),)).build(SHAPE), Net(), batch()
        for _ in range(steps):
            objective(model, given)
        objective.after_epoch(model, {**record, "train/gamma": gamma})
        return objective

    with pytest.warns(UserWarning, match=r"gamma was 0.50 on average over this epoch"):
        objective = trained()
    objective.after_epoch(Net(), record)
    trained(gamma=1.0)
    trained(steps=STEPS - 1)


@pytest.mark.parametrize("wrong", [{"rule": "auto"}, {"centered": True}], ids=str)
def test_prototypes_refuse_auto_gamma_and_centering(wrong):
    with pytest.raises(OptionError, match="prototypes need a constant gamma or a ramp"):
        OPLVariant(variant="prototypes", **wrong).build(SHAPE)


def test_arms_of_the_screen_are_different_methods():
    from opl.experiments import methods

    made = [arm.method(methods, 0.3) for arm in ARMS.values()]
    assert len({str(method) for method in made}) == len(ARMS)
    assert all(method.opl.weight == 0.3 for method in made)
