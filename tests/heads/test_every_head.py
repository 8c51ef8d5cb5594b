"""What the heads share: their margins, the class they predict, and rows to ignore."""

import math

import pytest
import torch
from _head_vectors import assert_trains_as, batch
from torch.nn import functional as F

from _said import says
from opl.errors import OptionError
from opl.heads import ArcFaceHead, ASoftmaxHead, CosFaceHead, LGMHead, LinearHead, LSoftmaxHead, RBFHead

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


def test_the_heads_compute_their_formula_with_their_settings():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    features, _, labels = batch()
    for head, oracle in (
        (CosFaceHead(3, num_classes=7, scale=20.0, margin=0.2), losses.CosFaceLoss(7, 3, margin=0.2, scale=20)),
        (
            ArcFaceHead(3, num_classes=7, scale=20.0, margin=0.2),
            losses.ArcFaceLoss(7, 3, margin=math.degrees(0.2), scale=20),
        ),
        (ASoftmaxHead(3, num_classes=7, margin=3, base=1e-300, floor=0.0), losses.SphereFaceLoss(7, 3, margin=3)),
    ):
        head = head.double()
        assert_trains_as(oracle, head(features, labels), features, head.weight, labels)


@pytest.mark.parametrize("kind", [CosFaceHead, ArcFaceHead])
def test_the_margin_of_the_cosine_heads_grows_over_the_warm_up(kind):
    head = kind(2, num_classes=2, scale=10.0, margin=0.4, warmup=4)
    head.weight.data = torch.eye(2)
    features, labels = torch.tensor([[0.0, 2.0]]), torch.tensor([0])  # a right angle
    margins = [0, 0.1, 0.2, 0.3, 0.4, 0.4]
    expected = [-10 * (math.sin(margin) if kind is ArcFaceHead else margin) for margin in margins]
    got = []
    for _ in margins:
        got.append(head(features, labels)[0, 0].item())
        assert head.eval()(features, labels)[0, 0].item() == 0  # no margin, and not counted
        head.train()(features)
    assert got == pytest.approx(expected, abs=1e-6)
    head.set_step(1)
    assert head(features, labels)[0].tolist() == pytest.approx([expected[1], 10])
    assert head.step == 2


HEADS = {
    "a-softmax": lambda **options: ASoftmaxHead(5, num_classes=9, base=1e-3, floor=0.0, **options),
    "l-softmax": lambda **options: LSoftmaxHead(5, num_classes=9, base=1e-3, **options),
    "arcface": lambda **options: ArcFaceHead(5, num_classes=9, **options),
    "easy arcface": lambda **options: ArcFaceHead(5, num_classes=9, easy=True, margin=0.1, **options),
    "cosface": lambda **options: CosFaceHead(5, num_classes=9, **options),
    "lgm": lambda **options: LGMHead(5, num_classes=9, **options),
    "lgm with variances": lambda **options: LGMHead(5, num_classes=9, learn_variances=True, **options),
    "linear": lambda **options: LinearHead(5, num_classes=9, **options),
    "rbf": lambda **options: RBFHead(5, num_classes=9, **options),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_margin_needs_labels_and_training_mode(name):
    head, features, labels = HEADS[name](), torch.randn(30, 5), torch.randint(9, (30,))
    plain = head(features)
    assert plain.shape == (30, 9)
    assert torch.equal(head.eval()(features, labels), plain)
    assert torch.equal(head(features), plain)
    moved = head.train()(features, labels)
    target = F.one_hot(labels, 9).bool()
    assert torch.equal(moved[~target], plain[~target])
    if name in ("linear", "rbf"):
        assert torch.equal(moved, plain)
    elif name == "easy arcface":
        assert torch.equal(moved[target] != plain[target], plain[target] > 0)
    else:
        assert (moved[target] < plain[target]).all()


@pytest.mark.parametrize("name", HEADS)
def test_the_nearest_class_is_predicted(name):
    head, features = HEADS[name]().eval(), torch.randn(200, 5)
    if name == "linear":
        wins = torch.stack([head.weight @ row + head.bias for row in features]).argmax(1)
    elif name == "l-softmax":
        wins = torch.stack([head.weight @ row for row in features]).argmax(1)
    elif name in ("lgm", "lgm with variances", "rbf"):
        wins = torch.cdist(features, head.means if "lgm" in name else head.prototypes).argmin(1)
    else:
        wins = F.cosine_similarity(features[:, None], head.weight, dim=2).argmax(1)
    assert torch.equal(head(features).argmax(1), wins)


def batch_to_ignore(ignore_index):
    features, labels = torch.randn(12, 5, dtype=torch.float64, requires_grad=True), torch.arange(12) % 7
    ignored = torch.arange(12) % 4 == 1
    return features, labels.masked_fill(ignored, ignore_index), ignored


@pytest.mark.parametrize("ignore_index", [-100, 255])
@pytest.mark.parametrize("name", HEADS)
def test_ignored_rows_have_logits_without_a_margin_and_take_no_part_in_the_loss(name, ignore_index):
    head = HEADS[name](ignore_index=ignore_index).double()
    features, labels, ignored = batch_to_ignore(ignore_index)
    logits = head(features, labels)
    torch.testing.assert_close(logits[ignored], head(features)[ignored])
    if name not in ("linear", "rbf"):
        head.set_step(0)  # the same margin again
    got = F.cross_entropy(logits, labels, ignore_index=ignore_index)
    expected = F.cross_entropy(head(features[~ignored], labels[~ignored]), labels[~ignored])
    torch.testing.assert_close(got, expected)
    inputs = [features, *head.parameters()]
    torch.testing.assert_close(*(torch.autograd.grad(loss, inputs) for loss in (got, expected)))
    says(lambda: HEADS[name](ignore_index="x"), OptionError, ["ignore_index is 'x'"])


@pytest.mark.parametrize("name", ["lgm", "lgm with variances"])
def test_ignored_rows_pay_no_penalty(name):
    head = HEADS[name]().double()
    features, labels, ignored = batch_to_ignore(-100)
    broken = features.detach().clone()
    broken[ignored] = torch.nan
    expected = head.penalty(features[~ignored], labels[~ignored])
    for x in (features, broken):
        torch.testing.assert_close(head.penalty(x, labels), expected)
    nothing = head.penalty(features, torch.full((12,), -100))
    assert nothing.item() == 0
    assert not any(slope.any() for slope in torch.autograd.grad(nothing, [*head.parameters()]))
