"""Center loss vs its formula, and its centers, which move by the rule of the paper."""

import pytest
import torch

from _gloo import together
from _loss_features import CENTERS, CLASSES, DIM, X, Y, batch
from _said import refuses
from opl import errors
from opl.losses.center import CenterLoss, center, update_centers


def test_center_is_half_the_squared_distance_to_the_center_of_the_class():
    features, labels = batch()
    centers = torch.randn(CLASSES, DIM, dtype=torch.float64)
    distances = [
        sum((features[i, d] - centers[labels[i], d]) ** 2 for d in range(DIM)) / 2 for i in range(len(features))
    ]
    torch.testing.assert_close(center(features, labels, centers), sum(distances) / len(distances))


def test_centers_move_by_the_rule_of_the_paper():
    centers = torch.tensor([[1.0, 0.0], [2.0, 2.0], [5.0, 5.0]])
    features = torch.tensor([[4.0, 3.0], [4.0, 6.0], [4.0, -2.0]])
    labels = torch.tensor([0, 0, 1])
    # class 0: two samples, (1 - 4 + 1 - 4, 0 - 3 + 0 - 6) / 3 = (-2, -3); class 1: one, (-2, 4) / 2; class 2: none
    expected = torch.tensor([[2.0, 1.5], [2.5, 1.0], [5.0, 5.0]])
    torch.testing.assert_close(update_centers(features, labels, centers, alpha=0.5), expected)
    torch.testing.assert_close(update_centers(features, labels, centers, alpha=0.0), centers)


def test_centers_move_in_training_after_the_loss_has_used_the_old_ones():
    loss = CenterLoss(DIM, num_classes=CLASSES)
    features, labels = batch()
    features = features.float().requires_grad_()
    before = loss.centers.clone()
    value = loss(features, labels)
    torch.testing.assert_close(value, center(features, labels, before))
    torch.testing.assert_close(loss.centers, update_centers(features.detach(), labels, before))
    assert not torch.equal(loss.centers, before)
    assert not loss.centers.requires_grad
    value.backward()  # the move has not spoilt it
    torch.testing.assert_close(features.grad, (features.detach() - before[labels]) / len(labels))


def test_centers_stay_in_evaluation_and_without_gradients():
    loss = CenterLoss(DIM, num_classes=CLASSES)
    features, labels = batch()
    before = loss.centers.clone()
    with torch.no_grad():
        loss(features, labels)
    loss.eval()(features, labels)
    assert torch.equal(loss.centers, before)


def test_neither_the_weight_nor_an_optimizer_nor_loss_scaling_touches_the_centers():
    features, labels = batch()
    ends = []
    for weight in (0.0, 1.0, 65536.0):
        torch.manual_seed(0)
        loss = CenterLoss(DIM, num_classes=CLASSES)
        assert not list(loss.parameters())
        (weight * loss(features.float().requires_grad_(), labels)).backward()
        ends.append(loss.centers)
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_the_distance_of_large_and_close_features_is_precise():
    """The expanded square, |f|^2 - 2 f c + |c|^2, is a difference of huge numbers: in fp32 little of it is left."""
    features = 1000 + 0.1 * torch.randn(32, 64)
    centers = 1000 + 0.1 * torch.randn(CLASSES, 64)
    labels = torch.arange(32) % CLASSES
    exact = center(features.double(), labels, centers.double())
    own = centers[labels]
    expanded = (features.square().sum(1) - 2 * (features * own).sum(1) + own.square().sum(1)) / 2
    assert expanded.min() < 0
    torch.testing.assert_close(center(features, labels, centers).double(), exact, rtol=1e-6, atol=0)


def follow_all_batches(rank: int) -> None:
    torch.manual_seed(rank)  # each process would start from centers of its own
    loss = CenterLoss(DIM, num_classes=CLASSES, global_batch=True)
    torch.manual_seed(0)
    alone = CenterLoss(DIM, num_classes=CLASSES)
    for step, sizes in enumerate(([3, 8], [7, 0], [1, 9])):
        torch.manual_seed(10 + step)
        features, labels = batch(sum(sizes))
        rows = slice(0, sizes[0]) if rank == 0 else slice(sizes[0], None)
        loss(features[rows].float(), labels[rows])
        alone(features.float(), labels)
        torch.testing.assert_close(loss.centers, alone.centers)


@pytest.mark.slow
def test_processes_with_uneven_batches_keep_the_centers_of_one_process(tmp_path):
    together(follow_all_batches, 2, tmp_path)


TABLE = {
    "alpha below 0": (
        lambda: CenterLoss(DIM, num_classes=3, alpha=-0.5),
        errors.OptionError,
        ["alpha is -0.5", "at least 0"],
    ),
    "alpha not finite": (
        lambda: update_centers(X, Y, CENTERS, alpha=float("nan")),
        errors.OptionError,
        ["alpha is nan", "finite"],
    ),
    "centers of no class": (
        lambda: CenterLoss(DIM, num_classes=0),
        errors.OptionError,
        ["num_classes is 0", "at least"],
    ),
    "features of another width": (lambda: center(X[:, :3], Y, CENTERS), errors.OptionError, ["3 numbers", "for 6"]),
    "a global batch alone": (
        lambda: CenterLoss(DIM, num_classes=CLASSES, global_batch=True)(X, Y),
        errors.DistributedError,
        ["init_process_group", "global_batch=False"],
    ),
}

test_invalid_input_is_refused_in_one_sentence = refuses(TABLE)
