"""Hugging Face's Trainer with a small network, a loss of one's own, and nothing written or shown."""

from collections.abc import Callable

import pytest
from torch import Tensor, nn


def trainer_of(folder, network: nn.Module, data: tuple[Tensor, Tensor], criterion_of: Callable, **settings):
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
