"""The super-classes of CIFAR-100."""

import pytest

from opl.errors import DataError
from opl.experiments.data.cifar import Cifar100


def test_super_classes_are_those_of_the_data_set():
    try:
        splits = Cifar100(classes=20).load(0)
    except DataError:
        pytest.skip("CIFAR-100 is not here: set OPL_DATA")
    groups = dict(zip(splits.class_names, splits.groups, strict=True))
    assert groups["aquarium_fish"] != groups["apple"]
    assert groups["baby"] == groups["boy"]
    assert groups["bee"] == groups["beetle"] == groups["butterfly"] == groups["caterpillar"]
    assert groups["bottle"] == groups["bowl"] == groups["can"]
