"""Anchor loss vs its formula in float64, by hand, and over its warm-up."""

import math

import pytest
import torch
from _loss_logits import GAMMAS, Y, Z, assert_same, batch, build, call
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.losses.anchor import AnchorLoss, anchor


def anchor_by_definition(logits, labels, gamma, delta, variant):
    """(B,) losses, a class at a time; what has no gradient is detached where it is made."""
    values = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        p = 1 / (1 + (-row).exp())
        others = [j for j in range(len(row)) if j != label]
        if variant == "neg":
            star = max(p[label].item() - delta, 0.0)
            values.append(-p[label].log() - sum((1 + p[j] - star) ** gamma * (1 - p[j]).log() for j in others))
        else:
            strongest = min(max(p[j].item() for j in others) + delta, 1.0)
            values.append(
                -((1 - p[label] + strongest) ** gamma) * p[label].log() - sum((1 - p[j]).log() for j in others)
            )
    return torch.stack(values)


@pytest.mark.parametrize("variant", ["neg", "pos"])
@pytest.mark.parametrize("gamma", [0.0, *GAMMAS])
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_anchor_equals_a_double_loop_with_no_gradient_to_its_anchor(variant, gamma, delta):
    for seed in range(3):
        logits, labels = batch(seed)
        expected = anchor_by_definition(logits, labels, gamma, delta, variant)
        got = anchor(logits, labels, gamma=gamma, delta=delta, variant=variant, reduction="none")
        assert_same(got, expected, logits)
        assert_same(AnchorLoss(gamma=gamma, delta=delta, variant=variant)(logits, labels), expected.mean(), logits)


def test_anchor_by_hand():
    zeros = torch.zeros(1, 100)
    neg = math.log(2) * (1 + 99 * math.sqrt(1.05))
    pos = math.log(2) * (99 + math.sqrt(1.05))
    assert anchor(zeros, torch.tensor([3])).item() == pytest.approx(neg)  # about 71
    assert anchor(zeros, torch.tensor([3]), variant="pos").item() == pytest.approx(pos)
    alone = torch.tensor([[math.log(3)]])
    assert anchor(alone, torch.tensor([0])).item() == pytest.approx(math.log(4 / 3))


@pytest.mark.parametrize("variant", ["neg", "pos"])
def test_anchor_without_slack_is_finite_where_the_power_has_an_infinite_slope(variant):
    # p_y = 1 and all others 0: the weights of the wrong (neg) or right (pos) classes are 0^0.5
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    p = logits.sigmoid()
    usual = (1 + p[0, 1] - p[0, 0].detach()) ** 0.5 * F.softplus(logits[0, 1])
    assert torch.autograd.grad(usual, logits)[0].isnan().any()
    got = anchor(logits, torch.tensor([0]), delta=0.0, variant=variant)
    assert got.item() == 0
    assert torch.autograd.grad(got, logits)[0].isfinite().all()


def test_anchor_warms_up_with_cross_entropy_and_counts_training_calls_only():
    logits, labels = batch()
    entropy = F.cross_entropy(logits, labels).item()
    anchored = anchor_by_definition(logits, labels, 0.5, 0.05, "neg").mean().item()
    loss = AnchorLoss(warmup=3)
    assert loss(logits, labels).item() == pytest.approx(entropy)
    loss.eval()
    assert [loss(logits, labels).item() for _ in range(5)] == pytest.approx([entropy] * 5)
    loss.train()
    assert [loss(logits, labels).item() for _ in range(4)] == pytest.approx([entropy] * 2 + [anchored] * 2)
    assert loss.eval()(logits, labels).item() == pytest.approx(anchored)
    loss.train().set_step(2)
    assert [loss(logits, labels).item() for _ in range(2)] == pytest.approx([entropy, anchored])
    assert AnchorLoss()(logits, labels).item() == pytest.approx(anchored)


NAN = float("nan")
BAD = {
    "an anchor's negative gamma": (build(AnchorLoss, gamma=-0.5), errors.OptionError, ["gamma is -0.5"]),
    "a slack above 1": (build(AnchorLoss, delta=1.5), errors.OptionError, ["delta is 1.5", "probability"]),
    "a slack that is no number": (call(anchor, Z, Y, delta=NAN), errors.OptionError, ["delta is nan"]),
    "an unknown variant": (build(AnchorLoss, variant="negative"), errors.OptionError, ["did you mean 'neg'"]),
    "a warm-up before the start": (build(AnchorLoss, warmup=-1), errors.OptionError, ["warmup is -1", "at least 0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
