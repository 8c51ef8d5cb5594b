"""Adversarial training: the inner loop, Madry, MART and TRADES against formulas by hand, and runs of them."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from _gloo import alone_and_in_two
from opl import orthogonal_projection
from opl.errors import OptionError
from opl.experiments import tables
from opl.experiments.methods import MART, OPL, TRADES, AdversarialTraining, CrossEntropy
from opl.experiments.methods.ascent import ascend, random_point
from opl.experiments.methods.mart import boosted_cross_entropy, consistency
from opl.experiments.methods.trades import divergence
from opl.experiments.models import CifarResNet, Standardize
from opl.experiments.models.modes import evaluation_mode, frozen_parameters
from opl.experiments.recipe import to_json
from opl.experiments.run_folder import RunFolder
from opl.experiments.training.build import build_model, parse_recipe
from opl.experiments.training.run import run
from opl.experiments.types import Batch, Output, TaskShape

CLASSES, SIDE, DIM = 5, 6, 7
METHODS = {
    "madry": AdversarialTraining(auxiliary=(OPL(weight=0.7),)),
    "madry, eval": AdversarialTraining(inner="eval", random_start=False),
    "madry, l2": AdversarialTraining(norm="l2", eps=0.5, step=0.2, steps=3),
    "mart": MART(steps=3, auxiliary=(OPL(weight=0.7),)),
    "trades": TRADES(steps=3, auxiliary=(OPL(weight=0.7),)),
}
EVERY = pytest.mark.parametrize("name", METHODS)


class TinyNet(nn.Module):
    """Convolution, batch norm, features, classes; in float64; remembers what it was shown, and in which mode."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten())
        self.embed, self.fc = nn.Linear(3 * SIDE * SIDE, DIM), nn.Linear(DIM, CLASSES)
        self.double()
        self.seen = []

    def forward(self, images, labels=None):
        self.seen.append((images.detach().clone(), self.training))
        features = torch.tanh(self.embed(self.body(images)))
        return Output(features, self.fc(features))


def small_batch(rows=6, dtype=torch.float64, seed=1):
    chance = torch.Generator().manual_seed(seed)
    images = torch.rand(rows, 2, SIDE, SIDE, dtype=dtype, generator=chance)
    images[0] = (images[0] > 0.5).to(dtype)  # black and white, where [0, 1] is felt
    return Batch(images, torch.arange(rows) % CLASSES, torch.arange(rows), 1 / rows)


def built(method):
    return method.build(TaskShape(CLASSES, DIM, (2,) * CLASSES, 4)).double()


def softmax(logits):
    powers = [math.exp(value) for value in logits]
    return [power / sum(powers) for power in powers]


def distance(moved, images, norm):
    delta = (moved - images).flatten(1)
    return (delta.abs().amax(1) if norm == "linf" else delta.square().sum(1).sqrt()).max().item()


# Ascent


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["linf", "l2"]),
    st.floats(0.001, 3.0),
    st.floats(0.001, 2.0),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_moved_images_stay_in_the_ball_and_in_the_range_of_pixels(norm, eps, step, steps, random_start, seed):
    model, batch = TinyNet(seed), small_batch(4, torch.float32, seed)
    model.float()
    before = batch.images.clone()
    loss = lambda moved: F.cross_entropy(model(moved).logits, batch.labels, reduction="sum")  # noqa: E731
    start = random_point(batch.images, eps, norm) if random_start else None
    moved = ascend(loss, batch.images, eps=eps, step=step, steps=steps, norm=norm, start=start)
    assert distance(moved, before, norm) <= eps * (1 + 1e-5) + 1e-6
    assert moved.min() >= 0
    assert moved.max() <= 1
    assert not moved.requires_grad
    assert torch.equal(batch.images, before)
    assert moved.untyped_storage().data_ptr() != batch.images.untyped_storage().data_ptr()


