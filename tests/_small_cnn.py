"""Networks and batches for tests of the plugin, what a hook sees in them, and a plain training loop."""

import pytest
import torch
from torch import nn


class SmallCNN(nn.Module):
    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 16, 3, 2), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, images):
        return self.fc(self.pool(self.body(images)).flatten(1))

    def embed(self, images):
        return self.pool(self.body(images)).flatten(1)


class Net(SmallCNN):
    """A small network whose features are kept for the test: `self.seen`, one entry a pass."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__(classes)
        self.seen = []

    def features(self, images):
        self.seen.append(self.embed(images))
        return self.seen[-1]

    def forward(self, images):
        return self.fc(self.features(images))


def data(rows: int = 24, classes: int = 4, size: int = 16):
    labels = torch.arange(rows) % classes
    return torch.randn(rows, 3, size, size) + labels[:, None, None, None], labels


def train(model, criterion, forward=None, steps: int = 3):
    """The loop that everybody has; returns its losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images, labels = data()
    losses = []
    for _ in range(steps):
        output = model(images) if forward is None else forward(images)
        loss = criterion(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def hooked(layer):
    """The inputs of a layer, one entry per pass."""
    seen = []
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    return seen


def transformer(kind, config, **settings):
    """A model of `transformers` with random weights and three classes, in training mode without dropout."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    for name in (kind, config):
        if not hasattr(transformers, name):
            pytest.skip(f"transformers has no {name}")
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings, num_labels=3)).train()
    for layer in model.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return model
