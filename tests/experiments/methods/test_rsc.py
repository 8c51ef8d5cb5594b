"""RSC vs a case by hand and vs autograd: masks, selection, gradient; nothing at test; bit-identical resume."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from opl import orthogonal_projection
from opl.errors import OptionError
from opl.experiments.methods import OPL, RSC
from opl.experiments.methods.rsc import channel_scores, label_probability, mask_largest, select_largest
from opl.experiments.models import MnistNet, Network, ResNet
from opl.experiments.models.network import with_pooling
from opl.experiments.types import Batch, TaskShape

# By hand: 2 samples, 3 channels, 2 x 2 cells (in the order they are read), 2 classes, labels 0 and 1.
WEIGHT = [[1.0, 2.0, 4.0], [3.0, -1.0, 0.0]]
MAPS = [
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2]],  # its loudest channel, by W_0 = (1, 2, 4), is the third
    [[4, 0, 1, 2], [0, 4, 0, 0], [1, 1, 1, 1]],  # by W_1 = (3, -1, 0) it is the first
]
# sum over channels of W_y / 4 * map: (1/4, 1/2, 1, 2) and (3, -1, 3/4, 3/2): the two largest cells of each
CELLS = [[1, 1, 0, 0], [0, 1, 1, 0]]
CHANNELS = [[1, 1, 0], [0, 1, 1]]


def by_hand(dtype=torch.float64) -> tuple[Network, Batch]:
    network = Network(with_pooling({"trunk": nn.Identity()}), 3, 2).to(dtype)
    with torch.no_grad():
        network.fc.weight.copy_(torch.tensor(WEIGHT))
        network.fc.bias.zero_()
    maps = torch.tensor(MAPS, dtype=dtype).view(2, 3, 2, 2)
    return network, Batch(maps.requires_grad_(), torch.tensor([0, 1]), torch.arange(2), 0.5)


def built(settings: RSC, classes: int = 2, dim: int = 3, steps: int = 1) -> nn.Module:
    return settings.build(TaskShape(classes, dim, (1,) * classes, steps)).train()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def mask_of(settings: RSC, network: Network, batch: Batch) -> torch.Tensor:
    return built(settings).challenge(network, batch.images.detach(), batch.labels)


def test_gradient_equals_closed_form_and_autograd():
    network, batch = by_hand()
    logits = network(batch.images).logits
    [gradient] = torch.autograd.grad(logits[0, 0] + logits[1, 1], batch.images)
    closed = torch.tensor([WEIGHT[0], WEIGHT[1]], dtype=torch.float64)[:, :, None, None] / 4  # W_y / HW
    torch.testing.assert_close(gradient, closed.expand(2, 3, 2, 2))
    torch.testing.assert_close(channel_scores(network, batch.images.detach(), batch.labels), closed)


def test_gradient_with_a_layer_after_pooling_equals_autograd():
    network = MnistNet(widths=(4, 4, 4, 6), embed=2).build(1, 3).double()
    maps, labels = torch.rand(5, 6, 2, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    closed = (network.fc.weight @ network.embed.weight)[labels] / 4  # the two linear layers are one
    torch.testing.assert_close(channel_scores(network, maps, labels).flatten(1), closed)
    assert all(parameter.grad is None for parameter in network.parameters())


def test_masks_equal_the_case_by_hand():
    network, batch = by_hand()
    scores = channel_scores(network, batch.images.detach(), batch.labels)
    assert mask_largest(scores.flatten(1), 1 / 3.2).tolist() == CHANNELS  # ceil(3 / 3.2) = 1 of 3 channels
    cells = (batch.images.detach() * scores).sum(1).flatten(1)
    assert (4 * cells).tolist() == [[1, 2, 4, 8], [12, -4, 3, 6]]
    assert mask_largest(cells, 1 / 3).tolist() == CELLS  # ceil(4 / 3) = 2 of 4 cells


@pytest.mark.parametrize("count", [49, 512, 2048, 7, 1])
def test_number_of_masked_entries_equals_the_released_code(count):
    scores = torch.randperm(count).double()[None]
    for part, released in (
        (1 / 3, {49: 17, 512: 171, 2048: 683, 7: 3}),
        (1 / 3.2, {49: 16, 512: 160, 2048: 640, 7: 3}),
    ):
        assert int((mask_largest(scores, part) == 0).sum()) == released.get(count, 0)  # a single one is never blanked


def test_selected_images_equal_the_case_by_hand():
    network, batch = by_hand()
    maps = batch.images.detach()
    masked = maps * torch.tensor(CHANNELS)[:, :, None, None]
    # averages (1/4, 1/4, 3/4) and (7/4, 1, 1); logits (3.75, 0.5) and (7.75, 4.25); blanked (0.75, 0.5) and (6, -1)
    assert label_probability(network, maps, batch.labels).tolist() == pytest.approx([sigmoid(3.25), sigmoid(-3.5)])
    assert label_probability(network, masked, batch.labels).tolist() == pytest.approx([sigmoid(0.25), sigmoid(-7)])
    settings = RSC(spatial=0.0, rise=0.0)
    for share, kept in ((0.0, []), (0.3, [0]), (0.5, [0]), (1.0, [0])):  # above the entry at round(2 * share)
        mask = mask_of(replace(settings, share=share), network, batch)
        expected = [CHANNELS[row] if row in kept else [1, 1, 1] for row in range(2)]
        assert mask.shape == (2, 3, 1, 1)
        assert mask.flatten(1).tolist() == expected


def test_mask_of_cells_equals_the_case_by_hand():
    mask = mask_of(RSC(spatial=1.0), *by_hand())
    assert mask.shape == (2, 1, 2, 2)
    assert mask.flatten(1).tolist() == [CELLS[0], [1, 1, 1, 1]]


def test_tied_tiny_or_missing_drops_keep_no_mask():
    drops = torch.tensor([0.5, 0.5, 0.5, 0.2])
    assert select_largest(drops, 0.25).tolist() == [False] * 4  # the entry at place 1 is as large as the largest
    assert select_largest(drops, 0.75).tolist() == [True, True, True, False]
    assert select_largest(torch.tensor([5e-5, -0.3, 0.0]), 1.0).tolist() == [False] * 3
    assert select_largest(torch.tensor([3e-4, -0.3, 0.0]), 1.0).tolist() == [True, False, False]
    assert select_largest(torch.zeros(0), 0.3).tolist() == []


def test_loss_and_gradient_are_those_of_the_masked_map():
    network, batch = by_hand()
    terms = built(RSC(spatial=0.0))(network, batch)
    terms.total.backward()
    features = torch.tensor([[0.25, 0.25, 0.0], [1.75, 1.0, 1.0]], dtype=torch.float64)  # the first sample's is blanked
    weight = torch.tensor(WEIGHT, dtype=torch.float64)
    probabilities = [[sigmoid(0.25), sigmoid(-0.25)], [sigmoid(3.5), sigmoid(-3.5)]]
    assert terms.total.item() == pytest.approx(-(math.log(sigmoid(0.25)) + math.log(sigmoid(-3.5))) / 2)
    errors = (torch.tensor(probabilities, dtype=torch.float64) - torch.eye(2, dtype=torch.float64)) / 2
    torch.testing.assert_close(network.fc.weight.grad, errors.T @ features)
    mask = torch.tensor([CHANNELS[0], [1, 1, 1]], dtype=torch.float64)
    expected = (errors @ weight * mask / 4)[:, :, None, None].expand(2, 3, 2, 2)
    torch.testing.assert_close(batch.images.grad, expected)


def test_domainbed_rule_equals_the_percentile_of_numpy():
    network = Network(with_pooling({"trunk": nn.Identity()}), 12, 5).double()
    maps, labels = torch.rand(9, 12, 1, 1, dtype=torch.float64), torch.arange(9) % 5
    features, weight = maps.flatten(1), network.fc.weight.detach()
    gradient = weight[labels].numpy()
    mask = gradient < np.percentile(gradient, 100 * (1 - 1 / 3), axis=1, keepdims=True)
    answers = [F.softmax(network.fc(x), 1)[range(9), labels] for x in (features, features * torch.from_numpy(mask))]
    drops = (answers[0] - answers[1]).detach().numpy()
    expected = mask | (drops < np.percentile(drops, 100 * (1 - 1 / 3)))[:, None]
    result = built(RSC.domainbed(), 5, 12).challenge(network, maps, labels)
    np.testing.assert_array_equal(result.flatten(1).numpy(), expected)
    assert 0 < (~expected).any(1).sum() <= 3


def test_cells_or_channels_are_drawn_from_the_global_generator():
    network, batch = by_hand()
    challenge = built(RSC()).challenge
    kinds = []
    for seed in range(200):
        torch.manual_seed(seed)
        kinds.append(challenge(network, batch.images.detach(), batch.labels).shape[1])
    assert set(kinds) == {1, 3}
    assert 70 < kinds.count(1) < 130
    torch.manual_seed(7)
    assert challenge(network, batch.images.detach(), batch.labels).shape[1] == kinds[7]


def test_more_images_are_masked_in_later_epochs():
    assert [RSC().share_at(epoch) for epoch in (0, 9, 10, 19)] == [0.3, 0.3, 0.5, 0.5]
    assert RSC().share_at(1000) == 1
    network = Network(with_pooling({"trunk": nn.Identity()}), 6, 3).double()
    maps, labels = torch.rand(10, 6, 2, 2, dtype=torch.float64), torch.arange(10) % 3
    challenge = built(RSC(spatial=0.0, every=2), 3, 6, steps=4).challenge
    kept = []
    for step in range(12):
        challenge.set_step(step)
        kept.append(int((challenge(network, maps, labels) == 0).flatten(1).any(1).sum()))
    assert kept == [3] * 8 + [5] * 4  # two epochs of four steps, then the third


def test_nothing_is_masked_in_evaluation_mode():
    network, batch = by_hand()
    objective = built(RSC(spatial=0.0))
    plain = F.cross_entropy(network(batch.images).logits, batch.labels)
    assert not torch.isclose(objective(network, batch).total, plain)
    torch.testing.assert_close(objective.eval()(network, batch).total, plain)
    network.eval()
    assert network(batch.images).features.tolist() == [[0.25, 0.25, 0.75], [1.75, 1.0, 1.0]]


@pytest.mark.parametrize("place", ["after", "before"])
def test_opl_uses_features_after_or_before_masking(place):
    network, batch = by_hand()
    terms = built(RSC(spatial=0.0, place=place, auxiliary=(OPL(weight=0.5, gamma=2.0),)))(network, batch)
    third = 0.0 if place == "after" else 0.75
    seen = torch.tensor([[0.25, 0.25, third], [1.75, 1.0, 1.0]], dtype=torch.float64)
    expected = orthogonal_projection(seen, batch.labels, gamma=2.0).loss
    torch.testing.assert_close(terms.parts["projection"], expected)
    torch.testing.assert_close(terms.total, terms.parts["entropy"] + 0.5 * expected)
    terms.total.backward()
    assert batch.images.grad[0, 2].any() == (place == "before")


def test_every_parameter_learns_in_any_precision():
    for dtype in (torch.float32, torch.float64):
        network = ResNet(depth=10, stem="half", width=8).build(3, 4).to(dtype)
        batch = Batch(torch.rand(8, 3, 32, 32, dtype=dtype), torch.arange(8) % 4, torch.arange(8), 1 / 8)
        built(RSC(), 4, 64)(network, batch).total.backward()
        assert all(parameter.grad.any() for parameter in network.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        network = ResNet(depth=10, stem="half", width=8).build(3, 4)
        assert built(RSC(), 4, 64)(network, batch._replace(images=torch.rand(8, 3, 32, 32))).total.isfinite()


def test_cells_of_domainbed_and_models_without_a_map_are_refused():
    with pytest.raises(OptionError, match="masks only channels"):
        built(RSC(rule="domainbed"))
    with pytest.raises(OptionError, match=r"a model of opl\.experiments\.models"):
        built(RSC())(nn.Linear(3, 2), by_hand()[1])
