"""Networks that NeuralScale rescales: counts, published widths, gates."""

import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from opl.experiments.models import NeuralScale
from opl.experiments.models.neural_scale import Gate, add_gates, gates_of
from opl.experiments.widths import ARCHITECTURES, STORED, count_parameters, uniform_widths

pytestmark = pytest.mark.usefixtures("one_thread")
NETWORKS = pytest.mark.parametrize("network", ARCHITECTURES)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@NETWORKS
def test_counted_parameters_equal_those_of_the_network(network):
    generator = random.Random(0)
    for _ in range(5):
        widths = [generator.randint(1, 40) for _ in ARCHITECTURES[network].base]
        widths[2] = widths[0]  # a block whose shortcut is the identity
        widths[6] = widths[4]  # one whose shortcut only halves the map
        model = NeuralScale(network).resize(tuple(widths), 3, 7)
        assert parameters(model) == count_parameters(network, widths, 7)


@NETWORKS
@pytest.mark.parametrize("ratio", [pytest.param(1.0, marks=pytest.mark.slow), 0.25])
def test_networks_of_the_published_widths_build_and_train(network, ratio):
    torch.manual_seed(0)
    model = NeuralScale(network, ratio).build(3, 100)
    assert tuple(model.facts["scaling"]["widths"]) == STORED[network][ratio]
    assert model.feature_dim == STORED[network][ratio][-1]
    images, labels = torch.randn(2, 3, 32, 32), torch.tensor([0, 99])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(2):
        loss = F.cross_entropy(model(images).logits, labels)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]


@NETWORKS
def test_gates_follow_every_batch_norm_in_the_order_of_the_widths(network):
    model = NeuralScale(network, 0.25, source="uniform", gates=True).build(3, 10)
    assert tuple(gate.width for gate in gates_of(model)) == uniform_widths(network, 0.25)
    plain = NeuralScale(network, 0.25, source="uniform").build(3, 10)
    assert parameters(model) == parameters(plain)  # gates are not trained
    assert not gates_of(plain)


def test_closed_gate_removes_its_filter():
    torch.manual_seed(0)
    model = NeuralScale("resnet18", 0.0625, source="uniform", gates=True).build(3, 5)
    images = torch.randn(3, 3, 32, 32)
    gate = gates_of(model)[3]  # the second batch norm of the second block
    gate.open[1] = 0
    expected = model(images).logits
    with torch.no_grad():
        model.get_submodule("block2.conv1").weight[1] *= 5
        model.get_submodule("block2.conv2").weight[:, 1] += 3
    torch.testing.assert_close(model(images).logits, expected)


class TinyNet(nn.Module):
    """Two convolutions with batch norm, small enough for finite differences of every gate."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 2)

    def forward(self, images):
        maps = torch.relu(self.bn1(self.conv1(images)))
        return self.fc(self.bn2(self.conv2(maps)).relu().mean((2, 3)))


def test_importance_is_the_square_of_a_finite_difference_summed_over_batches():
    torch.manual_seed(1)
    model = TinyNet()
    add_gates(model)
    model.double()
    for parameter in model.bn2.parameters():  # a zero gradient would say little
        nn.init.uniform_(parameter, 0.5, 1.5)
    gates = gates_of(model)
    gates[0].open[2] = 0
    batches = [(torch.randn(6, 2, 8, 8).double(), torch.randint(2, (6,))) for _ in range(3)]
    expected = [torch.zeros(len(gate.open)).double() for gate in gates]
    step = 1e-5
    for images, labels in batches:
        for gate, sums in zip(gates, expected, strict=True):
            for channel, value in enumerate(gate.open.tolist()):
                sides = []
                for sign in (1, -1):
                    gate.open[channel] = value + sign * step
                    sides.append(F.cross_entropy(model(images), labels).item())
                gate.open[channel] = value
                sums[channel] += (value * (sides[0] - sides[1]) / (2 * step)) ** 2
    for images, labels in batches:
        F.cross_entropy(model(images), labels).backward()
    assert not any(gate.importance.any() for gate in gates)  # only while measuring
    for gate in gates:
        gate.measuring = True
    for images, labels in batches:
        F.cross_entropy(model(images), labels).backward()
        with torch.no_grad():
            model(images)
    for gate, sums in zip(gates, expected, strict=True):
        torch.testing.assert_close(gate.importance, sums, rtol=1e-5, atol=1e-12)
    assert gates[0].importance[2] == 0
    assert gates[0].importance.sum() > 0


def test_gates_are_part_of_a_checkpoint():
    gate, other = Gate(3), Gate(3)
    gate.open[1], gate.importance[0] = 0, 7.0
    other.load_state_dict(gate.state_dict())
    assert (other.open.tolist(), other.importance.tolist()) == ([1, 0, 1], [7, 0, 0])


def test_without_a_search_the_widths_of_search_are_uniform():
    settings = NeuralScale("vgg11", 0.25, source="search")
    assert settings.after({"test/top1": 1.0}) is settings
    assert tuple(settings.build(3, 10).facts["scaling"]["widths"]) == uniform_widths("vgg11", 0.25)
