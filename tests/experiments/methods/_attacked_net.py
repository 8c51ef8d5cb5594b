"""A tiny network that records its inputs, and the adversarial methods built for it."""

import pytest
import torch
from torch import nn

from opl.experiments.methods import MART, OPL, TRADES, AdversarialTraining
from opl.experiments.types import Batch, Output, TaskShape

CLASSES, SIDE, DIM = 5, 6, 7
METHODS = {
    "madry": AdversarialTraining(auxiliary=(OPL(weight=0.7),)),
    "madry, eval": AdversarialTraining(inner="eval", random_start=False),
    "madry, l2": AdversarialTraining(norm="l2", eps=0.5, step=0.2, steps=3),
    "mart": MART(steps=3, auxiliary=(OPL(weight=0.7),)),
    "trades": TRADES(steps=3, auxiliary=(OPL(weight=0.7),)),
}
EVERY = pytest.mark.parametrize("name", METHODS)


class TinyNet(nn.Module):
    """Convolution, batch norm, features, classes; in float64; remembers what it was shown, and in which mode."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.body = nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten())
        self.embed, self.fc = nn.Linear(3 * SIDE * SIDE, DIM), nn.Linear(DIM, CLASSES)
        self.double()
        self.seen = []

    def forward(self, images, labels=None):
        self.seen.append((images.detach().clone(), self.training))
        features = torch.tanh(self.embed(self.body(images)))
        return Output(features, self.fc(features))


def small_batch(rows=6, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(rows, 2, SIDE, SIDE, dtype=dtype, generator=generator)
    images[0] = (images[0] > 0.5).to(dtype)  # black and white, where [0, 1] is felt
    return Batch(images, torch.arange(rows) % CLASSES, torch.arange(rows), 1 / rows)


def built(method):
    return method.build(TaskShape(CLASSES, DIM, (2,) * CLASSES, 4)).double()


def distance(moved, images, norm):
    delta = (moved - images).flatten(1)
    return (delta.abs().amax(1) if norm == "linf" else delta.square().sum(1).sqrt()).max().item()