def test_a_step_on_a_linear_loss_is_the_closed_form():
    images, weights = small_batch().images, torch.randn(6, 2, SIDE, SIDE, dtype=torch.float64)
    moved = ascend(lambda x: (x * weights).sum(), images, eps=0.1, step=0.1, steps=1)
    torch.testing.assert_close(moved, (images + 0.1 * weights.sign()).clamp(0, 1))
    far = ascend(lambda x: (x * weights).sum(), images, eps=0.1, step=0.04, steps=5)
    torch.testing.assert_close(far, (images + 0.1 * weights.sign()).clamp(0, 1))
    inner = images.clamp(0.4, 0.6)
    along = ascend(lambda x: (x * weights).sum(), inner, eps=0.2, step=0.15, steps=3, norm="l2")
    lengths = weights.flatten(1).norm(dim=1)[:, None, None, None]
    torch.testing.assert_close(along, inner + 0.2 * weights / lengths)


def test_a_loss_that_is_flat_moves_nothing():
    images = small_batch().images
    for norm in ("linf", "l2"):
        moved = ascend(lambda x: (0 * x).sum(), images, eps=0.1, step=0.1, steps=2, norm=norm)
        torch.testing.assert_close(moved, images, rtol=0, atol=1e-15)


def test_random_starts_fill_the_ball_evenly():
    images = torch.full((4000, 1, 2, 1), 0.5, dtype=torch.float64)
    square = random_point(images, 0.3, "linf", torch.Generator().manual_seed(0)) - images
    assert square.abs().max() <= 0.3
    assert square.square().mean().item() == pytest.approx(0.3**2 / 3, rel=0.05)
    disc = (random_point(images, 0.3, "l2", torch.Generator().manual_seed(0)) - images).flatten(1).norm(dim=1)
    assert disc.max() <= 0.3
    assert (disc < 0.3 / math.sqrt(2)).double().mean().item() == pytest.approx(0.5, abs=0.03)  # half of the area


def test_normalized_images_and_unknown_norms_are_refused():
    images = small_batch().images
    with pytest.raises(OptionError, match=r"-1.* to .*normalize='model'"):
        ascend(lambda x: x.sum(), 2 * images - 1, eps=0.1, step=0.1, steps=1)
    with pytest.raises(OptionError, match="'linf'"):
        ascend(lambda x: x.sum(), images, eps=0.1, step=0.1, steps=1, norm="inf")


def test_modes_and_gradients_come_back_part_by_part_also_after_an_error():
    model = TinyNet()
    model.train()
    model.body[1].eval()
    model.fc.weight.requires_grad_(False)

    def interrupted():
        with evaluation_mode(model), frozen_parameters(model):
            assert not any(part.training for part in model.modules())
            assert not any(parameter.requires_grad for parameter in model.parameters())
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert [part.training for part in model.modules()].count(False) == 1
    assert not model.body[1].training
    assert [name for name, each in model.named_parameters() if not each.requires_grad] == ["fc.weight"]


# Methods


@EVERY
def test_the_batch_the_mode_and_the_gradients_are_left_alone(name):
    model, batch, objective = TinyNet(), small_batch(), built(METHODS[name])
    before = batch.images.clone()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    terms = objective(model, batch)
    assert torch.equal(batch.images, before)
    assert all(part.training for part in model.modules())
    assert all((parameter.grad == 1).all() for parameter in model.parameters())
    terms.total.backward()
    assert all((parameter.grad != 1).any() for parameter in model.parameters())


@EVERY
def test_the_loop_runs_in_its_mode_and_the_step_in_training(name):
    method, model, batch = METHODS[name], TinyNet(), small_batch()
    built(method)(model, batch)
    passes = 2 if name in ("mart", "trades") else 1
    loop, last = model.seen[:-passes], model.seen[-passes:]
    assert len(loop) == method.steps + (name == "trades")  # the clean answer, once
    assert {training for _, training in loop} == {method.inner == "train"}
    assert all(training for _, training in last)
    assert passes == 1 or torch.equal(last[0][0], batch.images)
    for images, _ in model.seen:
        assert distance(images, batch.images, method.norm) <= method.eps + 1e-12
        assert images.min() >= 0
        assert images.max() <= 1


