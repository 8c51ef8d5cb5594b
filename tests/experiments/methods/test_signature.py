"""Settings generated from signatures have the keywords, types and defaults of the signature."""

import inspect
from dataclasses import FrozenInstanceError, fields

import pytest
import torch

from opl.errors import OptionError
from opl.experiments.methods import auxiliaries, criteria
from opl.experiments.methods import heads as head_settings
from opl.experiments.methods.signature import SignatureSettings, from_signature
from opl.experiments.types import TaskShape

CHOICES = (*head_settings.HeadChoice.__args__, *criteria.Criterion.__args__, *auxiliaries.Auxiliary.__args__)
GENERATED = [settings for settings in CHOICES if issubclass(settings, SignatureSettings)]
FIELDS = {
    head_settings.Linear: ["prior"],
    head_settings.ASoftmax: ["margin", "base", "gamma", "power", "floor"],
    head_settings.LGM: ["weight", "margin", "start", "double_every", "learn_variances"],
    criteria.Anchor: ["gamma", "delta", "variant", "warmup"],
    auxiliaries.Center: ["weight", "alpha"],
    auxiliaries.OLE: ["weight", "delta"],
}
OWN_DEFAULTS = {("Linear", "prior"), ("Anchor", "warmup")}
SHAPE = TaskShape(num_classes=5, feature_dim=3, counts=(2,) * 5, steps=10)


@pytest.mark.parametrize("settings", GENERATED, ids=lambda kind: kind.__name__)
def test_keywords_and_defaults_are_those_of_the_library(settings):
    parameters = inspect.signature(settings.builds).parameters
    for field in fields(settings):
        if field.name in parameters and (settings.__name__, field.name) not in OWN_DEFAULTS:
            assert getattr(settings(), field.name) == parameters[field.name].default
    assert type(settings().construct(SHAPE)) is settings.builds


def test_all_heads_and_the_losses_with_keywords_are_generated():
    assert len(GENERATED) == 16


@pytest.mark.parametrize("settings", FIELDS, ids=lambda kind: kind.__name__)
def test_fields_have_the_order_in_which_recipes_store_them(settings):
    assert [field.name for field in fields(settings)] == FIELDS[settings]


def test_values_are_passed_to_the_loss_and_the_task_supplies_the_rest():
    head = head_settings.ArcFace(scale=7.0, margin=0.25, warmup=3).build(SHAPE)
    assert (head.scale, head.margin, head.warmup, head.easy) == (7.0, 0.25, 3, False)
    assert (head.num_classes, head.feature_dim) == (5, 3)
    assert criteria.Anchor(warmup=1.5).build(SHAPE).warmup == 15  # epochs to steps
    assert criteria.Focal().build(SHAPE).reduction == "sum"


@pytest.mark.parametrize(
    ("settings", "values", "expected"),
    [
        (head_settings.ArcFace, {"margin": 4.0}, "margin is 4.0"),
        (head_settings.CosFace, {"scale": float("nan")}, "scale is nan"),
        (head_settings.LGM, {"double_every": 0}, "double_every 0"),
        (criteria.Focal, {"form": "sofmax"}, "did you mean 'softmax'"),
        (auxiliaries.Center, {"alpha": -1.0}, "alpha is -1.0"),
    ],
)
def test_a_value_that_the_library_refuses_is_refused_at_once(settings, values, expected):
    with pytest.raises(OptionError, match=expected):
        settings(**values)


def test_settings_are_frozen_hashable_values_and_draw_no_random_numbers():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, same = head_settings.ArcFace(scale=2.0), head_settings.ArcFace(scale=2.0)
    assert torch.equal(torch.get_rng_state(), before)
    assert len({one, same, head_settings.ArcFace()}) == 2
    with pytest.raises(FrozenInstanceError):
        one.scale = 3.0
    with pytest.raises(TypeError, match="scales"):
        head_settings.ArcFace(scales=2.0)


def test_a_keyword_that_is_added_to_the_library_becomes_a_setting():
    class Loss(torch.nn.Module):
        def __init__(self, num_classes: int, *, sharpness: float = 2.0, reduction: str = "mean") -> None:
            super().__init__()
            self.sharpness, self.num_classes, self.reduction = sharpness, num_classes, reduction

    @from_signature(Loss)
    class Settings(SignatureSettings):
        weight: float = 0.5

    built = Settings(sharpness=3.0).construct(SHAPE, reduction="sum")
    assert repr(Settings()).endswith("Settings(weight=0.5, sharpness=2.0)")
    assert (built.sharpness, built.num_classes, built.reduction) == (3.0, 5, "sum")
