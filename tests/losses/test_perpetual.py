"""Perpetual OPL vs loops over samples and directions."""

import pytest
import torch

from _loss_features import CLASSES, DIM, batch, cosine, gradient_of
from _said import refuses
from opl import errors
from opl.losses.perpetual import PerpetualProjectionLoss


def perpetual_by_loops(features, labels, centers, version):
    rows, classes = len(features), len(centers)
    same = [cosine(features[i], centers[labels[i]]) for i in range(rows)]
    if version == 1:
        other = [cosine(features[i], centers[j]) for i in range(rows) for j in range(classes) if j != labels[i]]
        return 0.5 * (1 - sum(same) / rows) + abs(sum(other)) / max(1, len(other))
    apart = [abs(cosine(centers[j], centers[k]) - float(j == k)) for j in range(classes) for k in range(classes)]
    return 0.5 * sum(abs(1 - value) for value in same) / rows + sum(apart) / classes**2


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("classes", [1, 2, CLASSES])
def test_perpetual_equals_loops_over_samples_and_directions(version, classes):
    features, labels = batch(classes=classes)
    loss = PerpetualProjectionLoss(DIM, num_classes=classes, version=version).double()
    value, expected = loss(features, labels), perpetual_by_loops(features, labels, loss.centers, version)
    torch.testing.assert_close(value, expected)
    (got,), (wanted,) = (torch.autograd.grad(x, loss.centers) for x in (value, expected))
    torch.testing.assert_close(got, wanted)
    by_features = gradient_of(lambda x: perpetual_by_loops(x, labels, loss.centers, version), features)
    torch.testing.assert_close(gradient_of(lambda x: loss(x, labels), features), by_features)


def test_perpetual_directions_have_a_separate_learning_rate():
    loss = PerpetualProjectionLoss(DIM, num_classes=CLASSES)
    assert set(loss.param_options) == {name for name, _ in loss.named_parameters()}
    assert 0.1 * loss.param_options["centers"]["lr_mult"] == pytest.approx(0.5)
    assert loss.param_options["centers"]["weight_decay"] == 0


def test_an_empty_batch_gives_the_directions_no_gradient():
    for version in (1, 2):
        loss = PerpetualProjectionLoss(DIM, num_classes=CLASSES, version=version)
        loss(torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)).backward()
        assert not loss.centers.grad.any()


TABLE = {
    "an unknown version": (
        lambda: PerpetualProjectionLoss(DIM, num_classes=3, version=3),
        errors.OptionError,
        ["version is 3", "1 or 2"],
    ),
    "directions of no number": (
        lambda: PerpetualProjectionLoss(0, num_classes=3),
        errors.OptionError,
        ["feature_dim is 0"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)
