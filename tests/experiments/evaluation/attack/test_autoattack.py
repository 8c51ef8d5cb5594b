"""AutoAttack against pyautoattack itself, and interrupted after any batch."""

import sys
from dataclasses import replace

import pytest
import torch
from _attack_site import CLASSES, SHORT, Net, make_site

from opl.errors import OptionError
from opl.experiments.evaluation.attack.autoattack import ATTACKS, ROBUST, autoattack, configure


@pytest.fixture(scope="module")
def site():
    return make_site()


def direct(model, images, labels, settings):
    """pyautoattack as its page says, in one call."""
    from pyautoattack import AutoAttack

    attacker = AutoAttack(model, eps=settings.eps, norm="Linf", seed=settings.seed, device="cpu")
    attacker = configure(attacker, settings, CLASSES)
    model.eval()
    model.requires_grad_(False)
    moved, answers = attacker.run_standard_evaluation(images, labels, batch_size=settings.batch)
    model.requires_grad_(True)
    assert (moved - images).abs().max() <= settings.eps + 1e-6  # the points that broke something are fair
    assert moved.min() >= 0
    assert moved.max() <= 1
    return answers == labels


@pytest.mark.parametrize("eps", [0.02, 0.1])
def test_autoattack_is_pyautoattack_called_directly(site, eps):
    model, images, labels = site
    settings = replace(SHORT, eps=eps)
    ours = autoattack(model, images, labels, settings)
    theirs = direct(model, images, labels, settings)
    assert torch.equal(ours.robust, theirs)
    assert 0 < theirs.sum() < len(labels) - 3  # something is left, and something fell
    assert (ours.broken[:3] < ROBUST).all()
    assert (ours.attack, ours.batches) == (len(ATTACKS), 0)


def test_an_autoattack_stopped_after_any_batch_ends_the_same(site):
    model, images, labels = site
    settings = replace(SHORT, eps=0.06)
    moments = []

    def remember(state):
        moments.append(replace(state, broken=state.broken.clone()))

    whole = autoattack(model, images, labels, settings, save=remember)
    assert len(moments) > len(ATTACKS) + 2
    assert {moment.attack for moment in moments} == set(range(len(ATTACKS) + 1))
    for moment in moments[:: max(1, len(moments) // 6)]:
        torch.rand(3)
        again = autoattack(model, images, labels, settings, state=replace(moment, broken=moment.broken.clone()))
        assert torch.equal(again.broken, whole.broken)


def test_the_tracer_of_a_debugger_comes_back(site):
    model, images, labels = site

    def tracer(frame, event, argument):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        autoattack(model, images[:2], labels[:2], replace(SHORT, iterations=1, queries=1))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_what_cannot_be_attacked_is_refused(site):
    model, images, labels = site
    with pytest.raises(OptionError, match="at least 4 classes"):
        autoattack(Net(3), images, labels % 3, SHORT)
    with pytest.raises(OptionError, match=r"\[0, 1\]"):
        autoattack(model, images - 0.5, labels, SHORT)
