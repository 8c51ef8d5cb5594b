"""Focal, class-balanced and anchor losses against formulas in float64; and the numbers that break the usual code."""

import math

import pytest
import torch
from torch.nn import functional as F

from _said import says
from opl import errors
from opl.losses.anchor import AnchorLoss, anchor
from opl.losses.class_balanced import ClassBalancedFocalLoss, class_balanced_weights
from opl.losses.focal import FocalLoss, focal

GAMMAS = (0.5, 1.0, 2.0, 5.0)
FORMS = ("softmax", "sigmoid")


def batch(seed: int = 0, rows: int = 20, classes: int = 6):
    chance = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(rows, classes, dtype=torch.float64, generator=chance)
    return logits.requires_grad_(), torch.randint(classes, (rows,), generator=chance)


def assert_same(got, expected, at, rtol=1e-10):
    """The same values, and the same gradient of a sum that tells samples apart."""
    torch.testing.assert_close(got, expected, rtol=rtol, atol=1e-14)
    weights = torch.arange(1, got.numel() + 1, dtype=got.dtype).view(got.shape)
    gradients = [torch.autograd.grad((weights * values).sum(), at, retain_graph=True)[0] for values in (got, expected)]
    torch.testing.assert_close(*gradients, rtol=rtol, atol=1e-12)


# Focal loss


def focal_by_definition(logits, labels, gamma, form):
    """(B,) losses, a sample and a class at a time."""
    values = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        if form == "softmax":
            right = [row.exp()[label] / row.exp().sum()]
        else:
            p = 1 / (1 + (-row).exp())
            right = [p[j] if j == label else 1 - p[j] for j in range(len(row))]
        values.append(sum(-((1 - q) ** gamma) * q.log() for q in right))
    return torch.stack(values)


@pytest.mark.parametrize("seed", range(5))
def test_focal_with_gamma_0_is_cross_entropy(seed):
    logits, labels = batch(seed)
    expected = F.cross_entropy(logits, labels, reduction="none")
    assert_same(focal(logits, labels, gamma=0.0, reduction="none"), expected, logits)
    one_hot = F.one_hot(labels, 6).double()
    expected = F.binary_cross_entropy_with_logits(logits, one_hot, reduction="none").sum(1)
    assert_same(focal(logits, labels, gamma=0.0, form="sigmoid", reduction="none"), expected, logits)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_focal_equals_its_definition(gamma, form, seed):
    logits, labels = batch(seed)
    expected = focal_by_definition(logits, labels, gamma, form)
    assert_same(focal(logits, labels, gamma=gamma, form=form, reduction="none"), expected, logits)
    assert_same(FocalLoss(gamma, form)(logits, labels), expected.mean(), logits)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_focal_equals_kornia(gamma):
    losses = pytest.importorskip("kornia.losses")
    logits, labels = batch()
    # A term a class, of which all but the label's are 0; its own mean would divide by the classes too.
    theirs = losses.focal_loss(logits, labels, alpha=None, gamma=gamma, reduction="none").sum(1)
    assert_same(focal(logits, labels, gamma=gamma, reduction="none"), theirs, logits, rtol=1e-6)


def test_focal_by_hand():
    logits, labels = torch.tensor([[0.0, math.log(3)]]), torch.tensor([1])  # p = 3/4
    assert focal(logits, labels).item() == pytest.approx(math.log(4 / 3) / 16)
    assert focal(logits, 1 - labels).item() == pytest.approx(9 * math.log(4) / 16)
    by_class = math.log(4 / 3) / 16 + math.log(2) / 4  # and a half, for the sigmoid of the other
    assert focal(logits, labels, form="sigmoid").item() == pytest.approx(by_class)
    assert focal(logits, labels, class_weights=torch.tensor([1.0, 5.0])).item() == pytest.approx(
        5 * math.log(4 / 3) / 16
    )


def naive_focal(logits, labels, gamma):
    p = logits.softmax(1)[torch.arange(len(labels)), labels]
    return (-((1 - p) ** gamma) * p.log()).mean()


