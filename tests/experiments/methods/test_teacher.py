"""A teacher is needed by some methods, and neither trained nor saved."""

from dataclasses import replace

import pytest
from _taught_net import TinyNet, built, small_batch

from opl.errors import OptionError
from opl.experiments import paper
from opl.experiments.methods import OPL, Distillation, Rotations, TwinDistillation

DIGITS = replace(paper.recipe("digits-ce", "small"), epochs=2)


@pytest.mark.parametrize("method", [Distillation(), TwinDistillation()])
def test_a_teacher_is_neither_trained_nor_saved(method):
    teacher = TinyNet(1).train()
    objective = built(method, teacher)
    assert not list(objective.parameters())
    assert not objective.state_dict()
    objective(TinyNet(0), small_batch()).total.backward()
    assert not teacher.training
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_methods_without_their_teacher_or_with_nonsense_say_so():
    for method in (Distillation(), TwinDistillation()):
        with pytest.raises(OptionError, match="after"):
            built(method)
    for method in (Distillation(weight=1.5), Distillation(temperature=0), TwinDistillation(temperature=-1)):
        with pytest.raises(OptionError):
            built(method, TinyNet())
    with pytest.raises(OptionError, match="twice"):
        built(Rotations(auxiliary=(OPL(), OPL(weight=2.0))))
    with pytest.raises(OptionError, match="after"):
        replace(DIGITS, inherit=True)
