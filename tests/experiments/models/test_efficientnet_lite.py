import pytest
import torch
import torch.nn.functional as F

from opl.experiments.models import EfficientNetLite0
from opl.experiments.models.efficientnet_lite import STAGES


@pytest.fixture
def network():
    torch.manual_seed(0)
    model = EfficientNetLite0().build(3, 5)
    for name, buffer in model.named_buffers():  # statistics that differ from those of a new network
        if name.endswith("running_mean"):
            buffer.normal_(std=0.1)
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return model.eval()


def convolve(maps, weight, stride=1, groups=1):
    """TensorFlow's "same" padding: the output has ceil(size / stride) rows, extra padding is at the end."""
    kernel, pads = weight.shape[-1], []
    for size in (maps.shape[3], maps.shape[2]):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [total // 2, total - total // 2]
    return F.conv2d(F.pad(maps, pads), weight, stride=stride, groups=groups)


def forward_by_definition(weights, images):
    def norm(maps, name):
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
        return F.batch_norm(maps, mean, variance, weights[f"{name}.weight"], weights[f"{name}.bias"], eps=1e-3)

    maps = F.relu6(norm(convolve(images, weights["conv_stem.weight"], 2), "bn0"))
    index = 0
    for _, stage_stride, _, expansion, repetitions in STAGES:
        for repetition in range(repetitions):
            block, stride = f"blocks.{index}", stage_stride if repetition == 0 else 1
            hidden = maps
            if expansion > 1:
                hidden = F.relu6(norm(convolve(hidden, weights[f"{block}.expand_conv.weight"]), f"{block}.bn0"))
            depthwise = convolve(hidden, weights[f"{block}.depthwise_conv.weight"], stride, hidden.shape[1])
            hidden = F.relu6(norm(depthwise, f"{block}.bn1"))
            hidden = norm(convolve(hidden, weights[f"{block}.project_conv.weight"]), f"{block}.bn2")
            maps = hidden + maps if hidden.shape == maps.shape else hidden
            index += 1
    features = F.relu6(norm(convolve(maps, weights["conv_head.weight"]), "bn1")).mean((2, 3))
    return features, F.linear(features, weights["fc.weight"], weights["fc.bias"])


@pytest.mark.parametrize("size", [32, 63])
def test_output_equals_definition_with_same_padding(network, size):
    images = torch.rand(2, 3, size, size)
    with torch.no_grad():
        output = network(images)
        features, logits = forward_by_definition(network.state_dict(), images)
    torch.testing.assert_close(output.features, features)
    torch.testing.assert_close(output.logits, logits)


def test_running_statistics_move_by_the_momentum_from_the_published_default():
    for settings, momentum in ((EfficientNetLite0(), 0.01), (EfficientNetLite0(momentum=0.1), 0.1)):
        model = settings.build(3, 5).train()
        images = torch.rand(4, 3, 32, 32)
        with torch.no_grad():
            model(images)
        maps = convolve(images, model.conv_stem.weight.detach(), 2)
        torch.testing.assert_close(model.bn0.running_mean, momentum * maps.mean((0, 2, 3)), rtol=1e-4, atol=1e-6)
