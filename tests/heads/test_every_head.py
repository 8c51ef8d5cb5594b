"""What the heads share: their margins, their answer at test time, half precision and kinds of labels."""

import math

import pytest
import torch
from _head_vectors import assert_trains_as, batch
from torch.nn import functional as F

from opl.heads.a_softmax import ASoftmaxHead
from opl.heads.arcface import ArcFaceHead
from opl.heads.cosface import CosFaceHead
from opl.heads.l_softmax import LSoftmaxHead
from opl.heads.lgm import LGMHead
from opl.heads.linear import LinearHead
from opl.heads.rbf import RBFHead

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of pytorch-metric-learning


def test_the_heads_ask_their_own_formula_with_their_own_settings():
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
    "a-softmax": lambda: ASoftmaxHead(5, num_classes=9, base=1e-3, floor=0.0),
    "l-softmax": lambda: LSoftmaxHead(5, num_classes=9, base=1e-3),
    "arcface": lambda: ArcFaceHead(5, num_classes=9),
    "easy arcface": lambda: ArcFaceHead(5, num_classes=9, easy=True, margin=0.1),
    "cosface": lambda: CosFaceHead(5, num_classes=9),
    "lgm": lambda: LGMHead(5, num_classes=9),
    "lgm with variances": lambda: LGMHead(5, num_classes=9, learn_variances=True),
    "linear": lambda: LinearHead(5, num_classes=9),
    "rbf": lambda: RBFHead(5, num_classes=9),
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
def test_at_test_time_the_nearest_class_wins(name):
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


@pytest.mark.parametrize("name", HEADS)
def test_a_half_precision_call_leaves_the_weights_alone(name):
    head, features, labels = HEADS[name](), torch.randn(30, 5).half(), torch.randint(9, (30,))
    before = {key: value.clone() for key, value in head.state_dict().items() if key != "step"}
    got = head(features, labels)
    assert got.dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        head(features.float(), labels)
    for key, value in before.items():
        assert torch.equal(head.state_dict()[key], value)
        assert head.state_dict()[key].dtype == torch.float32
    if name not in ("a-softmax", "l-softmax", "lgm", "lgm with variances"):  # their margin has moved on
        assert torch.equal(head(features.float(), labels), got)


def test_a_half_precision_call_of_pytorch_metric_learning_does_not():
    losses = pytest.importorskip("pytorch_metric_learning.losses")
    loss = losses.CosFaceLoss(9, 5)
    loss(torch.randn(30, 5).half(), torch.randint(9, (30,)))
    assert loss.W.dtype == torch.float16


@pytest.mark.parametrize("name", HEADS)
def test_columns_of_labels_and_pooled_maps_are_the_same_batch(name):
    features, labels = torch.randn(30, 5), torch.randint(9, (30,))
    torch.manual_seed(1)
    plain = HEADS[name]()(features, labels)
    torch.manual_seed(1)
    assert torch.equal(HEADS[name]()(features[:, :, None, None], labels[:, None].int()), plain)
