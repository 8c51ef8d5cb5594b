"""Adversarial training vs its steps and its loss by hand, and the inner loop of every adversarial method."""

import math

import pytest
import torch
from _attacked_net import EVERY, METHODS, TinyNet, built, distance, small_batch
from torch.nn import functional as F

from _divergence import softmax
from opl import orthogonal_projection
from opl.errors import OptionError
from opl.experiments.methods import MART, TRADES, AdversarialTraining
from opl.experiments.methods.trades import divergence
from opl.experiments.models.modes import evaluation_mode, frozen_parameters
from opl.experiments.types import Batch


def test_loss_is_cross_entropy_of_adversarial_images_and_opl_uses_their_features():
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


def test_attack_equals_ten_signed_gradient_steps():
    method, batch = AdversarialTraining(random_start=False, inner="eval"), small_batch()
    model = TinyNet()
    built(method)(model, batch)
    result = model.seen[-1][0]
    model = TinyNet()
    model.eval()
    moved = batch.images.clone()
    for _ in range(10):
        moved.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(model(moved).logits, batch.labels), moved)
        moved = moved.detach() + 2 / 255 * gradient.sign()
        moved = torch.min(torch.max(moved, batch.images - 8 / 255), batch.images + 8 / 255).clamp(0, 1)
    torch.testing.assert_close(result, moved)


def test_modes_and_requires_grad_are_restored_after_an_error():
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
    assert [name for name, parameter in model.named_parameters() if not parameter.requires_grad] == ["fc.weight"]


@EVERY
def test_batch_mode_and_gradients_are_unchanged(name):
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
def test_inner_loop_uses_its_mode_and_the_step_uses_training_mode(name):
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
def test_random_numbers_come_from_the_global_generator(name):
    totals = []
    for seed in (0, 0, 1):
        model, batch = TinyNet(), small_batch()
        torch.manual_seed(seed)
        totals.append(built(METHODS[name])(model, batch).total.item())
    assert totals[0] == totals[1]
    assert (totals[0] == totals[2]) == (not METHODS[name].random_start)


@EVERY
def test_adversarial_images_have_a_higher_loss_than_clean_images(name):
    method, batch = METHODS[name], small_batch()
    model = TinyNet()
    model.eval()
    clean = model(batch.images).logits
    built(method)(model, batch)
    moved = model(model.seen[-1][0]).logits
    assert divergence(clean, moved).sum() > 1e-4
    if name != "trades":
        assert F.cross_entropy(moved, batch.labels) > F.cross_entropy(clean, batch.labels)


def test_uneven_shards_sum_to_the_whole_batch():
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


def test_a_radius_beyond_the_range_of_pixels_is_refused():
    for method in (AdversarialTraining, MART, TRADES):
        with pytest.raises(OptionError, match="8/255"):
            method(eps=8.0)
