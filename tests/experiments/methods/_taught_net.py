"""A tiny network, a batch for it, and methods built for both."""

import torch
from torch import nn

from opl.experiments.types import Batch, Output, TaskShape

CLASSES, SIDE, DIM = 3, 4, 5


class TinyNet(nn.Module):
    """Pixels to five features to three classes, in float64."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.body, self.fc = nn.Linear(SIDE * SIDE, DIM).double(), nn.Linear(DIM, CLASSES).double()

    def forward(self, images, labels=None):
        features = torch.tanh(self.body(images.flatten(1)))
        return Output(features, self.fc(features))


def small_batch(rows=6):
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(rows, 1, SIDE, SIDE, dtype=torch.float64, generator=generator)
    return Batch(images, torch.arange(rows) % CLASSES, torch.arange(rows), 1 / rows)


def built(method, teacher=None):
    return method.build(TaskShape(CLASSES, DIM, (2, 2, 2), 4, teacher)).double()