@pytest.mark.parametrize("lead", [20.0, 40.0])
def test_focal_is_right_where_a_sample_is_answered_perfectly_and_the_usual_code_is_nan(lead):
    logits, labels = torch.tensor([[lead, 0.0]], requires_grad=True), torch.tensor([0])
    assert torch.autograd.grad(naive_focal(logits, labels, 0.5), logits)[0].isnan().any()
    rest = 1 / (1 + math.exp(lead))  # 1 - p
    entropy = math.log1p(math.exp(-lead))
    slope = -(rest**0.5) * (0.5 * (1 - rest) * entropy + rest)
    for form, others in (("softmax", 0.0), ("sigmoid", math.log(2) / math.sqrt(2))):
        got = focal(logits, labels, gamma=0.5, form=form)
        assert got.item() == pytest.approx(rest**0.5 * entropy + others, rel=1e-5, abs=0)
        gradient = torch.autograd.grad(got, logits)[0][0]
        assert gradient.isfinite().all()
        assert gradient[0].item() == pytest.approx(slope, rel=1e-5, abs=0)


@pytest.mark.parametrize("form", FORMS)
def test_one_class_is_a_class_too(form):
    logits = torch.tensor([[-1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    got = focal(logits, torch.tensor([0, 0]), form=form, reduction="none")
    assert_same(got, focal_by_definition(logits, torch.tensor([0, 0]), 2.0, form), logits)


# Class-balanced focal loss


def test_class_balanced_weights_by_hand():
    # 1/(1 - 1/2), 1/(1 - 1/4), 1/(1 - 1/8) are as 21 : 14 : 12, and 21 + 14 + 12 = 47
    assert class_balanced_weights([1, 2, 3], beta=0.5).tolist() == pytest.approx([63 / 47, 42 / 47, 36 / 47])
    assert class_balanced_weights([7, 2, 30], beta=0.0).tolist() == [1, 1, 1]
    assert class_balanced_weights([1, 3], beta=1 - 1e-9).tolist() == pytest.approx([1.5, 0.5])
    assert class_balanced_weights([1, 0, 1], beta=0.9).tolist() == [1.5, 0, 1.5]
    assert class_balanced_weights(torch.tensor([1, 2]), beta=0.5).tolist() == pytest.approx([6 / 5, 4 / 5])


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.99, 0.999, 0.9999, 1 - 1e-12])
@pytest.mark.parametrize("count", [1, 450, 500, 10**7])
@pytest.mark.parametrize("classes", [1, 3, 7, 100])
def test_equal_counts_weigh_exactly_1(beta, count, classes):
    assert class_balanced_weights([count] * classes, beta=beta).tolist() == [1] * classes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("gamma", [0.0, *GAMMAS])
def test_on_balanced_data_it_is_focal_loss_bit_for_bit(form, gamma):
    logits, labels = batch()
    logits = logits.detach().float()
    balanced = ClassBalancedFocalLoss([500] * 6, gamma=gamma, form=form)
    assert torch.equal(balanced(logits, labels), focal(logits, labels, gamma=gamma, form=form))


@pytest.mark.parametrize("form", FORMS)
def test_on_unbalanced_data_each_sample_counts_by_its_class(form):
    logits, labels = batch(classes=3)
    weights = torch.tensor([63 / 47, 42 / 47, 36 / 47], dtype=torch.float64)
    expected = (focal_by_definition(logits, labels, 1.0, form) * weights[labels]).sum() / 20
    assert_same(ClassBalancedFocalLoss([1, 2, 3], beta=0.5, form=form)(logits, labels), expected, logits, rtol=1e-6)


def released_sigmoid_focal(z, one_hot, gamma):
    modulator = torch.exp(-gamma * one_hot * z - gamma * torch.log(1 + torch.exp(-z)))
    return (modulator * F.binary_cross_entropy_with_logits(z, one_hot, reduction="none")).sum()


@pytest.mark.parametrize("label", [0, 1])
def test_far_negative_logits_are_right_and_the_released_modulator_is_not(label):
    logits, labels = torch.tensor([[-100.0, 0.0]], requires_grad=True), torch.tensor([label])
    released = released_sigmoid_focal(logits, F.one_hot(labels, 2).float(), gamma=1.0)
    assert torch.autograd.grad(released, logits)[0].isnan().any()
    # The right answer that is missed costs 100, the wrong one that is not given nothing; the other is log(2) / 2.
    expected = [100, 0][label] + math.log(2) / 2
    assert (abs(released.item() - expected) > 99) == (label == 0)
    got = focal(logits, labels, gamma=1.0, form="sigmoid")
    assert got.item() == pytest.approx(expected)
    wide = logits.detach().double().requires_grad_()
    exact = focal_by_definition(wide, labels, 1.0, "sigmoid")
    torch.testing.assert_close(got.double(), exact[0], rtol=1e-6, atol=0)
    gradients = [torch.autograd.grad(value.sum(), at)[0].double() for value, at in ((got, logits), (exact, wide))]
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-30)


