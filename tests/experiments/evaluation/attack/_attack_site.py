"""A small network that has learned a few images: what the tests of attacks attack."""

import torch
from torch import nn
from torch.nn import functional as F

from opl.experiments.evaluation.attack.settings import Attack

SHORT = Attack(iterations=6, queries=40, batch=7, eps=0.1)
CLASSES = 5


class Net(nn.Module):
    """A convolution, a dropout that must sleep, a classifier; from pixels to logits."""

    def __init__(self, classes=CLASSES):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(32, classes)

    def forward(self, images):
        return self.fc(self.body(images).flatten(1))


def learned(images, labels, steps=150):
    """A network that tells the images apart, not too far from the border."""
    model = Net().eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


def make_site():
    """A model, images in [0, 1] and labels, of which the model gets most right; some are near the border."""
    chance = torch.Generator().manual_seed(1)
    labels = torch.arange(30) % CLASSES
    patterns = torch.rand(CLASSES, 3, 1, 1, generator=chance)
    images = (patterns[labels] + 0.25 * torch.randn(30, 3, 8, 8, generator=chance)).clamp(0, 1)
    model = learned(images, labels)
    labels = labels.clone()
    labels[:3] = (labels[:3] + 1) % CLASSES  # wrong from the start
    return model, images, labels
