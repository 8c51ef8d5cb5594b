"""Table s2: the schedules of NeuralScale's released code."""

import pytest

from opl.experiments import paper


def drops(name: str) -> list[int]:
    """The epochs, counted from 0, at which the learning rate of a recipe of the paper's scale falls."""
    recipe = paper.recipe(name, "paper")
    rates = [recipe.schedule(epoch, 1, recipe.epochs) for epoch in range(recipe.epochs)]
    return [epoch for epoch in range(1, recipe.epochs) if rates[epoch] < rates[epoch - 1]]


@pytest.mark.parametrize("network", ["resnet18", "vgg11"])
def test_the_learning_rate_falls_at_the_epochs_of_the_source(network):
    assert drops(f"cifar100-neuralscale-{network}-opl") == [99, 199, 249]
    assert drops(f"cifar100-neuralscale-{network}-search-1")[:4] == [9, 19, 29, 39]
