"""`opl.verify` names the faults that were planted in copies of the loss."""

import pytest
import torch
from torch.nn import functional as F

import opl
from opl.errors import OptionError


def copied(**changes):
    """A copy of the released loss, as it is found in other repositories, with some lines replaced."""

    def loss(features, labels):
        gamma = changes.get("gamma", 0.5)
        features = changes.get("unit", lambda x: F.normalize(x, p=2, dim=1))(features)
        labels = labels[:, None]
        mask = changes.get("mask", lambda y: torch.eq(y, y.t()))(labels).bool()
        eye = torch.eye(len(mask), dtype=torch.bool)
        positive = changes.get("positive", lambda mask, eye: mask.masked_fill(eye, 0))(mask, eye).float()
        negative = (~mask).float()
        products = torch.matmul(features, features.t())
        pulled, pushed = positive * products, changes.get("pushed", torch.abs)(negative * products)
        pulled, pushed = changes.get("sums", lambda p, n: (p.sum(), n.sum()))(pulled, pushed)
        counts = changes.get("counts", lambda p, n: (p.sum() + 1e-6, n.sum() + 1e-6))(positive, negative)
        s, d = pulled / counts[0], changes.get("after", lambda d: d)(pushed / counts[1])
        return changes.get("combine", lambda s, d, gamma: (1.0 - s) + gamma * d)(s, d, gamma)

    return loss


PLANTED = {
    "signed d": {"pushed": lambda x: x},
    "absolute value of the sum": {"pushed": lambda x: x, "after": torch.abs},
    "squared cosines": {"pushed": torch.square},
    "negative cosines count as 0": {"pushed": torch.relu},
    "no normalization": {"unit": lambda x: x},
    "normalization over the batch": {"unit": lambda x: F.normalize(x, dim=0)},
    "a sample is its own positive": {"positive": lambda mask, eye: mask},
    "mask by matrix product": {"mask": lambda y: torch.matmul(y, y.t())},
    "sums over pairs": {"counts": lambda p, n: (1.0, 1.0)},
    "divided by the number of all pairs": {"counts": lambda p, n: (p.numel(), n.numel())},
    "s with the wrong sign": {"combine": lambda s, d, gamma: (1.0 + s) + gamma * d},
    "the 1 of 1 - s is missing": {"combine": lambda s, d, gamma: gamma * d - s},
    "gamma weighs 1 - s": {"combine": lambda s, d, gamma: gamma * (1.0 - s) + d},
    "gamma is 2, not 0.5": {"gamma": 2.0},
    "no gradient": {"unit": lambda x: F.normalize(x.detach(), dim=1)},
    "wrong gradient": {"after": lambda d: d.detach()},
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_named(fault):
    result = opl.verify(copied(**PLANTED[fault]))
    assert len(result.faults) == 1
    assert result.faults[0].startswith(fault)
    assert not result.equal
    assert fault in str(result)


def test_two_faults_at_once_are_both_named():
    result = opl.verify(copied(pushed=lambda x: x, positive=lambda mask, eye: mask))
    assert [name.split(":")[0] for name in result.faults] == ["signed d", "a sample is its own positive"]


def test_faithful_copies_and_every_form_of_ours_equal_the_definition():
    assert opl.verify(copied()).equal
    assert opl.verify(lambda features, labels: opl.orthogonal_projection(features, labels)).equal  # a tuple
    for form in opl.functional.FORMS:
        assert opl.verify(opl.OrthogonalProjectionLoss(form=form, gamma=2.0), form=form, gamma=2.0).equal


def test_another_loss_is_not_mistaken_for_a_faulty_copy():
    result = opl.verify(lambda features, labels: features.square().mean())
    assert result.faults[0].startswith("another formula")


def test_a_loss_per_sample_is_refused():
    with pytest.raises(OptionError, match="one element"):
        opl.verify(lambda features, labels: features.sum(1))