# Anchor loss


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
        assert_same(AnchorLoss(gamma, delta, variant)(logits, labels), expected.mean(), logits)


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


def test_the_warm_up_has_the_gradient_of_cross_entropy_and_nothing_else():
    logits, labels = batch()
    assert_same(
        AnchorLoss(warmup=1, reduction="none")(logits, labels),
        F.cross_entropy(logits, labels, reduction="none"),
        logits,
    )


# What they share

LOSSES = {
    "focal": lambda **options: FocalLoss(**options),
    "sigmoid focal": lambda **options: FocalLoss(form="sigmoid", **options),
    "class-balanced focal": lambda **options: ClassBalancedFocalLoss([1, 2, 3, 4, 5, 6], **options),
    "anchor": lambda **options: AnchorLoss(**options),
    "pos anchor": lambda **options: AnchorLoss(variant="pos", **options),
    "warming anchor": lambda **options: AnchorLoss(warmup=1, **options),
}


@pytest.mark.parametrize("name", LOSSES)
def test_mean_and_sum_are_those_of_the_samples(name):
    logits, labels = batch()
    each = LOSSES[name](reduction="none")(logits, labels)
    alone = [LOSSES[name]()(logits[i : i + 1], labels[i : i + 1]).item() for i in range(20)]
    assert each.tolist() == pytest.approx(alone)
    assert LOSSES[name]()(logits, labels).item() == pytest.approx(sum(alone) / 20)
    assert LOSSES[name](reduction="sum")(logits, labels).item() == pytest.approx(sum(alone))


@pytest.mark.parametrize("name", LOSSES)
def test_a_batch_without_samples_costs_nothing(name):
    logits, labels = torch.zeros(0, 6, requires_grad=True), torch.zeros(0, dtype=torch.long)
    for reduction in ("mean", "sum"):
        loss = LOSSES[name](reduction=reduction)(logits, labels)
        loss.backward()
        assert loss.item() == 0
    assert LOSSES[name](reduction="none")(logits, labels).shape == (0,)


@pytest.mark.parametrize("name", LOSSES)
def test_columns_of_labels_and_small_integers_are_the_same_batch(name):
    logits, labels = batch()
    plain = LOSSES[name]()(logits, labels)
    assert torch.equal(LOSSES[name]()(logits, labels[:, None]), plain)
    assert torch.equal(LOSSES[name]()(logits, labels.int()), plain)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_answered_in_fp32(name, kind):
    logits, labels = batch()
    logits = logits.detach().to(kind)
    got = LOSSES[name]()(logits, labels)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), LOSSES[name]()(logits.double(), labels), rtol=1e-5, atol=1e-6)


Z, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
NAN = float("nan")


def build(kind, *arguments, **options):
    return lambda: kind(*arguments, **options)


def call(loss, *arguments, **options):
    return lambda: loss(*arguments, **options)


