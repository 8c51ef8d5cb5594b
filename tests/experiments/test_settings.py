"""Every setting of every recipe has a range, and values outside of it are refused before anything is read."""

import dataclasses
import math
import typing
from functools import cache

import pytest

from opl.errors import OptionError
from opl.experiments.data import DATA_SETS, NOISES, NoiseMatrix
from opl.experiments.methods import METHODS
from opl.experiments.models import MODELS, PreActResNet18, Vgg11
from opl.experiments.paper import recipe, recipes
from opl.experiments.training.run import check_recipe
from opl.optim import AdamW, OneCycle

ODD = (math.nan, math.inf, -math.inf, -1, 0, 1e30)


@cache
def holders() -> dict[type, tuple[typing.Any, tuple[typing.Any, ...]]]:
    """For each class of settings a recipe that holds one, and the way to it: names of fields, and places in tuples."""
    digits = recipe("digits-ce", "tiny")
    more = [
        dataclasses.replace(digits, optimizer=AdamW()),
        dataclasses.replace(digits, schedule=OneCycle()),
        dataclasses.replace(digits, model=Vgg11()),
        dataclasses.replace(digits, model=PreActResNet18()),
        dataclasses.replace(digits, noise=NoiseMatrix()),
    ]
    result: dict[type, tuple[typing.Any, tuple[typing.Any, ...]]] = {}

    def walk(top, value, path):
        if dataclasses.is_dataclass(value):
            result.setdefault(type(value), (top, path))
            for field in dataclasses.fields(value):
                walk(top, getattr(value, field.name), (*path, field.name))
        if isinstance(value, tuple):
            for index, item in enumerate(value):
                walk(top, item, (*path, index))

    for top in [*(scaled for scales in recipes().values() for scaled in scales.values()), *more]:
        walk(top, top, ())
    return result


def changed(value, path, last):
    """The same settings with another value at the end of the way."""
    if not path:
        return last
    if isinstance(value, tuple):
        return tuple(changed(item, path[1:], last) if index == path[0] else item for index, item in enumerate(value))
    return dataclasses.replace(value, **{path[0]: changed(getattr(value, path[0]), path[1:], last)})


def numbers(kind: type) -> list[tuple[str, bool]]:
    """The fields of a class that hold one number, and whether it is a whole one."""
    hints = typing.get_type_hints(kind)
    kinds = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return [(name, hint is int) for name, hint in kinds.items() if hint in (int, float, float | None)]


def test_the_walk_meets_almost_every_class_of_settings():
    kinds = {*DATA_SETS, *NOISES, *MODELS, *METHODS}
    assert {kind.__name__ for kind in kinds - holders().keys()} <= {"EfficientNetLite0", "FashionMnist", "UserImages"}


@pytest.mark.parametrize("value", ODD)
def test_every_number_of_every_recipe_is_in_its_range_or_refused_by_its_name(value):
    for kind, (top, path) in holders().items():
        for name, whole in numbers(kind):
            given = int(value) if whole and math.isfinite(value) else value
            dotted = ".".join(map(str, (*path, name)))
            message = refusal(top, (*path, name), given)
            if message:
                assert name in message, (dotted, message)
                assert "\n" not in message
            else:
                assert math.isfinite(value), f"{dotted} takes {value}"
                assert value >= 0 or name in MAY_BE_NEGATIVE, f"{dotted} takes {value}"
                assert not whole or value < 2**63, f"{dotted} takes {value}"


def refusal(top, path, value) -> str:
    """What is said about a value; empty if it is taken. Any error but OptionError fails the test."""
    try:
        changed(top, path, value)
    except OptionError as error:
        return str(error)
    return ""


MAY_BE_NEGATIVE = (
    "gamma",
    "split_seed",
    "seed",
    "holdout",
    "workers",
)  # -1 is "of the run", "of the files", "one a core"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("optimizer.lr", 0.0),
        ("optimizer.momentum", 1.0),
        ("optimizer.weight_decay", -1e-9),
        ("model.width", 0),
        ("data.rows", 0),
        ("epochs", 0),
        ("batch_size", 0),
        ("schedule.warmup", 1e9),
        ("data.noise", -0.1),
        ("method.weight", -1.0),
        ("method.label_smoothing", 1.0),
        ("seed", -1),
        ("seed", 2**63),
        ("name", "../../x"),
        ("after", "../x"),
        ("precision", "16"),
        ("clip", -1.0),
    ],
)
def test_zero_and_one_are_refused_where_they_mean_nothing(name, wrong):
    with pytest.raises(OptionError, match=name.rpartition(".")[2]):
        changed(recipe("digits-opl", "tiny"), tuple(name.split(".")), wrong)


@pytest.mark.parametrize(
    ("name", "scale", "path", "wrong", "sentence"),
    [
        ("digits-opl", "tiny", "data.classes", 1, "is invalid"),
        ("digits-opl", "tiny", "data.classes", 11, "is invalid"),
        ("digits-opl", "paper", "data.val", 899, "899, but digits has"),
        ("cifar100-resnet56-opl", "paper", "data.val", 50_000, "50000 training images"),
        ("cifar100-resnet56-opl", "paper", "data.superclasses", (1, 1), "distinct numbers"),
        ("digits-opl", "tiny", "devices", 1000, "devices is 1000, but this machine has"),
        ("digits-opl", "tiny", "nodes", 9, "nodes is 9, but no launcher started this process"),
        ("domains-rsc-opl", "tiny", "data.target", "nowhere", "did you mean"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_read(name, scale, path, wrong, sentence, monkeypatch):
    for launcher in ("MASTER_ADDR", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID", "LOCAL_RANK"):
        monkeypatch.delenv(launcher, raising=False)
    chosen = changed(recipe(name, scale), tuple(path.split(".")), wrong)
    with pytest.raises(OptionError, match=sentence):
        check_recipe(chosen)


def test_nodes_that_a_launcher_starts_are_not_refused(monkeypatch):
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    check_recipe(dataclasses.replace(recipe("digits-opl", "tiny"), nodes=9))
