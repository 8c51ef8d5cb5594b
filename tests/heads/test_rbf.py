"""RBF vs a double loop, and its start on real images."""

import os
from pathlib import Path

import pytest
import torch
from _head_vectors import batch, build, half_squares
from torch.nn import functional as F

from _said import refuses
from opl import errors
from opl.heads.rbf import RBFHead, rbf


def test_rbf_equals_a_double_loop():
    features, prototypes, labels = batch()
    expected = 9 * (-2 * half_squares(features, prototypes) / 4).exp()
    got = rbf(features, prototypes, scale=9.0, gamma=4.0)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    gradients = [
        torch.autograd.grad(F.cross_entropy(logits, labels), (features, prototypes)) for logits in (got, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)
    assert RBFHead(64, num_classes=100).gamma == 128


@pytest.mark.slow
def test_rbf_has_a_gradient_on_real_images_where_the_released_width_has_none(tmp_path, monkeypatch):
    from opl.experiments.data import Batches, Cifar100
    from opl.experiments.models import CifarResNet

    root = Path(os.environ.get("OPL_DATA", ""), "cifar100")
    if not os.environ.get("OPL_DATA") or not root.is_dir():
        pytest.skip("OPL_DATA names no folder with 'cifar100'")
    monkeypatch.setenv("OPL_CACHE", str(tmp_path))
    data = Cifar100(root=str(root))
    rows = Batches(data.load(0).train, 32, seed=0, augment=(), mean=data.mean, std=data.std, device=torch.device("cpu"))
    images, labels = next(iter(rows.epoch(0)))[:2]
    model = CifarResNet(56).build(3, 100)
    features, logits = model(images)

    def pull(logits):
        loss = F.cross_entropy(logits, labels)
        return torch.autograd.grad(loss, model.conv1.weight, retain_graph=True)[0].norm().item()

    released, ours = RBFHead(64, num_classes=100, scale=4.0, gamma=2.0), RBFHead(64, num_classes=100)
    assert pull(4 * (-torch.cdist(features, released.prototypes).square() / 2).exp()) < 1e-12
    assert pull(released(features)) < 1e-12
    assert pull(ours(features)) > 1e-2 * pull(logits)


BAD = {
    "a scale without end": (build(RBFHead, scale=float("inf")), errors.OptionError, ["scale is inf", "finite"]),
    "no width": (build(RBFHead, gamma=0.0), errors.OptionError, ["gamma is 0.0"]),
}

test_invalid_input_is_refused_in_one_sentence = refuses(BAD)