@EVERY
def test_chance_is_that_of_the_global_generator(name):
    totals = []
    for seed in (0, 0, 1):
        model, batch = TinyNet(), small_batch()
        torch.manual_seed(seed)
        totals.append(built(METHODS[name])(model, batch).total.item())
    assert totals[0] == totals[1]
    assert (totals[0] == totals[2]) == (not METHODS[name].random_start)


@EVERY
def test_the_moved_images_are_worse_than_the_clean_ones(name):
    method, batch = METHODS[name], small_batch()
    model = TinyNet()
    model.eval()
    clean = model(batch.images).logits
    built(method)(model, batch)
    moved = model(model.seen[-1][0]).logits
    assert divergence(clean, moved).sum() > 1e-4
    if name != "trades":
        assert F.cross_entropy(moved, batch.labels) > F.cross_entropy(clean, batch.labels)


def test_madry_is_cross_entropy_of_the_moved_images_alone_and_opl_sees_their_features():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["madry"])(model, batch)
    moved = model.seen[-1][0]
    entropy = 0.0
    output = model(moved)  # in training mode, as the step
    for logits, label in zip(output.logits.tolist(), batch.labels.tolist(), strict=True):
        entropy -= math.log(softmax(logits)[label]) / 6
    expected = orthogonal_projection(output.features, batch.labels, gamma=0.5, algorithm="pairs").loss
    assert terms.parts["entropy"].item() == pytest.approx(entropy)
    torch.testing.assert_close(terms.parts["projection"], expected)
    assert terms.total.item() == pytest.approx(entropy + 0.7 * expected.item())


def test_the_attack_of_madry_is_ten_signed_steps_by_hand():
    method, batch = AdversarialTraining(random_start=False, inner="eval"), small_batch()
    model = TinyNet()
    built(method)(model, batch)
    found = model.seen[-1][0]
    model = TinyNet()
    model.eval()
    moved = batch.images.clone()
    for _ in range(10):
        moved.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(moved).logits, batch.labels), moved)
        moved = moved.detach() + 2 / 255 * gradient.sign()
        moved = torch.min(torch.max(moved, batch.images - 8 / 255), batch.images + 8 / 255).clamp(0, 1)
    torch.testing.assert_close(found, moved)


def test_mart_is_its_formula_written_as_loops():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["mart"])(model, batch)
    (clean_images, _), (moved_images, _) = model.seen[-2:]
    clean, moved = model(clean_images), model(moved_images)
    boost = weighted = 0.0
    for row, label in enumerate(batch.labels.tolist()):
        p, q = (softmax(each.logits[row].tolist()) for each in (clean, moved))
        runner_up = max(q[j] for j in range(CLASSES) if j != label)
        boost += -math.log(q[label]) - math.log(1.0001 - runner_up + 1e-12)
        kl = sum(p[j] * (math.log(p[j]) - math.log(q[j] + 1e-12)) for j in range(CLASSES))
        weighted += (1.0000001 - p[label]) * kl
    projection = orthogonal_projection(moved.features, batch.labels, gamma=0.5, algorithm="pairs").loss.item()
    assert terms.parts["boosted"].item() == pytest.approx(boost / 6)
    assert terms.parts["consistency"].item() == pytest.approx(weighted / 6)
    assert terms.parts["projection"].item() == pytest.approx(projection)
    assert terms.total.item() == pytest.approx(boost / 6 + 5 * weighted / 6 + 0.7 * projection)


