"""HNC on class activation maps vs loops over samples, classes and positions."""

import math

import pytest
import torch
from torch import nn

from _loss_features import CLASSES, DIM, MAPS, X, Y, gradient_of
from _said import refuses
from opl import errors
from opl.losses.negative_cam import NegativeCAMLoss, class_activation_maps, negative_cam


def hnc_by_loops(maps, labels, k, form):
    total, count = 0.0, 0
    for i, image in enumerate(maps.tolist()):
        wrong = [c for c in range(len(image)) if c != labels[i]]
        chosen = sorted(wrong, key=lambda c: -sum(sum(row) for row in image[c]))[:k]
        for c in chosen:
            positions = [value for row in image[c] for value in row]
            partition = math.log(sum(math.exp(value) for value in positions))
            for value in positions:
                total += value**2 if form == "mse" else (partition - value) / len(positions)
                count += 1
    return total / (count if form == "mse" else len(maps))


@pytest.mark.parametrize("form", ["kd", "mse"])
@pytest.mark.parametrize("k", [1, 3, CLASSES - 1, CLASSES, 100])
def test_hnc_equals_loops_over_samples_classes_and_positions(form, k):
    maps, labels = torch.randn(4, CLASSES, 2, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    expected = torch.tensor(hnc_by_loops(maps, labels, k, form), dtype=torch.float64)
    torch.testing.assert_close(negative_cam(maps, labels, k=k, form=form), expected)
    torch.testing.assert_close(NegativeCAMLoss(k=k, form=form)(maps, labels), expected)


@pytest.mark.parametrize("form", ["kd", "mse"])
@pytest.mark.parametrize("k", [2, CLASSES, 100])
def test_hnc_never_touches_the_map_of_the_label(form, k):
    maps, labels = torch.randn(4, CLASSES, 2, 3, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    maps[torch.arange(4), labels] += 1000  # by far the strongest
    gradient = gradient_of(lambda x: negative_cam(x, labels, k=k, form=form), maps)
    assert not gradient[torch.arange(4), labels].any()
    assert gradient.flatten(2).any(2).sum(1).tolist() == [min(k, CLASSES - 1)] * 4


def test_hnc_kd_sees_the_shape_of_a_map_and_not_its_height():
    maps, labels = torch.randn(4, CLASSES, 8, 8, dtype=torch.float64), torch.tensor([0, 4, 2, 2])
    raised = maps + torch.randn(4, 1, 1, 1, dtype=torch.float64)
    torch.testing.assert_close(negative_cam(raised, labels, k=3), negative_cam(maps, labels, k=3))
    assert not torch.allclose(negative_cam(raised, labels, form="mse"), negative_cam(maps, labels, form="mse"))
    flat = maps.mean((2, 3), keepdim=True).expand_as(maps)
    assert negative_cam(flat, labels, k=3).item() == pytest.approx(3 * math.log(64))
    assert negative_cam(maps, labels, k=3).item() > 3 * math.log(64)


def test_the_mean_of_a_class_activation_map_is_the_logit_of_the_pooled_features():
    classifier = nn.Linear(DIM, CLASSES).double()
    feature_maps = torch.randn(3, DIM, 4, 5, dtype=torch.float64)
    maps = class_activation_maps(feature_maps, classifier.weight, classifier.bias)
    torch.testing.assert_close(maps.mean((2, 3)), classifier(feature_maps.mean((2, 3))))
    without = class_activation_maps(feature_maps, classifier.weight)
    torch.testing.assert_close(without + classifier.bias[:, None, None], maps)


def test_class_activation_maps_under_autocast_are_single_precision():
    x, weight = torch.randn(2, DIM, 3, 3), torch.randn(CLASSES, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(class_activation_maps(x, weight), class_activation_maps(x.float(), weight))
        assert class_activation_maps(x.bfloat16(), weight.bfloat16()).dtype == torch.float32


TABLE = {
    "no class to choose": (lambda: NegativeCAMLoss(k=0), errors.OptionError, ["k is 0", "at least 1"]),
    "k no integer": (lambda: negative_cam(MAPS, Y, k=2.5), errors.OptionError, ["k is 2.5", "integer"]),
    "an unknown form": (lambda: NegativeCAMLoss(form="mes"), errors.OptionError, ["'mes'", "did you mean 'mse'"]),
    "one class": (lambda: negative_cam(MAPS[:, :1], Y), errors.OptionError, ["one class", "at least 2"]),
    "pooled maps": (lambda: negative_cam(X, Y), errors.FeatureError, ["(4, 6)", "(B, C, H, W)"]),
    "maps without a position": (lambda: negative_cam(MAPS[..., :0], Y), errors.FeatureError, ["(4, 5, 2, 0)"]),
    "a weight of another width": (
        lambda: class_activation_maps(MAPS, torch.randn(3, 4)),
        errors.OptionError,
        ["(3, 4)", "(C, 5)"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)
