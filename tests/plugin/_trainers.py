"""Trainers of Lightning and Hugging Face with a small network, and nothing written or shown."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def fit_by_lightning(network: nn.Module, criterion_of: Callable, data: tuple[Tensor, Tensor], batch, lr, **settings):
    """Train with `criterion_of(network)` by SGD, and return the network."""
    lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = network
            self.criterion = criterion_of(network)

        def training_step(self, batch, _):
            return self.criterion(self.model(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(accelerator="cpu", enable_model_summary=False, **quiet, **settings)
    trainer.fit(Module(), DataLoader(TensorDataset(*data), batch))
    return network


def hugging_face_trainer(folder, network: nn.Module, data: tuple[Tensor, Tensor], criterion_of: Callable, **settings):
    """Return a trainer whose model gives the network's output as logits; `criterion_of(model)` is its loss."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network
            self.config = transformers.PretrainedConfig()  # looked at for label smoothing

        def forward(self, inputs, labels=None):
            return {"logits": self.net(inputs)}

    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    arguments = transformers.TrainingArguments(str(folder), **(quiet | settings))
    rows = [{"inputs": x, "labels": y} for x, y in zip(*data, strict=True)]
    model = Model()
    return transformers.Trainer(model, arguments, train_dataset=rows, compute_loss_func=criterion_of(model))