def test_trades_is_its_formula_written_as_loops():
    model, batch = TinyNet(), small_batch()
    terms = built(METHODS["trades"])(model, batch)
    (clean_images, _), (moved_images, _) = model.seen[-2:]
    clean, moved = model(clean_images), model(moved_images)
    entropy = kl = 0.0
    for row, label in enumerate(batch.labels.tolist()):
        p, q = (softmax(each.logits[row].tolist()) for each in (clean, moved))
        entropy -= math.log(p[label])
        kl += sum(p[j] * math.log(p[j] / q[j]) for j in range(CLASSES))
    projection = orthogonal_projection(moved.features, batch.labels, gamma=0.5, algorithm="pairs").loss.item()
    assert terms.parts["entropy"].item() == pytest.approx(entropy / 6)
    assert terms.parts["divergence"].item() == pytest.approx(kl / 6)
    assert terms.total.item() == pytest.approx(entropy / 6 + 6 * kl / 6 + 0.7 * projection)


def test_gradients_flow_through_both_passes_of_mart_and_trades():
    clean, moved = (torch.randn(4, CLASSES, dtype=torch.float64, requires_grad=True) for _ in range(2))
    labels = torch.arange(4)
    for value in (consistency(clean, moved, labels).sum(), divergence(clean, moved).sum()):
        assert all(gradient.abs().sum() > 0 for gradient in torch.autograd.grad(value, (clean, moved)))
    assert torch.autograd.gradcheck(lambda x: boosted_cross_entropy(x, labels), moved)
    assert torch.autograd.gradcheck(lambda x, y: consistency(x, y, labels), (clean, moved))
    assert torch.autograd.gradcheck(divergence, (clean, moved))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_sure_answers_have_finite_losses_and_gradients(dtype):
    clean = torch.tensor([[60.0, -60.0, 0.0], [-60.0, 60.0, 0.0]], dtype=dtype, requires_grad=True)
    moved = (-clean.detach()).requires_grad_()
    labels = torch.tensor([0, 0])
    for value in (boosted_cross_entropy(moved, labels).sum(), consistency(clean, moved, labels).sum()):
        assert value.isfinite()
        wanted = torch.autograd.grad(value, (clean, moved), allow_unused=True)
        assert all(gradient is None or gradient.isfinite().all() for gradient in wanted)


def test_uneven_shares_add_up_to_the_whole_batch():
    for method in (
        AdversarialTraining(random_start=False, inner="eval"),
        MART(random_start=False),
        TRADES(random_start=False),
    ):
        model, batch = TinyNet(), small_batch()
        model.eval()  # a batch norm of a share is another one
        whole = built(method)(model, batch).total
        parts = [
            Batch(batch.images[s], batch.labels[s], batch.rows[s], batch.sample_weight)
            for s in (slice(0, 1), slice(1, 6))
        ]
        torch.testing.assert_close(sum(built(method)(model, part).total for part in parts), whole)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"eps": 0.0}, "eps"), ({"eps": 8.0}, "8/255"), ({"step": -1.0}, "step"), ({"steps": 0}, "steps is 0")],
)
def test_settings_that_move_nothing_are_refused(wrong, said):
    for method in (AdversarialTraining, MART, TRADES):
        with pytest.raises(OptionError, match=said):
            method(**wrong)


# In a run

DIGITS = replace(tables.recipe("digits-ce", "small"), epochs=2)
ATTACKED = replace(DIGITS, method=AdversarialTraining(steps=2, auxiliary=(OPL(),)), normalize="model")


def test_attacks_need_the_normalization_inside():
    with pytest.raises(OptionError, match="normalize='model'"):
        replace(DIGITS, method=MART())
    assert parse_recipe(to_json(ATTACKED)) == ATTACKED


def test_a_network_with_its_normalization_inside_answers_as_one_without():
    inside, outside = build_model(replace(DIGITS, normalize="model")), build_model(DIGITS)
    pixels = torch.rand(5, 1, 8, 8)
    mean, std = DIGITS.data.mean[0], DIGITS.data.std[0]
    torch.testing.assert_close(inside(pixels).logits, outside((pixels - mean) / std).logits)
    assert {*inside.state_dict()} - {*outside.state_dict()} == {"standardize.mean", "standardize.std"}
    plain = build_model(replace(DIGITS, normalize="none"))
    assert torch.equal(plain(pixels).logits, outside(pixels).logits)
    with pytest.raises(OptionError, match="one of each"):
        Standardize((0.5,), (0.0,))


