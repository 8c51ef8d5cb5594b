"""FGSM and PGD: closed forms, the ball and the range of pixels, and the images that are chosen."""

from dataclasses import replace

import pytest
import torch
from _attack_site import CLASSES, SHORT, Net, make_site
from torch import nn

from opl.experiments.evaluation.attack.attacks import PixelClassifier, choose_images, fgsm, is_correct, pgd
from opl.experiments.evaluation.attack.autoattack import autoattack
from opl.experiments.evaluation.attack.settings import Attack
from opl.experiments.types import Images, Output


@pytest.fixture(scope="module")
def site():
    return make_site()


def left_alone(model):
    """A check that nothing of the model, nor of the global generator, was touched."""
    model.train()
    model.fc.eval()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    model.fc.bias.requires_grad_(False)
    torch.manual_seed(5)
    state, weights = torch.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}

    def check():
        assert torch.equal(torch.get_rng_state(), state)
        assert [part.training for part in (model, model.body, model.body[2], model.fc)] == [True, True, True, False]
        assert all((parameter.grad == 1).all() for parameter in model.parameters())
        assert [name for name, each in model.named_parameters() if not each.requires_grad] == ["fc.bias"]
        assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
        model.requires_grad_(True)
        model.zero_grad()

    return check


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("seed", range(4))
def test_attacks_stay_in_the_ball_and_in_the_range_of_pixels(norm, seed):
    torch.manual_seed(seed)
    model, images, labels = Net(), torch.rand(9, 3, 6, 6), torch.arange(9) % CLASSES
    images[0] = images[0].round()
    settings = Attack(eps=(0.01, 0.1, 0.7, 1.0 if norm == "linf" else 2.0)[seed], norm=norm, steps=4, batch=4)
    before = images.clone()
    for moved in (fgsm(model, images, labels, settings), pgd(model, images, labels, settings)):
        delta = (moved - before).flatten(1)
        size = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
        assert size.max() <= settings.eps * (1 + 1e-5) + 1e-6
        assert moved.min() >= 0
        assert moved.max() <= 1
        assert size.min() > 0
    assert torch.equal(images, before)


def test_fgsm_on_a_linear_model_is_the_closed_form():
    weight = torch.randn(2, 12, dtype=torch.float64)

    class Linear(nn.Module):
        def forward(self, images):
            return images.flatten(1) @ weight.T

    images, labels = torch.rand(8, 3, 2, 2, dtype=torch.float64), torch.arange(8) % 2
    rival_minus_own = torch.stack([weight[1] - weight[0], weight[0] - weight[1]])[labels].view_as(images)
    expected = (images + 0.2 * rival_minus_own.sign()).clamp(0, 1)
    torch.testing.assert_close(fgsm(Linear(), images, labels, Attack(eps=0.2)), expected)
    torch.testing.assert_close(pgd(Linear(), images, labels, Attack(eps=0.2, step=0.1)), expected)


def test_attacks_leave_everything_else_alone(site):
    model, images, labels = site
    check = left_alone(model)
    fgsm(model, images, labels, SHORT)
    pgd(model, images, labels, SHORT)
    is_correct(model, images, labels)
    autoattack(model, images, labels, SHORT)
    check()


def test_the_random_start_of_an_image_depends_on_its_number_alone(site):
    model, images, labels = site
    settings = Attack(eps=0.1, steps=1, step=0.01)
    whole = pgd(model, images, labels, settings)
    alone = pgd(model, images[[4, 20]], labels[[4, 20]], replace(settings, batch=1), [4, 20])
    torch.testing.assert_close(alone, whole[[4, 20]], rtol=0, atol=1e-6)
    other = pgd(model, images, labels, replace(settings, seed=1))
    assert (other - whole).abs().max() > 0.05


def test_the_same_images_are_chosen_for_every_network_and_all_of_them_for_0():
    part = Images(torch.zeros(50, 1, 2, 2), torch.zeros(50), torch.arange(50))
    places = choose_images(part, Attack(images=20))
    assert len(set(places.tolist())) == 20
    assert places.tolist() == sorted(places.tolist()) == choose_images(part, Attack(images=20, eps=0.5)).tolist()
    assert places.tolist() != choose_images(part, Attack(images=20, seed=1)).tolist()
    assert (
        choose_images(part, Attack(images=0)).tolist()
        == choose_images(part, Attack(images=999)).tolist()
        == list(range(50))
    )


def test_a_model_is_asked_through_pixels():
    class Asked(nn.Module):
        def forward(self, images):
            return Output(images, images.flatten(1))

    pixels = torch.rand(2, 1, 2, 2)
    assert torch.equal(PixelClassifier(Asked())(pixels), pixels.flatten(1))
