"""What the losses on logits share: reductions, empty batches, kinds of labels and half precision."""

import pytest
import torch
from _loss_logits import batch

from opl.losses.anchor import AnchorLoss
from opl.losses.class_balanced import ClassBalancedFocalLoss
from opl.losses.focal import FocalLoss
from opl.losses.logit_adjustment import LogitAdjustmentLoss

LOSSES = {
    "focal": lambda **options: FocalLoss(**options),
    "sigmoid focal": lambda **options: FocalLoss(form="sigmoid", **options),
    "class-balanced focal": lambda **options: ClassBalancedFocalLoss([1, 2, 3, 4, 5, 6], **options),
    "logit adjustment": lambda **options: LogitAdjustmentLoss([1, 2, 3, 4, 5, 6], **options),
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
