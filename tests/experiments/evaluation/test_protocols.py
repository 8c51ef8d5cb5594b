"""Settings of the evaluation protocols: their names, invalid values, and the registry."""

from dataclasses import replace

import pytest

from _python import python
from opl.errors import OptionError
from opl.experiments.evaluation.protocols import PROTOCOLS, Attack, FewShot, protocol, protocol_of


def test_settings_and_registry_need_no_torch():
    python("""
import sys
from opl.experiments.evaluation.protocols import PROTOCOLS, Attack, FewShot
Attack(), FewShot()
assert "torch" not in sys.modules
""")


def test_each_protocol_loads_its_function():
    for name, entry in PROTOCOLS.items():
        assert callable(protocol(name).load())
        assert not entry.writes or protocol_of(entry.writes) == name
    with pytest.raises(OptionError, match="did you mean 'episodes'"):
        protocol("epsiodes")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"eps": 0.0}, "eps is 0"),
        ({"eps": 8.0}, "such as 8/255"),
        ({"images": -1}, "images is -1"),
        ({"queries": 0}, "queries is 0"),
        ({"kinds": ("cw",)}, "'cw' does not exist"),
    ],
)
def test_invalid_attack_settings_raise(wrong, message):
    with pytest.raises(OptionError, match=message):
        Attack(**wrong)


def test_a_shortened_autoattack_has_another_name():
    assert Attack().metric("autoattack") == "attack/autoattack-linf-8-255"
    assert Attack(queries=100).metric("autoattack") == "attack/short-autoattack-100-100-linf-8-255"
    assert Attack(step=0.01).metric("pgd") == "attack/pgd-20-linf-8-255-step-0.01"


def test_settings_of_an_outcome_are_only_the_relevant_ones():
    given = Attack(eps=0.031, images=30, steps=3, iterations=4, queries=5, sanity=False)
    assert given.alone("clean") == Attack(images=30, kinds=("clean",))  # the same at every radius
    assert given.alone("fgsm") == Attack(images=30, kinds=("fgsm",), eps=0.031)
    assert given.alone("pgd") == Attack(images=30, kinds=("pgd",), eps=0.031, steps=3)
    assert given.alone("autoattack") == Attack(images=30, kinds=("autoattack",), eps=0.031, iterations=4, queries=5)
    for kind in given.kinds:
        assert replace(given, seed=1).alone(kind) != given.alone(kind)
        assert given.alone(kind).metric(kind) == given.metric(kind)


def test_few_shot_names_list_settings_that_differ_from_the_default():
    assert FewShot().name == FewShot(episodes=10).name == "5-way-1-shot"
    assert FewShot(way=20, shot=5, noise=0.05, unit=False).name == "20-way-5-shot-unit-off-noise-0.05"
    assert (FewShot().repeats, FewShot(shot=5).repeats, FewShot(shot=5, copies=5).repeats) == (5, 1, 5)
    for wrong in ({"noise": -0.1}, {"copies": -1}, {"views": -1}, {"seed": -1}):
        with pytest.raises(OptionError):
            FewShot(**wrong)
