"""ResNet-12 vs the published network written out, and DropBlock at exactly the requested rate."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from opl.errors import OptionError
from opl.experiments.models import ResNet12
from opl.experiments.models.resnet12 import DropBlock, drop_block, seed_rate

SLIM = ResNet12(widths=(4, 6, 8, 10), block=2, ramp=4)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("size", "expected"), [(84, [42, 21, 10, 5]), (32, [16, 8, 4, 2]), (16, [8, 4, 2, 1])])
def test_every_block_halves_the_map(size, expected):
    model, seen = SLIM.build(3, 7), []
    for number in range(1, 5):
        layer = model.get_submodule(f"layer{number}")
        layer.register_forward_hook(lambda m, i, output: seen.append(tuple(output.shape[1:])))
    model(torch.randn(2, 3, size, size))
    assert seen == [(width, side, side) for width, side in zip(SLIM.widths, expected, strict=True)]


def published(weights, images, slope=0.1):
    """The features as the published net is described, from a state dict; LeakyReLU before the max-pool."""

    def normed(x, name):
        mean, variance = (weights[f"{name}.running_{what}"][:, None, None] for what in ("mean", "var"))
        gain, bias = (weights[f"{name}.{what}"][:, None, None] for what in ("weight", "bias"))
        return (x - mean) / (variance + 1e-5).sqrt() * gain + bias

    def leaky(x):
        return torch.where(x > 0, x, slope * x)

    x = images
    for block in ("layer1.0", "layer2.0", "layer3.0", "layer4.0"):
        residual = x
        for number in (1, 2, 3):
            residual = F.conv2d(residual, weights[f"{block}.conv{number}.weight"], padding=1)
            residual = normed(residual, f"{block}.bn{number}")
            residual = leaky(residual) if number < 3 else residual
        straight = normed(F.conv2d(x, weights[f"{block}.downsample.0.weight"]), f"{block}.downsample.1")
        x = F.max_pool2d(leaky(residual + straight), 2)
    return x.mean((2, 3))


def test_network_equals_the_published_one_written_out():
    model, images = SLIM.build(3, 7).double(), torch.randn(3, 3, 37, 32).double()
    for part in model.modules():  # batch norms that do something, so that a forgotten one shows
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5), nn.init.normal_(part.bias)
            part.running_mean.normal_(), part.running_var.uniform_(0.5, 1.5)
    features, logits = model.eval()(images)
    torch.testing.assert_close(features, published(model.state_dict(), images))
    torch.testing.assert_close(logits, features @ model.fc.weight.T + model.fc.bias)
    assert (features < 0).any()


def test_single_cells_are_dropped_in_the_first_two_blocks_and_squares_in_the_others():
    drops = [part for part in ResNet12(drop=0.2, block=2, ramp=9).build(3, 7).modules()
             if isinstance(part, nn.Dropout | DropBlock)]  # fmt: skip
    assert (
        list(map(repr, drops)) == ["Dropout(p=0.2, inplace=False)"] * 2 + ["DropBlock(rate=0.2, block=2, ramp=9)"] * 2
    )


def test_new_weights_are_he_normal():
    model = ResNet12().build(3, 7)
    for name, outputs in (("layer1.0.conv2", 9 * 64), ("layer4.0.conv3", 9 * 640), ("layer4.0.downsample.0", 640)):
        weight = model.get_submodule(name).weight
        assert weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.02)
        assert weight.abs().max() > 3.5 * weight.std()  # normal, not uniform
    assert all((part.weight == 1).all() for part in model.modules() if isinstance(part, nn.BatchNorm2d))


@pytest.mark.slow
def test_training_a_block_compiles_into_one_graph():
    block, maps_before = SLIM.build(3, 7).layer3, torch.randn(4, 6, 8, 8)
    twin = copy.deepcopy(block)
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for step in range(3):
        torch.manual_seed(step)
        expected = block(maps_before)
        torch.manual_seed(step)
        actual = compiled(maps_before)
        torch.testing.assert_close(actual, expected)
        expected.square().sum().backward(), actual.square().sum().backward()
    assert twin[0].drop.step == 3
    torch.testing.assert_close(twin[0].conv1.weight.grad, block[0].conv1.weight.grad)


def test_too_small_images_are_refused():
    model = SLIM.build(3, 7).eval()
    for size in ((8, 8), (15, 32), (32, 4)):
        with pytest.raises(OptionError, match="at least 16x16 pixels"):
            model(torch.randn(2, 3, *size))


SIZES = [  # height, width, side of the squares: the four maps of the published nets, then maps of every other kind
    (10, 10, 5),
    (5, 5, 5),
    (4, 4, 2),
    (2, 2, 2),
    (3, 3, 5),  # smaller than the square
    (7, 3, 5),  # smaller in one way
    (9, 4, 2),
    (6, 11, 3),
    (5, 5, 1),  # single cells
]


def maps(count, height, width):
    """Ones, so that a zero is a blanked cell; laid out channels last."""
    return torch.ones(count // 500, 500, height, width).to(memory_format=torch.channels_last)


def fraction(layer, height, width, *, rate):
    """The mean share of blanked cells, of as many maps as it takes to be four sigma sure of 1 % of the rate."""
    x, shares, sigma = maps(50_000, height, width), torch.zeros(0), math.inf
    while 4 * sigma > 0.01 * rate:
        shares = torch.cat([shares, (layer(x) == 0).float().mean((2, 3)).flatten()])
        sigma = shares.std().item() / math.sqrt(len(shares)) or math.inf
    return shares.mean().item()


@pytest.mark.parametrize(("height", "width", "block"), SIZES)
def test_requested_fraction_is_dropped_at_every_size(height, width, block):
    assert fraction(DropBlock(0.1, block), height, width, rate=0.1) == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize("rate", [1e-3, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_the_expected_fraction_is_exact(rate):
    for height, width, block in (*SIZES, (64, 64, 32)):
        ways = torch.zeros(height, width, dtype=torch.double)  # in how many places a square can lie on a cell
        tall, wide = min(block, height), min(block, width)
        for y in range(height - tall + 1):
            for x in range(width - wide + 1):
                ways[y : y + tall, x : x + wide] += 1
        stays = (1 - seed_rate(rate, ways.float()).double()) ** ways
        assert 1 - stays.mean().item() == pytest.approx(rate, rel=1e-3)


def test_rate_depends_on_the_step_only():
    layer = DropBlock(0.4, 2, ramp=4)
    for expected in (0.0, 0.1, 0.2, 0.3, 0.4, 0.4):  # its own count, step after step
        share = (layer(maps(50_000, 4, 4)) == 0).float().mean().item()
        assert share == pytest.approx(expected, rel=0.03)
    assert layer.step == 6
    layer.set_step(1)
    assert (layer(maps(50_000, 4, 4)) == 0).float().mean().item() == pytest.approx(0.1, rel=0.03)


def test_squares_start_uniformly():
    # by hand: on 3 cells in a row with squares of 2, the ends are under one square, the middle is under two
    low, high = 0.0, 1.0
    for _ in range(50):
        g = (low + high) / 2
        blanked = sum(1 - (1 - g) ** (rows * columns) for rows in (1, 2, 1) for columns in (1, 2, 1)) / 9
        low, high = (g, high) if blanked < 0.3 else (low, g)
    expected = 1 - (1 - g) ** torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]])
    result = (DropBlock(0.3, 2)(maps(200_000, 3, 3)) == 0).float().mean(1).mean(0)
    torch.testing.assert_close(result, expected, atol=0, rtol=0.02)


@pytest.mark.parametrize(("height", "width", "block"), SIZES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_every_dropped_cell_is_part_of_a_dropped_square(height, width, block, rate):
    blanked = drop_block(torch.ones(8, 100, height, width), rate, block) == 0
    tall, wide = min(block, height), min(block, width)
    covered = torch.zeros_like(blanked)
    for y in range(height - tall + 1):
        for x in range(width - wide + 1):
            whole = blanked[:, :, y : y + tall, x : x + wide].all(3).all(2)
            covered[:, :, y : y + tall, x : x + wide] |= whole[:, :, None, None]
    assert blanked.any()
    assert torch.equal(covered, blanked)


def test_samples_and_channels_are_dropped_independently():
    blanked = (drop_block(torch.ones(200, 200, 2, 2), 0.5, 2) == 0)[:, :, 0, 0].float()
    for means in (blanked.mean(0), blanked.mean(1)):  # of 200 coins: their spread is sqrt(0.25 / 200)
        assert means.std().item() == pytest.approx(math.sqrt(0.25 / 200), rel=0.2)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_kept_cells_are_scaled_and_pass_the_gradient(dtype, layout):
    x = torch.randn(16, 8, 6, 6).to(dtype, memory_format=layout).requires_grad_()
    y = DropBlock(0.3, 3)(x)
    kept = y != 0
    scale = torch.tensor(x.numel() / kept.sum().item()).to(dtype)
    assert y.dtype == dtype
    assert y.is_contiguous(memory_format=layout)
    torch.testing.assert_close(y, torch.where(kept, x * scale, 0))
    upstream = torch.randn_like(y)
    y.backward(upstream)
    torch.testing.assert_close(x.grad, torch.where(kept, upstream * scale, 0))
    assert not x.grad[~kept].any()


def test_rate_0_keeps_and_rate_1_drops_everything():
    x = torch.randn(1, 1, 1, 41)  # 41 * (1 / 41) is not 1 in fp32
    assert torch.equal(DropBlock(0.0, 3)(x), x)
    assert torch.equal(DropBlock(0.5, 3, ramp=10)(x), x)  # step 0 of a ramp
    for size, block in ((7, 3), (7, 7), (2, 5), (64, 32)):
        all_gone = torch.randn(2, 3, size, size, requires_grad=True)
        y = DropBlock(1.0, block)(all_gone)
        y.sum().backward()
        assert not y.any()
        assert not all_gone.grad.any()
    assert DropBlock(0.5, 2)(torch.ones(0, 3, 4, 4)).shape == (0, 3, 4, 4)


def test_dropped_cells_are_zero_even_if_not_finite():
    x = torch.full((4, 50, 4, 4), float("inf"))
    assert set(drop_block(x, 0.5, 2).unique().tolist()) == {0.0, float("inf")}


def test_evaluation_mode_is_the_identity():
    layer, x = DropBlock(0.4, 2, ramp=4), torch.randn(2, 3, 4, 4)
    layer.set_step(2)
    before = torch.random.get_rng_state()
    for _ in range(50):
        assert layer.eval()(x) is x
    assert torch.equal(torch.random.get_rng_state(), before)
    assert layer.step == 2
    share = (layer.train()(maps(50_000, 4, 4)) == 0).float().mean().item()
    assert share == pytest.approx(0.2, rel=0.03)


def test_state_dict_has_the_step():
    layer, x = DropBlock(0.4, 2, ramp=8), torch.randn(4, 8, 4, 4)
    for _ in range(5):
        layer(x)
    restored = DropBlock(0.4, 2, ramp=8)
    restored.load_state_dict(copy.deepcopy(layer.state_dict()))
    assert restored.step == 5
    outputs = []
    for block in (layer, restored):
        torch.manual_seed(3)
        outputs.append(block(x))
    assert torch.equal(*outputs)


def test_drop_block_compiles_into_one_graph():
    layer, x = DropBlock(0.5, 2, ramp=3), torch.randn(4, 8, 4, 4, requires_grad=True)
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(layer, fullgraph=True, backend=counted)
    for step in range(5):
        torch.manual_seed(step)
        actual = compiled(x)
        torch.manual_seed(step)
        torch.testing.assert_close(actual, drop_block(x, 0.5 * min(1, step / 3), 2))
    assert len(graphs) == 1


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        ((1.5, 2), "rate is 1.5"),
        ((float("nan"), 2), "rate is nan"),
        ((0.1, 0), "block is 0"),
        ((0.1, 2.5), "block is 2.5"),
        ((0.1, 2, -1), "ramp is -1"),
    ],
)
def test_invalid_settings_of_drop_block_are_refused(arguments, phrases):
    with pytest.raises(OptionError, match=phrases):
        DropBlock(*arguments)
