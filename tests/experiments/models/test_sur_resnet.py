"""SUR's ResNet-18, its cosine classifier, and the parametric family: adapters on a frozen base."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from opl.errors import OptionError
from opl.experiments.methods import CrossEntropy, CrossEntropyOPL
from opl.experiments.models import SurResNet, load_weights
from opl.experiments.models.sur_resnet import CosineClassifier, is_adapter
from opl.experiments.training.build import inherit
from opl.experiments.types import Batch, TaskShape

pytestmark = pytest.mark.usefixtures("one_thread")


def family(width=8, classes=5):
    """A base that has seen some images, so that its statistics are no longer 0 and 1, and a member that inherits it."""
    base, member = SurResNet(width).build(3, 7), SurResNet(width, adapters=True).build(3, classes)
    for _ in range(3):
        base(torch.randn(8, 3, 32, 32) * 2 + 1)
    from opl.experiments import paper

    recipe = replace(paper.recipe("meta-pnf", "tiny"), name="member", after="base")
    inherit(member, base, recipe)
    return base, member


def batch(classes=5):
    return Batch(torch.randn(10, 3, 32, 32), torch.arange(10) % classes, torch.arange(10), 0.1)


def test_the_published_sizes_of_network_and_adapters():
    with torch.device("meta"):
        plain, adapted = SurResNet().build(3, 712), SurResNet(adapters=True).build(3, 712)
    by_hand = 64 * 3 * 25 + 128  # the stem: 5x5 convolution, batch norm
    before = 64
    for width in (64, 128, 256, 512):
        by_hand += 9 * width * (before + 3 * width) + 8 * width
        by_hand += before * width + 2 * width if before != width else 0
        before = width
    head = 712 * 512 + 1
    assert sum(parameter.numel() for parameter in plain.parameters()) == by_hand + head
    assert by_hand == pytest.approx(11.17e6, rel=1e-3)
    adapters = [value for name, value in adapted.named_parameters() if is_adapter(name)]
    assert sum(parameter.numel() for parameter in adapters) == 7686
    assert len(adapters) == 2 * 2 * 8 + 2


def test_an_image_of_84_pixels_has_the_published_maps():
    model, sizes = SurResNet(8).build(3, 5).eval(), []
    for name in ("relu", "layer1", "layer2", "layer3", "layer4"):
        model.get_submodule(name).register_forward_hook(lambda *args: sizes.append(args[2].shape[-1]))
    output = model(torch.randn(1, 3, 84, 84))
    assert sizes == [41, 41, 21, 11, 6]
    assert output.features.shape == (1, 64)
    assert (output.features >= 0).all()


def test_logits_are_cosines_times_a_learned_scale_that_starts_at_ten():
    head, x = CosineClassifier(6, num_classes=4), torch.randn(3, 6)
    expected = 10 * F.cosine_similarity(x[:, None], head.weight[None], dim=2)
    torch.testing.assert_close(head(x), expected)
    head(x).square().sum().backward()
    assert head.scale.grad.abs() > 0
    big = CosineClassifier(512, num_classes=800)
    assert big.weight.std().item() == pytest.approx((2 / 800) ** 0.5, rel=0.02)


def test_with_identity_adapters_a_member_equals_its_base_exactly():
    base, member = family()
    images = torch.randn(6, 3, 32, 32)
    base.eval(), member.eval()
    assert torch.equal(member(images).features, base(images).features)
    layout = torch.channels_last
    assert torch.equal(
        member.to(memory_format=layout)(images.to(memory_format=layout)).features,
        base.to(memory_format=layout)(images.to(memory_format=layout)).features,
    )


def test_a_changed_adapter_changes_the_features_of_its_member_alone():
    base, member = family()
    images = torch.randn(6, 3, 32, 32)
    base.eval(), member.eval()
    before = base(images).features
    for name in ("layer2.1.bn1.film_scale", "layer4.0.bn2.film_shift", "input_affine.shift"):
        changed = member.get_parameter(name)
        with torch.no_grad():
            changed += 0.5
        assert not torch.equal(member(images).features, before), name
        with torch.no_grad():
            changed -= 0.5
    assert torch.equal(base(images).features, before)


@pytest.mark.parametrize("method", [CrossEntropy(), CrossEntropyOPL()], ids=["ce", "opl"])
def test_only_adapters_and_classifier_get_gradients_and_move(method):
    _, member = family()
    before = {name: value.clone() for name, value in member.state_dict().items()}
    optimizer = torch.optim.SGD(member.parameters(), 0.1, momentum=0.9, weight_decay=7e-4)
    objective = method.build(TaskShape(5, member.feature_dim))
    objective(member.train(), batch()).total.backward()
    with_gradient = {name for name, value in member.named_parameters() if value.grad is not None}
    trained = {name for name, _ in member.named_parameters() if is_adapter(name) or name.startswith("fc.")}
    assert with_gradient == trained
    assert all(member.get_parameter(name).grad.any() for name in trained)
    optimizer.step()
    moved = {name for name, value in member.state_dict().items() if not torch.equal(value, before[name])}
    statistics = {name for name in before if name.rpartition(".")[2] in ("running_mean", "running_var")}
    assert moved - trained - statistics == {name for name in before if name.endswith("num_batches_tracked")}
    assert moved > trained
    assert statistics <= moved  # BatchNorm's statistics become those of the domain


def test_a_base_without_adapters_trains_everything():
    model = SurResNet(8).build(3, 5)
    CrossEntropy().build(TaskShape(5, 64))(model, batch()).total.backward()
    assert all(value.grad is not None and value.grad.any() for value in model.parameters())


def test_adapters_are_not_inherited_and_the_rest_must_fit():
    base, member = family()
    assert all((value == 1).all() for name, value in member.named_parameters() if name.endswith("film_scale"))
    with pytest.raises(OptionError, match="of another shape"):
        load_weights(SurResNet(16).build(3, 7), base.state_dict())
