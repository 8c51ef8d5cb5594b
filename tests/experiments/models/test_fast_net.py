"""The fast network: whitened patches, convolutions that start as identities, and its shapes."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from opl.experiments import paper
from opl.experiments.data import Normalize
from opl.experiments.models import FastNet
from opl.experiments.models.fast_net import KERNELS, identity_convolution, whitening_filters
from opl.experiments.training.build import build_model, fit_first_layer


def images(count=20, size=9):
    torch.manual_seed(0)
    mixed = torch.randn(3, 3) @ torch.randn(count, 3, size * size)
    return F.avg_pool2d(mixed.view(count, 3, size, size), 2, 1) + 0.3  # neighboring pixels are alike


def test_whitened_patches_have_the_identity_as_covariance():
    x = images().double()
    filters = whitening_filters(x, epsilon=0.0)
    assert filters.shape == (24, 3, 2, 2)
    assert torch.equal(filters[:12], -filters[12:])
    out = F.conv2d(x, filters[:12]).transpose(0, 1).flatten(1)
    torch.testing.assert_close(torch.cov(out, correction=0), torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-8)


def test_the_stem_is_computed_from_images_and_only_its_bias_is_trained():
    net = FastNet(width=4).build(3, 5)
    before = net.state_dict()["stem.0.weight"].clone()
    net.fit_images(images())
    torch.testing.assert_close(net.state_dict()["stem.0.weight"], whitening_filters(images()))
    assert not torch.equal(before, net.state_dict()["stem.0.weight"])
    assert [name for name, _ in net.named_parameters() if name.startswith("stem")] == ["stem.0.bias"]


@pytest.mark.parametrize("normalize", ["data", "model", "none"])
def test_patches_are_whitened_as_the_stem_sees_them_wherever_images_are_normalized(normalize):
    base = replace(paper.recipe("cifar10-fast-half", "tiny"), normalize=normalize)
    train = base.data.load(0).train
    model = build_model(base)
    fit_first_layer(base, model, train)
    pixels = train.take(torch.arange(len(train)))[0].float() / 255
    seen = Normalize(base.data.mean, base.data.std)(pixels) if normalize != "none" else pixels
    torch.testing.assert_close(model.state_dict()["stem.0.weight"], whitening_filters(seen))


@pytest.mark.parametrize("kernel", sorted({kernel for kernels in KERNELS for kernel in kernels}))
@pytest.mark.parametrize(("before", "after"), [(3, 5), (5, 3)])
def test_a_convolution_starts_as_the_identity_on_its_first_channels(kernel, before, after):
    layer, x = identity_convolution(before, after, kernel), torch.randn(2, before, 6, 6)
    same = min(before, after)
    torch.testing.assert_close(layer(x)[:, :same], x[:, :same])
    assert layer(x).shape == (2, after, 6, 6)
    assert layer.bias is None


def test_half_the_width_has_half_the_features():
    assert FastNet().build(3, 100).feature_dim == 768
    assert FastNet(half=True).build(3, 100).feature_dim == 384
