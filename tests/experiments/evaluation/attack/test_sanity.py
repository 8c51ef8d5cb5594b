"""What an honest attack must show, and the signs of masked gradients."""

from dataclasses import replace

import pytest
from _attack_site import SHORT, make_site
from torch import nn

from opl.experiments.evaluation.attack import sanity
from opl.experiments.evaluation.attack.attacks import is_correct, pgd
from opl.experiments.evaluation.attack.autoattack import ATTACKS, autoattack
from opl.experiments.evaluation.attack.settings import Attack


@pytest.fixture(scope="module")
def site():
    return make_site()


def test_an_honest_attack_raises_no_suspicion():
    found = {"clean": 80.0, "fgsm": 40.0, "pgd": 30.0, "autoattack": 25.0}
    curve = {0.01: 50.0, 0.03: 30.0, 0.06: 30.5, 0.5: 0.0}
    assert sanity.suspicions(found, curve, 0.2, 500, 0.5) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"found": {"fgsm": 20.0, "pgd": 30.0}}, "PGD leaves 30.0 % and FGSM only 20.0 %"),
        ({"found": {"pgd": 20.0, "autoattack": 30.0}}, "AutoAttack leaves 30.0 % and PGD only 20.0 %"),
        ({"curve": {0.1: 20.0, 0.2: 30.0}}, "fall with the radius"),
        ({"curve": {0.1: 20.0, 0.5: 15.0}}, "15.0 % at 0.5, where nearly nothing"),
        ({"square": 3.0}, "Square"),
    ],
)
def test_each_sign_of_masked_gradients_is_said(change, words):
    given = {"found": {}, "curve": {}, "square": 0.0, "images": 500, "large": 0.5, **change}
    [sentence] = sanity.suspicions(**given)
    assert words in sentence


def test_a_network_with_masked_gradients_is_found_out(site):
    model, images, labels = site

    class Masked(nn.Module):
        """Steps of a stair: no gradient anywhere."""

        def forward(self, pixels):
            return model((pixels * 20).round() / 20)

    settings = Attack(eps=0.3, steps=5)
    moved = pgd(Masked(), images, labels, settings)
    masked = is_correct(Masked(), moved, labels).float().mean()
    honest = is_correct(model, pgd(model, images, labels, settings), labels).float().mean()
    state = autoattack(Masked(), images, labels, replace(SHORT, eps=0.3, queries=150))
    square = 100 * (state.broken == ATTACKS.index("square")).float().mean().item()
    assert masked > honest + 0.2
    assert any("Square" in each for each in sanity.suspicions({}, {}, square, len(images), 0.5))