BALANCED = ClassBalancedFocalLoss([1, 2, 3])
BAD = {
    "a negative gamma": (build(FocalLoss, gamma=-1.0), errors.OptionError, ["gamma is -1.0", "from 0"]),
    "a gamma that is no number": (build(FocalLoss, gamma=NAN), errors.OptionError, ["gamma is nan", "finite"]),
    "an unknown form": (build(FocalLoss, form="softmx"), errors.OptionError, ["'softmx'", "did you mean 'softmax'"]),
    "an unknown reduction": (build(FocalLoss, reduction="avg"), errors.OptionError, ["'avg'", "'mean'"]),
    "an unknown reduction in a call": (call(focal, Z, Y, reduction="avg"), errors.OptionError, ["'avg'", "'mean'"]),
    "a gamma without end": (call(focal, Z, Y, gamma=math.inf), errors.OptionError, ["gamma is inf", "finite"]),
    "a balanced gamma below 0": (build(ClassBalancedFocalLoss, [1, 2], gamma=-1.0), errors.OptionError, ["gamma"]),
    "a balanced form": (build(ClassBalancedFocalLoss, [1, 2], form="sigmoids"), errors.OptionError, ["'sigmoid'"]),
    "a balanced reduction": (build(ClassBalancedFocalLoss, [1, 2], reduction="avg"), errors.OptionError, ["'avg'"]),
    "a beta of 1": (build(ClassBalancedFocalLoss, [1, 2], beta=1.0), errors.OptionError, ["beta is 1.0", "below 1"]),
    "a negative beta": (call(class_balanced_weights, [1], beta=-0.1), errors.OptionError, ["-0.1", "from 0"]),
    "no counts": (call(class_balanced_weights, []), errors.OptionError, ["counts", "each class"]),
    "counts of nothing": (call(class_balanced_weights, [0, 0]), errors.OptionError, ["at least one above 0"]),
    "negative counts": (call(class_balanced_weights, [3, -1]), errors.OptionError, ["counts"]),
    "a table of counts": (call(class_balanced_weights, torch.ones(2, 2)), errors.OptionError, ["(C,)"]),
    "counts of other classes": (call(BALANCED, Z[:, :2], Y), errors.OptionError, ["2 logits", "3 classes"]),
    "one row of logits": (call(BALANCED, Z[0], Y), errors.FeatureError, ["logits", "(3,)"]),
    "logits that are no tensor": (call(BALANCED, [[1.0]], Y), errors.FeatureError, ["list", "torch.Tensor"]),
    "an anchor's negative gamma": (build(AnchorLoss, gamma=-0.5), errors.OptionError, ["gamma is -0.5"]),
    "a slack above 1": (build(AnchorLoss, delta=1.5), errors.OptionError, ["delta is 1.5", "probability"]),
    "a slack that is no number": (call(anchor, Z, Y, delta=NAN), errors.OptionError, ["delta is nan"]),
    "an unknown variant": (build(AnchorLoss, variant="negative"), errors.OptionError, ["did you mean 'neg'"]),
    "a warm-up before the start": (build(AnchorLoss, warmup=-1), errors.OptionError, ["warmup is -1", "from 0"]),
    "an anchor's reduction": (build(AnchorLoss, reduction="avg"), errors.OptionError, ["'avg'"]),
    "a class too many": (call(focal, Z, Y + 1), errors.LabelError, ["label 3", "(0 to 2)"]),
    "a negative label": (call(anchor, Z, Y - 1), errors.LabelError, ["label -1", "(0 to 2)"]),
    "a label to ignore": (call(focal, Z, torch.tensor([0, 1, -100, 2])), errors.LabelError, ["label -100"]),
    "soft labels": (call(anchor, Z, Z.softmax(1)), errors.LabelError, ["soft labels", "argmax(1)"]),
    "too few labels": (call(focal, Z, Y[:2]), errors.LabelError, ["2 labels for 4"]),
    "integer logits": (call(focal, Z.long(), Y), errors.FeatureError, ["logits are torch.int64", "logits.float()"]),
    "logits of a map": (call(anchor, torch.randn(4, 3, 8, 8), Y), errors.FeatureError, ["(4, 3, 8, 8)", "logits"]),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_gets_its_sentence(case):
    says(*BAD[case])


def test_a_negative_label_is_not_cured_by_fewer_classes():
    with pytest.raises(errors.LabelError) as caught:
        focal(Z, torch.tensor([0, -1, 0, 0]))
    assert "num_classes=1" not in str(caught.value)
