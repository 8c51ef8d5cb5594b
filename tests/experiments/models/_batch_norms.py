"""Batch norm by its definition, and batch norms that do something."""

from torch import nn


def normalized(x, norm):
    """Batch norm in training, by its definition."""
    mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt() * norm.weight[:, None, None] + norm.bias[:, None, None]


def shuffled(block):
    """The block with batch norms that do something, so that a forgotten one shows."""
    for part in block.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.uniform_(part.weight, 0.5, 1.5)
            nn.init.normal_(part.bias)
    return block
