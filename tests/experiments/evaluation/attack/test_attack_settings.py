"""The settings of attacks: what is refused, and the names of what is measured."""

from dataclasses import replace

import pytest

from opl.errors import OptionError
from opl.experiments.evaluation.attack.settings import Attack


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"eps": 0.0}, "eps is 0"),
        ({"eps": 8.0}, "is 8/255 meant"),
        ({"images": -1}, "images is -1"),
        ({"queries": 0}, "queries is 0"),
        ({"kinds": ("cw",)}, "'cw' does not exist"),
    ],
)
def test_settings_that_attack_nothing_are_refused(wrong, words):
    with pytest.raises(OptionError, match=words):
        Attack(**wrong)


def test_a_shortened_autoattack_does_not_bear_its_name():
    assert Attack().metric("autoattack") == "attack/autoattack-linf-8-255"
    assert Attack(queries=100).metric("autoattack") == "attack/short-autoattack-100-100-linf-8-255"
    assert Attack(step=0.01).metric("pgd") == "attack/pgd-20-linf-8-255-step-0.01"


def test_the_settings_of_an_outcome_are_those_that_it_depends_on():
    given = Attack(eps=0.031, images=30, steps=3, iterations=4, queries=5, sanity=False)
    assert given.alone("clean") == Attack(images=30, kinds=("clean",))  # the same at every radius
    assert given.alone("fgsm") == Attack(images=30, kinds=("fgsm",), eps=0.031)
    assert given.alone("pgd") == Attack(images=30, kinds=("pgd",), eps=0.031, steps=3)
    assert given.alone("autoattack") == Attack(images=30, kinds=("autoattack",), eps=0.031, iterations=4, queries=5)
    for kind in given.kinds:
        assert replace(given, seed=1).alone(kind) != given.alone(kind)
        assert given.alone(kind).metric(kind) == given.metric(kind)
