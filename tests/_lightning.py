"""A Lightning module that trains a network with OPL in the one line."""

import pytest
import torch
from torch import nn

import opl


def module_of(network: nn.Module, lr: float):
    """Return the module: cross-entropy with OPL, by SGD; its network is `model`."""
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network
            self.criterion = opl.regularize(nn.CrossEntropyLoss(), self.model)

        def training_step(self, batch, _):
            return self.criterion(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr)

    return Module()