def test_where_images_are_normalized_changes_no_number(tmp_path):
    losses = [
        run(replace(DIGITS, name=where, normalize=where, epochs=1), tmp_path)["test/loss"]
        for where in ("data", "model", "none")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] != pytest.approx(losses[2], rel=1e-4)  # other pixels


def test_a_stopped_adversarial_run_goes_on_to_the_same_bytes(tmp_path, stopped):
    run(ATTACKED, tmp_path / "whole")
    stopped(ATTACKED, tmp_path / "stopped", 1)
    torch.rand(3)
    run(ATTACKED, tmp_path / "stopped")
    whole, again = (RunFolder.of(tmp_path / each, ATTACKED.name, 0) for each in ("whole", "stopped"))
    assert (whole.path / "model.safetensors").read_bytes() == (again.path / "model.safetensors").read_bytes()


def test_fine_tuning_inherits_everything_but_the_classifier(tmp_path, monkeypatch):
    first = replace(ATTACKED, name="first", epochs=1)
    second = replace(first, name="second", after="first", inherit=True, new_head=True)
    run(first, tmp_path)
    starts = []
    monkeypatch.setattr(
        "opl.experiments.training.run.fit", lambda fabric, recipe, model, *_, **__: starts.append(model) or model
    )
    run(second, tmp_path)
    before, now, new = (
        RunFolder.of(tmp_path, "first", 0).weights(),
        starts[0].state_dict(),
        build_model(second).state_dict(),
    )
    for name, value in now.items():
        assert torch.equal(value, (new if name.startswith("fc.") else before)[name]), name


def test_another_number_of_classes_is_refused_until_the_classifier_is_new(tmp_path):
    data = tables.recipe("cifar100-resnet56-ce", "tiny").data
    base = replace(DIGITS, data=replace(data, rows=16, test=8, classes=4), model=CifarResNet(8, 8), epochs=1)
    run(replace(base, name="four"), tmp_path)
    six = replace(base, name="six", data=replace(base.data, classes=6), after="four", inherit=True)
    with pytest.raises(OptionError, match=r"4 classes and six 6.*--new-head"):
        run(six, tmp_path)
    assert "test/top1" in run(replace(six, name="fresh", new_head=True), tmp_path)
    with pytest.raises(OptionError, match="inherit"):
        replace(base, new_head=True)
    with pytest.raises(OptionError, match="inherit"):
        replace(base, method=CrossEntropy(), inherit=True)


SCRIPT = """
import sys
from dataclasses import replace
from opl.experiments import tables
from opl.experiments.methods import *
from opl.experiments.models import CifarResNet
from opl.optim import SGD
from opl.experiments.training.run import run
base = tables.recipe("digits-ce", "small")
base = replace(base, epochs=1, optimizer=SGD(lr=0.02), devices=int(sys.argv[1]), normalize="model")
loop = {"random_start": False, "steps": 2}
madry = AdversarialTraining(inner="eval", **loop, auxiliary=(OPL(),))
for name, method in {"madry": madry, "mart": MART(**loop)}.items():
    run(replace(base, name=name, method=method), sys.argv[2])
with_norms = replace(base, name="norms", model=CifarResNet(8, 8), data=replace(base.data, test_fraction=0.9))
run(replace(with_norms, method=TRADES(steps=1)), sys.argv[2])  # batch norms, two passes, one backward
"""


@pytest.mark.slow
def test_two_processes_train_against_attacks_as_one_does(tmp_path):
    alone_and_in_two(SCRIPT, tmp_path)
    for name in ("madry", "mart"):
        one, two = (RunFolder.of(tmp_path / str(devices), name, 0).weights() for devices in (1, 2))
        for key, value in one.items():
            torch.testing.assert_close(two[key], value, rtol=0, atol=2e-4)
