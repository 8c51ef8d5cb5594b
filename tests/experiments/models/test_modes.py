"""Evaluation mode ends with its block and restores the mode of every part."""

import pytest
import torch
from torch import nn

from opl.experiments.evaluation.episodes import episode_accuracies
from opl.experiments.evaluation.protocols import FewShot
from opl.experiments.models import CifarResNet
from opl.experiments.models.modes import unwrap
from opl.experiments.training.validation import validate
from opl.experiments.types import Batch, Images


def partly_frozen() -> nn.Module:
    """A network in training whose first batch norm is in evaluation mode."""
    model = CifarResNet(depth=8, width=4).build(3, 4)
    model.train()
    model.bn1.eval()
    return model


def batch() -> Batch:
    return Batch(torch.rand(8, 3, 8, 8), torch.arange(8) % 4, torch.arange(8), 1 / 8)


def modes(model: nn.Module) -> dict[str, bool]:
    return {name: part.training for name, part in model.named_modules()}


def images() -> Images:
    return Images(torch.randint(0, 256, (80, 3, 8, 8), dtype=torch.uint8), torch.arange(80) % 4, torch.arange(80))


USES = {
    "validation": lambda model: validate(model, [batch()], 4, keep=True),
    "episodes": lambda model: episode_accuracies(
        model, images(), [FewShot(way=2, queries=3, episodes=4)], augment=(), mean=(0.5,) * 3, std=(0.5,) * 3
    ),
}


@pytest.mark.parametrize("use", USES)
def test_validation_keeps_modes_and_statistics(use):
    model = partly_frozen()
    before, state = modes(model), {name: value.clone() for name, value in model.state_dict().items()}
    USES[use](model)
    assert modes(model) == before
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("use", USES)
def test_modes_are_restored_after_an_error(use):
    model = partly_frozen()
    before = modes(model)

    def fail(*_):
        assert not model.training
        raise RuntimeError("stop")

    model.fc.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="stop"):
        USES[use](model)
    assert modes(model) == before


def test_unwrap_returns_the_wrapped_network():
    class Engine(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

    model = partly_frozen()
    assert unwrap(Engine(model)) is model
    assert unwrap(model) is model
